"""The word lists in `data`, and the comparison of OCR text with them.

Also names of people in a line of text: listed given names, family names, titles and the shape of names.

OCR drops spaces and takes O for 0 and l for I or 1: comparisons treat these as equal.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent / "data"
_SAME = str.maketrans("0i1|", "olll")
_LONG_ENOUGH = 8
"""A wording this long is recognised even in a line without spaces; shorter ones need word borders."""


def plain(text: str) -> str:
    """Return lower case without accents: "Prénom" -> "prenom"."""
    parts = unicodedata.normalize("NFKD", text.replace("ß", "ss").replace("\u2019", "'").replace("ø", "o"))
    return "".join(c for c in parts if not unicodedata.combining(c)).lower()


def squashed(text: str) -> str:
    """Keep letters and digits only, with look-alikes joined: "Date of Birth" and "Dateof B1rth" -> "dateofblrth"."""
    return re.sub(r"[^\w]|_", "", plain(text)).translate(_SAME)


def rows(file: str) -> list[str]:
    """Return the lines of a list, without comments."""
    lines = (_FOLDER / file).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


@cache
def words(file: str) -> frozenset[str]:
    """Return a list of words, any number per row."""
    return frozenset(word for row in rows(file) for word in row.split())


@cache
def wordings(file: str) -> dict[str, tuple[str, ...]]:
    """Return kind -> wordings from a file with rows "kind: wording | wording". A kind may have several rows."""
    kinds: dict[str, list[str]] = {}
    for row in rows(file):
        kind, _, rest = row.partition(": ")
        kinds.setdefault(kind, []).extend(wording.strip() for wording in rest.split("|"))
    return {kind: tuple(listed) for kind, listed in kinds.items()}


@cache
def field_kinds() -> dict[str, str]:
    """Return squashed wording of a field label -> kind of field."""
    return {squashed(word): kind for kind, labels in wordings("field_labels.txt").items() for word in labels}


@cache
def _matchers(kind: str) -> tuple[tuple[str, str, re.Pattern[str]], ...]:
    longest_first = sorted(wordings("terms.txt")[kind], key=len, reverse=True)
    return tuple((w, squashed(w), re.compile(rf"(?<![a-z0-9]){re.escape(plain(w))}(?![a-z])")) for w in longest_first)


def terms(kind: str, text: str) -> frozenset[str]:
    """Return the wordings of a kind in a text; of overlapping ones the longest ("invoice no", not "invoice")."""
    lower, joined = plain(text), squashed(text)
    matches: list[str] = []
    for wording, compact, pattern in _matchers(kind):
        if any(wording in longer for longer in matches):
            continue
        if (len(compact) >= _LONG_ENOUGH and compact in joined) or pattern.search(lower):
            matches.append(wording)
    return frozenset(matches)


_WORD = re.compile(r"[^\W\d_][^\W\d_'\u2019-]*[^\W\d_]\.?|[A-Z]\.?")
_TITLE = re.compile(
    r"\b(?:mr|herrn|docteur|mrs|ms|miss|mx|dr|prof|herr|frau|mme|mlle|monsieur|madame|sr|sra|srta|señora?|signora?|sig|dhr|mevr)"
    r"\b\.?:?\s?",
    re.IGNORECASE,
)


def _tokens(text: str) -> list[str]:
    """Split into words, also where OCR lost the space between two capitalised words."""
    spaced = re.sub(r"(?<=[a-zß-ÿ]{2})(?=[A-Z][a-zß-ÿ]{2})", " ", text)
    return _WORD.findall(spaced)


def is_given(word: str) -> bool:
    lower = plain(word).rstrip(".")
    return any(part in words("first_names.txt") for part in [lower, *lower.split("-")])


def _may_be_given(word: str) -> bool:
    return is_given(word) or plain(word) in words("ambiguous_names.txt")


def _is_family(word: str) -> bool:
    return any(part in words("surnames.txt") for part in [plain(word), *plain(word).split("-")])


def _name_word(word: str) -> bool:
    lower = plain(word).rstrip(".")
    return (word[:1].isupper() and lower not in words("not_names.txt")) or lower in words("particles.txt")


def value_shape(text: str) -> str | None:
    """Say how the value of a field "name" reads: "full" (2-5 words), "single", or None if it is no person's.

    >>> value_shape("Okafor, Harriet"), value_shape("ANNA"), value_shape("Contoso Ltd")
    ('full', 'single', None)
    """
    bare = _TITLE.sub("", re.sub(r"[(\[].*", "", text)).strip(" :;,._-|*#")
    if _is_on_ticket(bare, is_titled=bare != text.strip()):
        return "full"
    if re.search(r"\d|[@/\\%$€£=+<>]", bare) or not 2 <= len(bare) <= 45 or _is_vocabulary(bare):
        return None
    tokens = _tokens(bare)
    if not tokens or not all(_name_word(word) for word in tokens) or not tokens[0][:1].isupper():
        return None
    long = [word for word in tokens if len(word.rstrip(".")) >= 2 and plain(word) not in words("particles.txt")]
    if len(tokens) > 5 or not any(set(plain(word)) & set("aeiouy") for word in long):
        return None
    return "full" if len(long) >= 2 else "single"


def _is_on_ticket(text: str, is_titled: bool) -> bool:
    """Recognise "NOVAK/PETRA"; with gaps ("NOVAK / PETRA") many other pairs of words look alike."""
    if re.fullmatch(r"[A-Z]{2,}/[A-Z ]{2,}", text):
        return True
    is_pair = bool(re.fullmatch(r"[A-Z]{2,}\s?/\s?[A-Z ]{2,}", text))
    return is_pair and (is_titled or any(is_given(word) or _is_family(word) for word in _tokens(text)))


def _is_vocabulary(text: str) -> bool:
    kinds = ("business", "identity", "medical", "financial", "receipt", "social", "job", "letter")
    return any(terms(kind, text) for kind in kinds)


def known_name(text: str) -> bool:
    """Return whether the text is a full name of which at least one word is in the lists."""
    return value_shape(text) == "full" and any(_may_be_given(w) or _is_family(w) for w in _tokens(text))


def titled(text: str) -> bool:
    """Return whether a title has a name behind it ("Dr. Lindqvist"), enough to identify a person within a place."""
    return any(text[match.end() :][:1].isupper() for match in _TITLE.finditer(text) if text[match.start()].isupper())


def only_title(text: str) -> bool:
    """Return whether a text is nothing but a title, as in the first line of an address."""
    return bool(_TITLE.fullmatch(text.strip() + " "))


_IDENTIFIER = re.compile(r"[^\W_]_[^\W_]")
"""Inside of a name in code, or of a mailbox: "MAIN_WINDOW"."""
_MAX_LABELS = 8
"""Labels of one line that names are looked for behind."""


def names_person(text: str) -> bool:
    """Return whether a line names a person with first and last name.

    A listed given name before a listed family name is enough anywhere; before an unknown word the line must
    hold nothing else, a label of any kind before a colon apart.
    """
    written = " ".join(word for word in text.split(" ") if not _IDENTIFIER.search(word))
    return any(map(_names_person, _behind_labels(written)))


def _behind_labels(text: str) -> Iterator[str]:
    """Yield the line, then what follows its first label, its second, …"""
    yield text
    for _ in range(_MAX_LABELS):
        label, colon, behind = text.partition(":")
        if not colon or len(label.split()) > 3:
            return
        text = behind.lstrip(": \t")
        yield text


def _names_person(text: str) -> bool:
    bare = text.strip()
    if (title := _TITLE.match(bare)) and value_shape(bare[title.end() :].split(",")[0]) == "full":
        return True
    tokens = _tokens(text)
    return _hold_name(tokens) and (len(tokens) > 6 or not _is_vocabulary(text))


def _hold_name(tokens: list[str]) -> bool:
    """Go from the last word to the first, so that a long row of initials is passed through once."""
    behind = len(tokens)
    for index in reversed(range(len(tokens))):
        rest = tokens[behind : behind + 4]
        if rest and _is_name(tokens[index], rest, alone=index == 0 and len(tokens) <= 4):
            return True
        is_initial = len(tokens[index].rstrip(".")) == 1
        if not is_initial and plain(tokens[index]) not in words("particles.txt"):
            behind = index
    return False


def _is_name(word: str, rest: list[str], alone: bool) -> bool:
    """Return whether the words are a name. rest: those that follow, without initials and particles."""
    if not word[:1].isupper() or len(rest[0]) < 2 or not _name_word(rest[0]):
        return False
    # "Martin Luther Street", "John Lewis Store"
    is_place = len(rest) > 1 and rest[1][:1].isupper() and plain(rest[1]).rstrip(".") in words("not_names.txt")
    if is_place or word.isupper() != rest[0].isupper():
        return False
    if _may_be_given(word) and _is_family(rest[0]):
        return True
    is_reversed = _is_family(word) and is_given(rest[0])
    return alone and (is_reversed or (is_given(word) and all(_name_word(other) for other in rest)))


def given_only(text: str) -> bool:
    """Return whether a text is nothing but one given name."""
    tokens = _tokens(text)
    return len(tokens) == 1 and _may_be_given(tokens[0]) and tokens[0][:1].isupper()
