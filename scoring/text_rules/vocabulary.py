"""The word lists in `data`, and the comparison of OCR text with them.

OCR drops spaces and takes O for 0 and l for I or 1: comparisons treat these as equal.
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
