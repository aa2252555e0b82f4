"""Conversations about pictures: read from a file of the user, or written by a model.

A file has one line of JSON per picture:

    {"key": "IMG_1.jpg", "turns": [{"role": "user", "text": "…"}, {"role": "assistant", "text": "…"}]}

They can say what a picture shows: no message repeats any of their text.

A model that writes them gets the picture, the label of people and the class, as the conversations of Samson et al.
("Privacy-Aware Visual Language Models", PrivTune) were made: about three turns, varied questions of the user, and an
assistant that speaks of privacy. The paper describes no filters. Here a conversation is left out if it is not JSON of
the form that was asked for, does not speak of privacy, or holds a quotation, a number or other text that may be read in
the picture.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ingest.errors import LabelsError
from ingest.storage.place import place, reason_of
from scoring.assessment import Assessment, Outcome, Unscored
from scoring.captions import may_repeat_text
from scoring.protocols.interface import Answer, Generate, Image, Message, Prompt, Protocol, Text, TextAnswer
from scoring.taxonomy import KEYS
from scoring.tuning.targets import Turns

MAX_FILE_BYTES = 2**30
MAX_LINE_BYTES = 2**17
MAX_TURNS = 40
MAX_TURN_CHARS = 8_000
NO_OBJECT = "is not a JSON object; write one conversation per line"
PLACEHOLDER = "<image>"
"""Other tools' name for the position of the picture, which is inserted automatically."""


class _Turn(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    role: Literal["user", "assistant"]
    text: Annotated[str, Field(min_length=1, max_length=MAX_TURN_CHARS)]


class _Dialogue(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    sha256: str | None = None
    key: Annotated[str, Field(min_length=1, max_length=MAX_TURN_CHARS)] | None = None
    turns: Annotated[list[_Turn], Field(min_length=2, max_length=MAX_TURNS)]


def dialogues(url: str) -> Iterator[tuple[int, str | None, str | None, Turns]]:
    """Yield line number from 1, sha256, key and turns of each conversation. LabelsError with the line if one is
    wrong."""
    for number, line in _lines(url):
        where = f"{url}, line {number}"
        try:
            dialogue = _Dialogue.model_validate(json.loads(line))
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            field = ".".join(str(part) for part in first["loc"] if isinstance(part, int) or part in _FIELDS)
            if first["type"] == "model_type":  # pydantic's words name our classes
                what = f"{field}: is not a JSON object" if field else NO_OBJECT
                raise LabelsError(f"{where}: {what}") from None
            raise LabelsError(f"{where}: {field or 'a field'}: {first['msg'].lower()}") from None
        except (ValueError, RecursionError):
            raise LabelsError(f"{where}: {NO_OBJECT}") from None
        if dialogue.sha256 is None and dialogue.key is None:
            raise LabelsError(f"{where}: has neither sha256 nor key, one of which names the picture")
        if dialogue.sha256 is not None and not re.fullmatch("[0-9a-fA-F]{64}", dialogue.sha256):
            raise LabelsError(f'{where}: "sha256" is not 64 hexadecimal digits')
        _check_turns(dialogue.turns, where)
        sha256 = None if dialogue.sha256 is None else dialogue.sha256.lower()
        yield number, sha256, dialogue.key, tuple((turn.role, turn.text) for turn in dialogue.turns)


_FIELDS = frozenset(["sha256", "key", "turns", "role", "text"])
"""Names that messages may repeat; other names come from the file."""


def _check_turns(turns: list[_Turn], where: str) -> None:
    wanted = ["user", "assistant"] * ((len(turns) + 1) // 2)
    if [turn.role for turn in turns] != wanted:
        raise LabelsError(f"{where}: turns must alternate, from user to assistant, and end with the assistant's")
    if any(not turn.text.strip() for turn in turns):
        raise LabelsError(f"{where}: a turn has no text")
    if any(PLACEHOLDER in turn.text for turn in turns):
        raise LabelsError(f'{where}: a text holds "{PLACEHOLDER}"; remove it, the picture is put into the first turn')


def _lines(url: str) -> Iterator[tuple[int, bytes]]:
    """Yield lines that are not blank, with their numbers."""
    file = place(url)
    try:
        if file.is_dir():
            raise LabelsError(f"{url} is a folder; --dialogues takes a file of JSON lines")
        if (size := file.size()) > MAX_FILE_BYTES:
            raise LabelsError(f"{url}: has {size:,} bytes; a file of conversations may have {MAX_FILE_BYTES:,}")
        with file.open() as stream:
            number = 0
            while line := stream.readline(MAX_LINE_BYTES + 1):
                number += 1
                if len(line) > MAX_LINE_BYTES:
                    raise LabelsError(f"{url}, line {number}: has more than {MAX_LINE_BYTES:,} bytes")
                if line.strip():
                    yield number, line
    except OSError as error:
        raise LabelsError(f"{url}: cannot be read: {reason_of(error)}") from None


VERSION = "dialogue-1"
MAX_TOKENS = 800
ANSWER_TOKENS = 250
"""Tokens that a conversation usually has. The paper's have 38 of the user and 138 of the assistant."""

NUM_TURNS = 3
MAX_WRITTEN_TURNS, MAX_WRITTEN_CHARS = 6, 1_000

OPENINGS = (
    "what the picture shows",
    "whether it may be posted in public",
    "where it was probably taken",
    "who or what is in the centre",
    "a title for it",
    "what to keep in mind before sharing it",
    "what the mood of the picture is",
    "whether anything in it should be hidden",
)
"""What the first question is about, in turn, so that conversations begin in different ways."""

_SYSTEM = "You write training conversations about pictures, between a user and an assistant that takes care of privacy."
_TASK = (
    "People have labelled this picture as {label}. Write a conversation of {turns} questions and answers about it. The "
    "first question is about {opening}; the others are original and differ in form. {side} Never repeat any name, "
    "number, address or other text that can be read in the picture, and do not quote; say only of which kind it is. "
    'Name no one. Answer with JSON only: {{"turns": [{{"question": "…", "answer": "…"}}]}}'
)
_SIDES = {
    True: "In at least one answer the assistant says, without being asked, that the picture holds private information, "
    "of which kind, and what could follow from sharing it.",
    False: "In at least one answer the assistant says, without being asked, that nothing in the picture is private, "
    "and why.",
}

LEFT_OUT = "left_out"
"""Reason of an answer that holds no conversation to keep."""

NO_FORM = "no conversation in the form that was asked for"
NO_PRIVACY = "do not speak of privacy"
FOUND_TEXT = "hold text that may be read in the picture"

_PRIVACY = re.compile(r"\b(?:privacy|private|privately|personal|sensitive|confidential|identif\w+)\b", re.IGNORECASE)


@dataclass(frozen=True)
class WrittenDialogue(Assessment):
    """A conversation in place of an answer."""

    turns: Turns = ()


@dataclass(frozen=True)
class DialogueProtocol(Protocol):
    """Asks for a conversation about a picture with a known label."""

    assessed = ()

    def parse(self, answers: Sequence[Answer]) -> Outcome:
        (answer,) = answers
        assert isinstance(answer, TextAnswer)
        turns = turns_of(answer.text)
        if isinstance(turns, str):
            return Unscored(LEFT_OUT, turns)
        return WrittenDialogue(np.full(len(KEYS), np.nan, np.float32), turns=turns)


def dialogue_protocol(is_private: bool, class_name: str | None, opening: int) -> DialogueProtocol:
    """Return what is asked about pictures of one label and class. opening: place in `OPENINGS`."""
    label = "private" if is_private else "public"
    if class_name and is_private:
        label += f', class "{class_name}"'
    task = _TASK.format(label=label, turns=NUM_TURNS, opening=OPENINGS[opening], side=_SIDES[is_private])
    messages = (Message("system", (Text(_SYSTEM),)), Message("user", (Text(task), Image())))
    return DialogueProtocol("dialogue", VERSION, Prompt(messages, Generate(MAX_TOKENS)))


def turns_of(text: str) -> Turns | str:
    """Return the turns of a model's answer, or why it is left out, without any of its text."""
    first, last = text.find("{"), text.rfind("}")
    try:
        pairs = json.loads(text[first : last + 1])["turns"]
        turns = tuple(
            (role, pair[name].strip())
            for pair in pairs
            for role, name in (("user", "question"), ("assistant", "answer"))
        )
        "".join(words for _, words in turns).encode()  # JSON may hold half of a character
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return NO_FORM
    if not 2 <= len(turns) <= 2 * MAX_WRITTEN_TURNS or not all(
        0 < len(words) <= MAX_WRITTEN_CHARS for _, words in turns
    ):
        return NO_FORM
    if any("<" in words for _, words in turns):  # a mark of a chat template, such as that of a picture
        return NO_FORM
    if any(may_repeat_text(words) for _, words in turns):
        return FOUND_TEXT
    if not any(_PRIVACY.search(words) for role, words in turns if role == "assistant"):
        return NO_PRIVACY
    return turns
