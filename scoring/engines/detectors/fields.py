"""Labels and their values on a form: "Date of birth: 1 May 1980", or the value next to or below the label."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from scoring.engines.detectors.ocr import TextLine
from scoring.text_rules.vocabulary import field_kinds, squashed

_NUMBERED = re.compile(r"\A(?:\(?\d{1,2}[a-dA-D]?[.)]?\s?|[a-f]\s)(?=[A-Za-z])")
"""Field numbers, as printed on driving licences ("4b EXP") and tax forms."""
_CUT_LABEL = re.compile(r"(\D{2,30}\.)\s+([A-Z0-9][A-Za-z0-9./ -]*)")
"""A label that ends in a point, and the text after it."""
_NUMBERS = ("id_number", "membership", "account", "phone", "ssn", "booking")
"""Kinds of fields that hold a number or code."""
_GAP = 14.0
"""A value is at most this many line heights right of its label …"""
_DROP = 2.6
"""… or this many below it."""


@dataclass(frozen=True)
class Field:
    """A form label and its possible values."""

    kind: str
    """Kind of the label in `data/field_labels.txt`."""

    label: TextLine
    values: tuple[tuple[str, TextLine], ...]
    """Candidates with their lines, the likeliest first."""


def split_label(text: str) -> tuple[str, str] | None:
    """Return (kind, rest of the line) if a line starts with a field label.

    >>> split_label("DOB: 01/02/1980"), split_label("Vorname / Given names"), split_label("Dear all")
    (('birth_date', '01/02/1980'), ('first_name', ''), None)
    """
    text = _NUMBERED.sub("", text.strip())
    head, mark, tail = _cut(text)
    if mark and (kind := _kind(head)):
        return kind, _until_next_label(tail)
    if abbreviated := _abbreviated(text):
        return abbreviated
    if kind := _kind(text):
        return kind, ""
    return _leading_words(text)


def _abbreviated(text: str) -> tuple[str, str] | None:
    """Split a label with an abbreviated last word from a number: "Passport no. 12345"."""
    match = _CUT_LABEL.fullmatch(text)
    if not match:
        return None
    label, code = match.groups()
    kind = field_kinds().get(squashed(label))
    is_code = any(map(str.isdigit, code)) or code.isupper()
    return (kind, code) if kind in _NUMBERS and is_code else None


def _cut(text: str) -> tuple[str, str, str]:
    match = re.search(r"[:#\uff1a=]", text)
    return (text[: match.start()], match[0], text[match.end() :].strip(" :#.")) if match else (text, "", "")


def _kind(label: str) -> str | None:
    """Return the kind of a label, whole or one of its translations ("Surname/Nom")."""
    kinds = field_kinds()
    if whole := kinds.get(squashed(label)):
        return whole
    parts = [part for part in re.split(r"[/|,()•.\u2013-]|\s{2,}", label) if len(part.strip()) > 1]
    part_kinds = [kinds.get(squashed(part)) for part in parts]
    return part_kinds[0] or (part_kinds[-1] if 2 <= len(part_kinds) <= 3 else None) if part_kinds else None


def _leading_words(text: str) -> tuple[str, str] | None:
    """Split a label from its value without a mark between: "SEX M", "DOB01/06/1958"."""
    spaced = re.sub(r"(?<=[A-Za-z])(?=\d)", " ", text).split()
    for count in range(min(4, len(spaced) - 1), 0, -1):
        label = " ".join(spaced[:count])
        kind = field_kinds().get(squashed(label))
        if kind and label[0].isupper() and not spaced[count][0].islower():
            return kind, " ".join(spaced[count:])
    return None


def _until_next_label(text: str) -> str:
    """Return the value before a second label in the same line."""
    for mark in re.finditer(r":", text):
        ahead = text[: mark.start()].split()
        for count in range(min(3, len(ahead)), 0, -1):
            if squashed(" ".join(ahead[-count:])) in field_kinds():
                return " ".join(ahead[:-count])
    return text


def read_fields(lines: Sequence[TextLine]) -> list[Field]:
    split = [split_label(line.text) for line in lines]
    free = [line for line, label in zip(lines, split, strict=True) if label is None or label[1]]
    fields = []
    for line, label in zip(lines, split, strict=True):
        if label is None:
            continue
        kind, rest = label
        values = [(rest, line)] if rest else [(near.text, near) for near in _neighbours(line, free)]
        fields.append(Field(kind, line, tuple(values)))
    return fields


def _neighbours(label: TextLine, lines: Sequence[TextLine]) -> list[TextLine]:
    """Return the nearest line on the same row, then the nearest two below."""
    row = [line for line in lines if same_row(line, label) and line.left - label.right + 0.5 * label.height >= 0]
    row = [line for line in row if line.left - label.right < _GAP * label.height]
    below = [line for line in lines if _is_below(line, label)]
    nearest = sorted(row, key=lambda line: line.left)[:1]
    return nearest + sorted(below, key=lambda line: line.y)[:2]


def same_row(line: TextLine, other: TextLine) -> bool:
    return line is not other and abs(line.y - other.y) < 0.6 * max(line.height, other.height)


def _is_below(line: TextLine, label: TextLine) -> bool:
    height = max(line.height, label.height)
    starts_near = abs(line.left - label.left) < 2.5 * height or label.left <= line.x <= label.right
    return starts_near and 0.5 * height < line.y - label.y < _DROP * height
