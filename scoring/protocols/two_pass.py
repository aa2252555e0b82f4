"""`two-pass`: the picture is asked 22 questions and answers with short reasons; a second pass, which sees only these
answers, turns them into 0, 0.5 and 1.

There are no probabilities: those of the second pass would only say how sure it is of the wording of the first.
The reasons can repeat what the picture shows, so they are dropped unless the rationale is to be kept.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scoring.assessment import Assessment, Outcome, Unscored
from scoring.protocols.interface import Answer, Generate, Message, Prompt, ProtocolOptions, Text, TextAnswer
from scoring.protocols.json_form import form_schema
from scoring.protocols.reading import evidence, own_words, read_form, text_of, unparsable
from scoring.protocols.settings import refuse_thresholds, version, with_image, without_image
from scoring.protocols.texts import TextsOfAttributes, Wording, fill, load_texts, must_hold
from scoring.taxonomy import KEYS

VARIANTS: tuple[str, ...] = ()
REVISION = 1

MAX_TOKENS_FIRST = 1536
MAX_TOKENS_SECOND = 1024

MEANING: Mapping[float, float] = {0: 0.0, 0.5: 0.5, 1: 1.0}
"""Number of the second pass -> value."""

_NOTE = re.compile(
    r"[\W\d_]{0,20}(" + "|".join(KEYS) + r")[*`\"' ]{0,4}[:=][*`\"' ]{0,4}(\S.*)", re.IGNORECASE | re.ASCII
)
_MARKUP = str.maketrans("<>[]|{}", "       ")
_NOTES = "\0notes\0"


class TwoPassTexts(TextsOfAttributes):
    first_system: Wording
    first: Wording
    second_system: Wording
    second: Wording
    note_line: Wording


@dataclass(frozen=True)
class TwoPassProtocol:
    """The protocol. second: the prompt of the second pass, with a mark where the notes go. note_line: with {key} and
    {note}."""

    name: str
    version: str
    prompt: Prompt
    second: Prompt
    note_line: str
    keep_rationale: bool
    assessed: tuple[str, ...] = KEYS
    passes: int = 2

    def parse(self, answers: Sequence[Answer]) -> Outcome | Prompt:
        first = text_of(answers[0])
        if isinstance(first, Unscored):
            return first
        notes = _notes(first)
        if isinstance(notes, Unscored):
            return notes
        if len(answers) == 1:
            return self._second(notes)
        second = text_of(answers[1])
        values = second if isinstance(second, Unscored) else read_form(second, MEANING)
        if isinstance(values, Unscored):
            return values
        shown = [key for key, value in zip(KEYS, values, strict=True) if value > 0]
        reasons = tuple(f"{key}: {notes[key]}" for key in shown)
        return Assessment(values, reasons if self.keep_rationale else evidence(values))

    def _second(self, notes: dict[str, str]) -> Prompt:
        lines = (fill("note_line", self.note_line, {"key": key, "note": notes[key]}) for key in KEYS)
        written = "\n".join(lines)
        messages = tuple(
            Message(m.role, tuple(Text(p.text.replace(_NOTES, written)) for p in m.parts if isinstance(p, Text)))
            for m in self.second.messages
        )
        return Prompt(messages, self.second.wanted)


def make(variants: frozenset[str], options: ProtocolOptions) -> TwoPassProtocol:
    refuse_thresholds("two-pass", options)
    texts = load_texts("two-pass", TwoPassTexts, options.prompts)
    fill("note_line", texts.note_line, {"key": "", "note": ""})
    must_hold("note_line", texts.note_line, "key", "the second pass cannot tell whose note it reads")
    must_hold("note_line", texts.note_line, "note", "the second pass has nothing to read")
    asked = texts.asking("first", {})
    first = Prompt(with_image(texts, texts.first_system, asked), Generate(MAX_TOKENS_FIRST))
    asked = fill("second", texts.second, {"attributes": texts.attributes(), "notes": _NOTES})
    must_hold("second", texts.second, "notes", "the second pass has nothing to read")
    wanted = Generate(MAX_TOKENS_SECOND, form_schema(MEANING))
    second = Prompt(without_image(texts.second_system, asked), wanted)
    full_version = version("two-pass", REVISION, texts, [first, second], options)
    return TwoPassProtocol("two-pass", full_version, first, second, texts.note_line, options.keep_rationale)


def _notes(answer: TextAnswer) -> dict[str, str] | Unscored:
    """Return attribute key -> the first pass's answer, as one line without characters that a chat template could read
    as its own marks. Unscored if an attribute is missing, since a refusal must not become 22 times "absent"."""
    notes: dict[str, str] = {}
    for line in answer.text.splitlines():
        if (match := _NOTE.match(line)) is None:
            continue
        key = match[1].lower()
        if key in notes:
            return unparsable("speaks of an attribute twice", answer)
        if note := own_words(match[2].translate(_MARKUP)):
            notes[key] = note
    if len(notes) < len(KEYS):
        return unparsable(f"speaks of {len(notes)} of the {len(KEYS)} attributes", answer)
    return notes
