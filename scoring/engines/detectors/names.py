"""Names of people in a text line: listed given names, family names, titles and the shape of names."""

import re

from scoring.engines.detectors.vocabulary import plain, terms, words

_WORD = re.compile(r"[^\W\d_][^\W\d_'’-]*[^\W\d_]\.?|[A-Z]\.?")
_TITLE = re.compile(
    r"\b(?:mr|mrs|ms|miss|mx|dr|prof|herr|frau|mme|mlle|monsieur|madame|sr|sra|srta|señora?|signora?|sig|dhr|mevr)\b\.?:?\s?",
    re.IGNORECASE,
)
_PARTICLES = frozenset("de da di do dos das del della van von der den ten la le el al bin ibn y e zu af st mac mc".split())
_NOT_A_NAME = frozenset(
    "street avenue road lane drive court place boulevard square beach county university airport station park hotel "
    "hall house island river lake mountain valley bridge church cathedral school college library museum stadium "
    "theatre theater city town village state north south east west union day week month year and or the of for in on "
    "at to with from by is are not no yes new old your our my his her please card number date name first last tower "
    "press times post daily book books award awards cup league club bay creek hills canyon springs national royal "
    "street. prize project edition volume chapter page total price sale menu open closed plaza center centre".split()
)


def _tokens(text: str) -> list[str]:
    """Words; where OCR lost a space between two capitalised words it is put back."""
    spaced = re.sub(r"(?<=[a-zß-ÿ]{2})(?=[A-Z][a-zß-ÿ]{2})", " ", text)
    return _WORD.findall(spaced)


def is_given(word: str) -> bool:
    lower = plain(word).rstrip(".")
    return any(part in words("first_names.txt") for part in [lower, *lower.split("-")])


def _may_be_given(word: str) -> bool:
    return is_given(word) or plain(word) in words("ambiguous_names.txt")


def _is_family(word: str) -> bool:
    return any(part in words("surnames.txt") for part in [plain(word), *plain(word).split("-")])


def _capitalised(word: str) -> bool:
    return word[:1].isupper()


def _name_word(word: str) -> bool:
    lower = plain(word).rstrip(".")
    return (_capitalised(word) and lower not in _NOT_A_NAME) or lower in _PARTICLES


def value_shape(text: str) -> str | None:
    """How the value of a field "name" reads: "full" (2–5 words), "single", or None where it is no person's.

    >>> value_shape("Okafor, Harriet"), value_shape("ANNA"), value_shape("Contoso Ltd"), value_shape("see above")
    ('full', 'single', None, None)
    """
    bare = _TITLE.sub("", re.sub(r"[(\[].*", "", text)).strip(" :;,._-|*#")
    if "/" in bare and re.fullmatch(r"[A-Z]{2,}/[A-Z ]{2,}", bare):
        return "full"
    if re.search(r"\d|[@/\\%$€£=+<>]", bare) or not 2 <= len(bare) <= 45 or terms("business", bare):
        return None
    found = _tokens(bare)
    if not found or not all(_name_word(word) for word in found) or not _capitalised(found[0]):
        return None
    long = [word for word in found if len(word.rstrip(".")) >= 2 and plain(word) not in _PARTICLES]
    if not long or len(found) > 5 or not _vowels(long):
        return None
    return "full" if len(long) >= 2 else "single"


def _vowels(found: list[str]) -> bool:
    return any(set(plain(word)) & set("aeiouy") for word in found)


def person(text: str) -> str | None:
    """Whether a line names a person: "full", "probable" (listed given name before an unknown word) or None.

    A listed given name before a listed family name is enough anywhere; before an unknown word the line must
    hold nothing else.
    """
    found = _tokens(text)
    if terms("business", text) and not _TITLE.search(text):
        found = [] if len(found) <= 6 else found
    titled = _TITLE.match(text.strip())
    if titled and value_shape(text.strip()[titled.end() :].split(",")[0]) == "full":
        return "full"
    verdict = None
    for index, word in enumerate(found):
        rest = found[index + 1 :]
        while rest and (len(rest[0].rstrip(".")) == 1 or plain(rest[0]) in _PARTICLES):
            rest = rest[1:]
        if not rest or not _capitalised(word) or not _name_word(rest[0]) or len(rest[0]) < 2:
            continue
        verdict = _pair(word, rest, alone=len(found) <= 4 and index == 0) or verdict
        if verdict == "full":
            return verdict
    return verdict


def _pair(word: str, rest: list[str], alone: bool) -> str | None:
    following, behind = rest[0], rest[1:]
    if behind and plain(behind[0]).rstrip(".") in _NOT_A_NAME and _capitalised(behind[0]):
        return None
    same_case = word.isupper() == following.isupper()
    if not same_case:
        return None
    if _may_be_given(word) and _is_family(following):
        return "full"
    if _is_family(word) and is_given(following) and alone:
        return "full"
    if is_given(word) and alone and all(_name_word(other) for other in rest):
        return "full"
    return "probable" if is_given(word) else None


def given_only(text: str) -> bool:
    """Nothing but one given name."""
    found = _tokens(text)
    return len(found) == 1 and _may_be_given(found[0]) and _capitalised(found[0])
