"""Kinds of evidence in a caption, found by the same text rules as in lines that are read in pictures.

Only kinds leave this module, never words of the caption. The rules are plain Python: no model, no OCR.
"""

import re
from collections.abc import Callable

from scoring.text_rules import names, patterns

MAX_LINE_CHARACTERS = 200
"""The rules are made for the short lines of a page."""

MAX_WORD_CHARACTERS = 16
"""Longer words are removed before the search for a street. The rule no longer needs that; it stays so that the kinds of
a caption are those of older runs."""

_OVERLAP = 60
"""Characters that the pieces of a long line have in common, so that evidence at a cut is found."""

_LONG_WORD = re.compile(rf"\S{{{MAX_WORD_CHARACTERS + 1},}}")

CAPTION_KINDS: dict[str, Callable[[str], object]] = {
    "IBAN": patterns.has_iban,
    "SSN": patterns.has_ssn,
    "card_number": lambda line: patterns.card_number(line) == "valid",
    "city_with_postcode": patterns.has_city_line,
    "date": patterns.has_date,
    "date_of_birth": patterns.tells_birth,
    "email_address": patterns.email_parts,
    "full_name": names.names_person,
    "network_address": patterns.has_network_address,
    "phone_number": patterns.has_phone,
    "street_address": lambda line: patterns.has_street_address(_LONG_WORD.sub(" ", line)),
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
