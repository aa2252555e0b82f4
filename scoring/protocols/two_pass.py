"""`two-pass`: the first pass sees the picture and says in its own words, level by level, what could be inferred; the
second pass, which sees only these words, turns them into 0, 0.5 and 1 (Tsaprazlis et al., section 4). What the words do
not mention is 0.

There are no probabilities: those of the second pass would only say how sure it is of the wording of the first.
The words can repeat what the picture shows, so they are dropped.

Revision 1 asked for one line per attribute instead, and is still asked where a run began with it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from scoring.assessment import Assessment, Outcome, Unscored
from scoring.protocols.interface import Answer, Generate, Message, Prompt, Protocol, ProtocolOptions, Text, TextAnswer
from scoring.protocols.json_form import form_schema
from scoring.protocols.reading import evidence, read_form, text_of, unparsable
from scoring.protocols.texts import (
    TextsOfAttributes,
    Wording,
    fill,
    load_texts,
    must_hold,
    refuse_thresholds,
    version,
    with_image,
    without_image,
)
from scoring.taxonomy import ATTRIBUTES, KEYS, TAXONOMY

VARIANTS: tuple[str, ...] = ()
REVISIONS = (1, 2)

MAX_TOKENS_FIRST = 1536
MAX_TOKENS_SECOND = 1024
MAX_NOTES_CHARS = 12_000
"""More than 1,536 tokens of any language; longer notes come from an endpoint that ignores the limit."""

MAX_NOTE_CHARS = 300
"""Limit of the line about one attribute in revision 1; the rest is cut off."""

MEANING: Mapping[float, float] = {0: 0.0, 0.5: 0.5, 1: 1.0}
"""Number of the second pass -> value."""

_LEVEL = re.compile(r"^\W{0,20}level\s{0,3}([1-4])\b", re.IGNORECASE | re.MULTILINE)
_LINE = re.compile(
    r"[\W\d_]{0,20}(" + "|".join(KEYS) + r")[*`\"' ]{0,4}[:=][*`\"' ]{0,4}(\S.*)", re.IGNORECASE | re.ASCII
)
_MARKUP = str.maketrans("<>[]|{}", "       ")
_NOTES = "\0notes\0"


class TwoPassTexts(TextsOfAttributes):
    first_system: Wording
    first: Wording
    second_system: Wording
    second: Wording


class TextsByLine(TwoPassTexts):
    """Texts of revision 1."""

    note_line: Wording


class TextsByLevel(TwoPassTexts):
    """Texts of revision 2."""

    level_line: Wording

    def attribute_lines(self) -> list[str]:
        lines = super().attribute_lines()
        for level in sorted(TAXONOMY.levels, reverse=True):
            first = next(number for number, attribute in enumerate(ATTRIBUTES) if attribute.level == level)
            values = {"level": str(level), "name": TAXONOMY.levels[level].name}
            lines.insert(first, fill("level_line", self.level_line, values))
        return lines


ReadNotes = Callable[[TextAnswer], str | Unscored]
"""Reads the answer of the first pass: what the second pass reads, without characters that a chat template could read as
its own marks."""


@dataclass(frozen=True)
class TwoPassProtocol(Protocol):
    passes: ClassVar[int] = 2

    second: Prompt
    """The prompt of the second pass, with a mark where the notes go."""

    read: ReadNotes
    """Reads the answer of the first pass."""

    def parse(self, answers: Sequence[Answer]) -> Outcome | Prompt:
        first = text_of(answers[0])
        notes = first if isinstance(first, Unscored) else self.read(first)
        if isinstance(notes, Unscored):
            return notes
        if len(answers) == 1:
            return self._second(notes)
        second = text_of(answers[1])
        values = second if isinstance(second, Unscored) else read_form(second, MEANING)
        if isinstance(values, Unscored):
            return values
        return Assessment(values, evidence(values))

    def _second(self, notes: str) -> Prompt:
        messages = tuple(
            Message(m.role, tuple(Text(p.text.replace(_NOTES, notes)) for p in m.parts if isinstance(p, Text)))
            for m in self.second.messages
        )
        return Prompt(messages, self.second.wanted)


def make(variants: frozenset[str], options: ProtocolOptions, revision: int) -> TwoPassProtocol:
    refuse_thresholds("two-pass", options)
    texts: TwoPassTexts
    read: ReadNotes
    if revision == 1:
        texts = load_texts("two-pass", TextsByLine, options.prompts, edition=1)
        fill("note_line", texts.note_line, {"key": "", "note": ""})
        must_hold("note_line", texts.note_line, "key", "the second pass cannot tell whose note it reads")
        must_hold("note_line", texts.note_line, "note", "the second pass has nothing to read")
        read = partial(_read_lines, note_line=texts.note_line)
    else:
        texts, read = load_texts("two-pass", TextsByLevel, options.prompts), _read_levels
    asked = texts.asking("first", {})
    first = Prompt(with_image(texts, texts.first_system, asked), Generate(MAX_TOKENS_FIRST))
    asked = fill("second", texts.second, {"attributes": texts.attributes(), "notes": _NOTES})
    must_hold("second", texts.second, "notes", "the second pass has nothing to read")
    wanted = Generate(MAX_TOKENS_SECOND, form_schema(MEANING))
    second = Prompt(without_image(texts.second_system, asked), wanted)
    full_version = version("two-pass", revision, texts, [first, second])
    return TwoPassProtocol("two-pass", full_version, first, second, read)


def _read_levels(answer: TextAnswer) -> str | Unscored:
    """Read free text that speaks of all four levels.

    Unscored otherwise, or if it was cut off: a refusal or a missing end must not become "not mentioned", which is 0.
    """
    if len(answer.text) > MAX_NOTES_CHARS:
        return unparsable(f"has {len(answer.text):,} characters, more than any answer needs", answer)
    lines = map(_on_one_line, answer.text.splitlines())
    text = "\n".join(line.translate(_MARKUP) for line in lines if line)
    num_levels = 0
    for heading in _LEVEL.finditer(text):
        num_levels += int(heading[1]) == num_levels + 1
    if num_levels < len(TAXONOMY.levels) or answer.is_cut_off:
        return unparsable(f"speaks of {num_levels} of the {len(TAXONOMY.levels)} levels", answer)
    return text


def _read_lines(answer: TextAnswer, note_line: str) -> str | Unscored:
    """Read one line per attribute. Unscored if one is missing: a refusal must not become "absent" everywhere."""
    notes: dict[str, str] = {}
    for line in answer.text.splitlines():
        if (match := _LINE.match(line)) is None:
            continue
        key = match[1].lower()
        if key in notes:
            return unparsable("speaks of an attribute twice", answer)
        if note := _on_one_line(match[2].translate(_MARKUP)):
            notes[key] = note if len(note) <= MAX_NOTE_CHARS else note[: MAX_NOTE_CHARS - 1] + "…"
    if len(notes) < len(KEYS):
        return unparsable(f"speaks of {len(notes)} of the {len(KEYS)} attributes", answer)
    return "\n".join(fill("note_line", note_line, {"key": key, "note": notes[key]}) for key in KEYS)


def _on_one_line(text: str) -> str:
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
