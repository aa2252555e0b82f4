"""The kind of page that a picture's text makes: a form, a chat, running text, a shop's paper, a few words.

Forms have labels and values: "Date of birth: 1 May 1980", or the value next to or below the label.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from scoring.engines.detectors.findings import Finding
from scoring.engines.detectors.ocr import LINE_SHAPE, READABLE, SURELY_READ, TextLine
from scoring.text_rules import patterns
from scoring.text_rules.vocabulary import field_kinds, squashed, terms

_NUMBERED = re.compile(r"\A(?:\(?\d{1,2}[a-dA-D]?[.)]?\s?|[a-f]\s)(?=[A-Za-z])")
"""Field numbers, as printed on driving licences ("4b EXP") and tax forms."""
_CUT_LABEL = re.compile(r"(\D{2,30}\.)\s+([A-Z0-9][A-Za-z0-9./ -]*)")
"""A label with an abbreviated last word, and the text after it: "Passport no. 12345"."""
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
    mark = re.search(r"[:#\uff1a=]", text)
    if mark and (kind := _kind(text[: mark.start()])):
        return kind, _until_next_label(text[mark.end() :].strip(" :#."))
    if match := _CUT_LABEL.fullmatch(text):
        label, code = match.groups()
        kind = field_kinds().get(squashed(label))
        if kind in _NUMBERS and (any(map(str.isdigit, code)) or code.isupper()):
            return kind, code
    if kind := _kind(text):
        return kind, ""
    # Without a mark between: "SEX M", "DOB01/06/1958".
    spaced = re.sub(r"(?<=[^\W\d_])(?=\d)", " ", text).split()
    for count in range(min(4, len(spaced) - 1), 0, -1):
        label = " ".join(spaced[:count])
        kind = field_kinds().get(squashed(label))
        if kind and not label[0].islower() and not spaced[count][0].islower():
            return kind, " ".join(spaced[count:])
    return None


def _kind(label: str) -> str | None:
    """Return the kind of a label, whole or one of its translations ("Surname/Nom")."""
    kinds = field_kinds()
    if whole := kinds.get(squashed(label)):
        return whole
    parts = [part for part in re.split(r"[/|,()•.\u2013-]|\s{2,}", label) if len(part.strip()) > 1]
    part_kinds = [kinds.get(squashed(part)) for part in parts]
    return part_kinds[0] or (part_kinds[-1] if 2 <= len(part_kinds) <= 3 else None) if part_kinds else None


def _until_next_label(text: str) -> str:
    """Return the value before a second label in the same line."""
    for mark in re.finditer(r":", text):
        ahead = text[: mark.start()].split()
        for count in range(min(3, len(ahead)), 0, -1):
            if squashed(" ".join(ahead[-count:])) in field_kinds():
                return " ".join(ahead[:-count])
    return text


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


_LATIN = re.compile(r"[0-9A-Za-zÀ-ɏ]")
_MOST_UNREAD = 0.1
"""Up to a twentieth of an English page is not read well: small print, logos, a signature."""


@dataclass(frozen=True)
class Page:
    """The lines of one view."""

    lines: tuple[TextLine, ...]
    """All lines, including unreadable ones."""

    width: int
    height: int
    """Size of the view, in pixels."""

    @cached_property
    def readable(self) -> tuple[TextLine, ...]:
        return tuple(
            line.in_other_script or line
            for line in self.lines
            if line.in_other_script or (line.confidence >= READABLE and _LATIN.search(line.text))
        )

    @cached_property
    def unread(self) -> tuple[TextLine, ...]:
        """Lines in a script or hand that the recogniser cannot read, though Tesseract may."""
        return tuple(line for line in self.lines if _is_unread(line))

    @cached_property
    def is_partly_unread(self) -> bool:
        """Whether more than a few signs are unread, so that these may hold missed evidence."""
        unread = sum(line.length for line in self.unread)
        return unread > _MOST_UNREAD * (unread + sum(line.length for line in self.lines if _is_read(line)))

    @cached_property
    def fields(self) -> list[Field]:
        split = [split_label(line.text) for line in self.readable]
        free = [line for line, label in zip(self.readable, split, strict=True) if label is None or label[1]]
        fields = []
        for line, label in zip(self.readable, split, strict=True):
            if label is not None:
                kind, rest = label
                values = [(rest, line)] if rest else [(near.text, near) for near in _neighbours(line, free)]
                fields.append(Field(kind, line, tuple(values)))
        return fields

    @cached_property
    def short(self) -> tuple[TextLine, ...]:
        """Lines that are not running text: titles, labels, values."""
        return tuple(line for line in self.readable if not is_prose(line.text))

    @cached_property
    def num_chars(self) -> int:
        return sum(len(line.text.replace(" ", "")) for line in self.readable)

    @cached_property
    def is_document(self) -> bool:
        """Whether it is a page or screen to read, and not a few words on a wall."""
        return self.num_chars >= 60 and len(self.readable) >= 4

    @cached_property
    def num_amounts(self) -> int:
        return sum(patterns.count_amounts(line.text) for line in self.readable)

    def valued(self, kind: str, fits: Callable[[str], object]) -> list[tuple[str, TextLine]]:
        """Return for each field of a kind the likeliest value that fits, with its line."""
        fitting = [[value for value in field.values if fits(value[0])] for field in self.fields if field.kind == kind]
        return [values[0] for values in fitting if values]

    def terms(self, kind: str) -> frozenset[str]:
        """Return wordings of a kind in titles, labels and values."""
        return frozenset(word for line in self.short for word in terms(kind, line.text))

    @cached_property
    def tells_birth(self) -> bool:
        """Whether a date of birth is there, in a field or after a word for being born."""
        has_line = any(patterns.tells_birth(line.text) for line in self.readable)
        return has_line or bool(self.valued("birth_date", patterns.has_date))

    @cached_property
    def is_chat(self) -> bool:
        """Whether it has times next to sentences, or words of a messenger next to either."""
        times = sum(patterns.is_clock_time(line.text) for line in self.readable)
        sentences = sum(_is_sentence(line.text) for line in self.readable)
        social = len(self.terms("social"))
        return sentences >= 2 and not self.num_amounts > 3 and (times >= 3 or (times >= 1 and social >= 1))

    @cached_property
    def is_shop_paper(self) -> bool:
        """Whether it is a receipt, bill or price list, whose addresses and numbers are a business's."""
        return len(self.terms("receipt")) >= 2 and self.num_amounts >= 2

    def row(self, line: TextLine) -> tuple[TextLine, ...]:
        """Return the line and the others in its row."""
        return (line, *(other for other in self.readable if same_row(other, line)))


def evidence_in(attribute: str, value: float, kind: str, line: TextLine) -> Finding:
    """Return evidence in a line, with its area and the confidence of the reading, without its text."""
    return Finding(attribute, value, kind, line.area, line.confidence)


def is_latin(text: str) -> bool:
    """Return whether letters are Latin, as in ruled lines and masked text ("***-**-****"), which have none."""
    letters = [c for c in text if c.isalnum()]
    return not letters or sum(bool(_LATIN.match(c)) for c in letters) > 0.5 * len(letters)


def _is_read(line: TextLine) -> bool:
    """Return whether all is read. Of a mixed line ("Дата 12.03.1985") only a part is: few signs for its length."""
    if line.length < LINE_SHAPE:
        return line.confidence >= READABLE and is_latin(line.text)
    return line.confidence >= SURELY_READ and is_latin(line.text) and len(line.text.strip()) >= line.length


def _is_unread(line: TextLine) -> bool:
    """Return whether unread writing is seen, by its shape or by its letters: two Chinese characters can be a name."""
    is_other_script = line.confidence >= READABLE and len(line.text.strip()) >= 2 and not is_latin(line.text)
    return not _is_read(line) and (line.length >= LINE_SHAPE or is_other_script)


def is_prose(text: str) -> bool:
    """Return whether it has seven words or more, most of them in lower case."""
    started = [word for word in text.split() if word[:1].isalpha()]
    return len(started) >= 7 and sum(word[0].islower() for word in started) > 0.6 * len(started)


def _is_sentence(text: str) -> bool:
    started = [word for word in text.split() if word[:1].isalpha()]
    return len(started) >= 3 and sum(word[0].islower() for word in started) >= 0.6 * len(started)


_GREETING = re.compile(
    r"\b(?i:hi|hello|hey|dear|hallo|hola|bonjour|ciao|liebe|lieber|thanks|cheers|welcome(?: back)?"
    r"|good (?:morning|afternoon|evening)|guten (?:morgen|tag|abend)|buenos d[i\u00ed]as)"
    r"[\s,]+([A-Z\u00c0-\u00de][\w'-]+)"
)


def greeting(text: str) -> str | None:
    """Return the word after "Hi", "Dear" and similar words, if it starts with a capital letter."""
    match = _GREETING.search(text)
    return match[1] if match else None
