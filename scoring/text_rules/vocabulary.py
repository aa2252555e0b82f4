"""The word lists in `data`, and how text as OCR reads it is compared with them.

OCR drops spaces and takes O for 0 and l for I or 1: wordings are compared where these are the same.
"""

import re
import unicodedata
from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent / "data"
_SAME = str.maketrans("0i1|", "olll")
_LONG_ENOUGH = 8
"""A wording this long is recognised even in a line without spaces; shorter ones need word borders."""


def plain(text: str) -> str:
    """Lower case without accents: "Prénom" -> "prenom"."""
    parts = unicodedata.normalize("NFKD", text.replace("ß", "ss").replace("\u2019", "'").replace("ø", "o"))
    return "".join(c for c in parts if not unicodedata.combining(c)).lower()


def squashed(text: str) -> str:
    """Letters and digits only, look-alikes joined: "Date of Birth" and "Dateof B1rth" -> "dateofblrth"."""
    return re.sub(r"[^\w]|_", "", plain(text)).translate(_SAME)


def rows(file: str) -> list[str]:
    """The lines of a list, without comments."""
    lines = (_FOLDER / file).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


@cache
def words(file: str) -> frozenset[str]:
    """A list of words, any number in a row."""
    return frozenset(word for row in rows(file) for word in row.split())


@cache
def wordings(file: str) -> dict[str, tuple[str, ...]]:
    """Kind -> its wordings, of a file with rows "kind: wording | wording". A kind may have several rows."""
    kinds: dict[str, list[str]] = {}
    for row in rows(file):
        kind, _, rest = row.partition(": ")
        kinds.setdefault(kind, []).extend(wording.strip() for wording in rest.split("|"))
    return {kind: tuple(found) for kind, found in kinds.items()}


@cache
def field_kinds() -> dict[str, str]:
    """Squashed wording of a field label -> kind of field."""
    return {squashed(word): kind for kind, found in wordings("field_labels.txt").items() for word in found}


@cache
def _matchers(kind: str) -> tuple[tuple[str, str, re.Pattern[str]], ...]:
    found = sorted(wordings("terms.txt")[kind], key=len, reverse=True)
    return tuple((w, squashed(w), re.compile(rf"(?<![a-z0-9]){re.escape(plain(w))}(?![a-z])")) for w in found)


def terms(kind: str, text: str) -> frozenset[str]:
    """The wordings of a kind in a text; of overlapping ones the longest ("invoice no", not "invoice")."""
    lower, joined = plain(text), squashed(text)
    found: list[str] = []
    for wording, compact, pattern in _matchers(kind):
        if any(wording in longer for longer in found):
            continue
        if (len(compact) >= _LONG_ENOUGH and compact in joined) or pattern.search(lower):
            found.append(wording)
    return frozenset(found)
