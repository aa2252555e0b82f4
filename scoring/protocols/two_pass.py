"""`two-pass`: the first pass sees the picture and says in its own words, level by level, what could be inferred; the
second pass, which sees only these words, turns them into 0, 0.5 and 1 (Tsaprazlis et al., section 4). What the words do
not mention is 0.

There are no probabilities: those of the second pass would only say how sure it is of the wording of the first.
The words can repeat what the picture shows, so they are dropped.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from scoring.assessment import Assessment, Outcome, Unscored
from scoring.protocols.interface import Answer, Generate, Message, Prompt, Protocol, Text, TextAnswer
from scoring.protocols.json_form import form_schema
from scoring.protocols.reading import evidence, read_form, text_of, unparsable
from scoring.protocols.texts import (
    TextsOfAttributes,
    Wording,
    fill,
    load_texts,
    must_hold,
    version,
    with_image,
    without_image,
)
from scoring.taxonomy import ATTRIBUTES, TAXONOMY

VARIANTS: tuple[str, ...] = ()
REVISION = 1

MAX_TOKENS_FIRST = 1536
MAX_TOKENS_SECOND = 1024
MAX_NOTES_CHARS = 12_000
"""More than 1,536 tokens of any language; longer notes come from an endpoint that ignores the limit."""

MEANING: Mapping[float, float] = {0: 0.0, 0.5: 0.5, 1: 1.0}
"""Number of the second pass -> value."""

_LEVEL = re.compile(r"^\W{0,20}level\s{0,3}([1-4])\b", re.IGNORECASE | re.MULTILINE)
_MARKUP = str.maketrans("<>[]|{}", "       ")
_NOTES = "\0notes\0"


class TwoPassTexts(TextsOfAttributes):
    first_system: Wording
    first: Wording
    second_system: Wording
    second: Wording
    level_line: Wording

    def attribute_lines(self) -> list[str]:
        lines = super().attribute_lines()
        for level in sorted(TAXONOMY.levels, reverse=True):
            first = next(number for number, attribute in enumerate(ATTRIBUTES) if attribute.level == level)
            values = {"level": str(level), "name": TAXONOMY.levels[level].name}
            lines.insert(first, fill("level_line", self.level_line, values))
        return lines


@dataclass(frozen=True)
class TwoPassProtocol(Protocol):
    passes: ClassVar[int] = 2

    second: Prompt
    """The prompt of the second pass, with a mark where the notes go."""

    def parse(self, answers: Sequence[Answer]) -> Outcome | Prompt:
        first = text_of(answers[0])
        notes = first if isinstance(first, Unscored) else _notes_of(first)
        if isinstance(notes, Unscored):
            return notes
        if len(answers) == 1:
            messages = tuple(
                Message(m.role, tuple(Text(p.text.replace(_NOTES, notes)) for p in m.parts if isinstance(p, Text)))
                for m in self.second.messages
            )
            return Prompt(messages, self.second.wanted)
        second = text_of(answers[1])
        values = second if isinstance(second, Unscored) else read_form(second, MEANING)
        if isinstance(values, Unscored):
            return values
        return Assessment(values, evidence(values))


def make(variants: frozenset[str], prompts: bytes | None) -> TwoPassProtocol:
    texts = load_texts("two-pass", TwoPassTexts, prompts)
    asked = texts.asking("first", {})
    first = Prompt(with_image(texts, texts.first_system, asked), Generate(MAX_TOKENS_FIRST))
    asked = fill("second", texts.second, {"attributes": texts.attributes(), "notes": _NOTES})
    must_hold("second", texts.second, "notes", "the second pass has nothing to read")
    wanted = Generate(MAX_TOKENS_SECOND, form_schema(MEANING))
    second = Prompt(without_image(texts.second_system, asked), wanted)
    full_version = version("two-pass", REVISION, texts, [first, second])
    return TwoPassProtocol("two-pass", full_version, first, second)


def _notes_of(answer: TextAnswer) -> str | Unscored:
    """Return what the second pass reads: free text about all four levels, without characters that a chat template could
    read as its own marks.

    Unscored otherwise, or if it was cut off: a refusal or a missing end must not become "not mentioned", which is 0.
    """
    if len(answer.text) > MAX_NOTES_CHARS:
        return unparsable(f"has {len(answer.text):,} characters, more than any answer needs", answer)
    printable = ("".join(c if c.isprintable() else " " for c in line) for line in answer.text.splitlines())
    lines = (" ".join(line.split()) for line in printable)
    text = "\n".join(line.translate(_MARKUP) for line in lines if line)
    num_levels = 0
    for heading in _LEVEL.finditer(text):
        num_levels += int(heading[1]) == num_levels + 1
    if num_levels < len(TAXONOMY.levels) or answer.is_cut_off:
        return unparsable(f"speaks of {num_levels} of the {len(TAXONOMY.levels)} levels", answer)
    return text
