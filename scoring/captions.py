"""Kinds of evidence in a caption, found by the same text rules as in lines that are read in pictures.

Only kinds leave this module, and texts from which what was found is removed (`masked`). The rules are plain Python: no
model, no OCR.
"""

import re
from collections.abc import Callable

from scoring.text_rules import patterns, vocabulary

MAX_LINE_CHARACTERS = 200
"""The rules are made for the short lines of a page."""

_OVERLAP = 60
"""Characters that the pieces of a long line have in common, so that evidence at a cut is found."""

CAPTION_KINDS: dict[str, Callable[[str], object]] = {
    "IBAN": patterns.has_iban,
    "SSN": patterns.SSN.search,
    "card_number": lambda line: patterns.card_number(line) == "valid",
    "city_with_postcode": patterns.has_city_line,
    "date": patterns.has_date,
    "date_of_birth": patterns.tells_birth,
    "email_address": patterns.email_parts,
    "full_name": vocabulary.names_person,
    "network_address": patterns.has_network_address,
    "phone_number": patterns.has_phone,
    "street_address": patterns.has_street_address,
    "user_name": patterns.has_handle,
}
"""Kind -> whether a line holds it. Names and dates of the caption's subject count, famous ones too."""


def caption_kinds(caption: str) -> tuple[str, ...]:
    """Return the kinds in a caption, sorted; empty if there is none."""
    pieces = list(_pieces(caption))
    return tuple(sorted(kind for kind, holds in CAPTION_KINDS.items() if any(map(holds, pieces))))


def _pieces(caption: str) -> list[str]:
    step = MAX_LINE_CHARACTERS - _OVERLAP
    lines = [line.strip() for line in re.split(r"[\n|]|(?<=[.!?;])\s", caption)]
    return [line[start : start + MAX_LINE_CHARACTERS] for line in lines for start in range(0, len(line) or 1, step)]


MAX_MASKED_CHARACTERS = 16_384
"""Longer texts are removed as a whole."""

_MAX_NARROWED = 300
"""Longer lines that hold something are removed as a whole: to find the words takes time that grows with its square."""

REMOVED = "[removed]"


def masked(text: str) -> str:
    """Return a text with the kind of evidence in place of each piece that holds it; the rules find nothing in it then.

    What is next to such a piece and begins with a capital, or has a digit or @, goes with it: rules often see a part of
    a name or number alone. If the rules still find something, the line is removed, else the text.

    >>> masked("A dog. Call Anna Maria Smith, 555-010-4477, today.")
    'A dog. [full_name] today.'
    """
    if len(text) > MAX_MASKED_CHARACTERS:
        return REMOVED
    if not caption_kinds(text):
        return text
    result = "".join(_masked_line(line) for line in _SEPARATOR.split(text))
    return REMOVED if caption_kinds(result) else result


_SEPARATOR = re.compile(r"([\n|]|(?<=[.!?;])\s)")
"""As `_pieces` divides a text."""


def _masked_line(line: str) -> str:
    kinds = caption_kinds(line)
    masked = line
    for kind in kinds if len(line) <= _MAX_NARROWED else ():
        masked = _without(masked, kind)
    return f"[{', '.join(kinds)}]" if kinds and (masked == line or caption_kinds(masked)) else masked


def _without(line: str, kind: str) -> str:
    """Replace the pieces of one kind, the shortest first that the rule holds for."""
    words = re.findall(r"\S+\s*|^\s+", line)

    def holds(first: int, last: int) -> bool:
        return any(map(CAPTION_KINDS[kind], _pieces("".join(words[first:last]))))

    num_left = len(words)
    while num_left and holds(0, len(words)):
        first, last, num_left = 0, len(words), num_left - 1
        while last - first > 1 and holds(first + 1, last):
            first += 1
        while last - first > 1 and holds(first, last - 1):
            last -= 1
        while first > 0 and _goes_along(words[first - 1]):
            first -= 1
        while last < len(words) and _goes_along(words[last]):
            last += 1
        end = re.search(r"\s*$", words[last - 1])
        words[first:last] = [f"[{kind}]{end[0] if end else ''}"]
    return "".join(words)


def _goes_along(word: str) -> bool:
    return word[:1].isupper() or "@" in word or any(map(str.isdigit, word))
