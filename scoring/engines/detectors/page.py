"""The kind of page that a picture's text makes: a form, a chat, running text, a shop's paper, a few words."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from scoring.engines.detectors.fields import Field, read_fields, same_row
from scoring.engines.detectors.findings import Finding
from scoring.engines.detectors.ocr import LINE_SHAPE, READABLE, SURELY_READ, TextLine
from scoring.text_rules import patterns
from scoring.text_rules.vocabulary import terms

_LATIN = re.compile(r"[0-9A-Za-zÀ-ɏ]")
_MOST_UNREAD = 0.1
"""Up to a twentieth of an English page is not read well: small print, logos, a signature."""


@dataclass(frozen=True)
class Page:
    """The lines of one view."""

    lines: tuple[TextLine, ...]
    """All lines, including unreadable ones."""

    width: int
    """Width of the view, in pixels."""

    height: int
    """Height of the view, in pixels."""

    @cached_property
    def readable(self) -> tuple[TextLine, ...]:
        return tuple(line for line in self.lines if line.confidence >= READABLE and _LATIN.search(line.text))

    @cached_property
    def unread(self) -> tuple[TextLine, ...]:
        """Lines in a script or hand that these rules cannot read."""
        return tuple(line for line in self.lines if _is_unread(line))

    @cached_property
    def is_partly_unread(self) -> bool:
        """Whether more than a few signs are unread, so that these may hold missed evidence."""
        unread = sum(line.length for line in self.unread)
        return unread > _MOST_UNREAD * (unread + sum(line.length for line in self.lines if _is_read(line)))

    @cached_property
    def fields(self) -> list[Field]:
        return read_fields(self.readable)

    @cached_property
    def short(self) -> tuple[TextLine, ...]:
        """Lines that are not running text: titles, labels, values."""
        return tuple(line for line in self.readable if not is_prose(line.text))

    @cached_property
    def prose_share(self) -> float:
        return 1 - len(self.short) / max(1, len(self.readable))

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


def _is_latin(text: str) -> bool:
    """Return whether letters are Latin, as in ruled lines and masked text ("***-**-****"), which have none."""
    letters = [c for c in text if c.isalnum()]
    return not letters or sum(bool(_LATIN.match(c)) for c in letters) > 0.5 * len(letters)


def _is_read(line: TextLine) -> bool:
    """Return whether all is read. Of a mixed line ("Дата 12.03.1985") only a part is: few signs for its length."""
    if line.length < LINE_SHAPE:
        return line.confidence >= READABLE and _is_latin(line.text)
    return line.confidence >= SURELY_READ and _is_latin(line.text) and len(line.text.strip()) >= line.length


def _is_unread(line: TextLine) -> bool:
    """Return whether unread writing is seen, by its shape or by its letters: two Chinese characters can be a name."""
    is_other_script = line.confidence >= READABLE and len(line.text.strip()) >= 2 and not _is_latin(line.text)
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


def has_social_words(lines: Sequence[TextLine]) -> bool:
    return len({word for line in lines for word in terms("social", line.text)}) >= 2
