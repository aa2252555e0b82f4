"""Conversations about pictures, read from a file of the user.

A file has one line of JSON per picture:

    {"key": "IMG_1.jpg", "turns": [{"role": "user", "text": "…"}, {"role": "assistant", "text": "…"}]}

They can say what a picture shows: no message repeats any of their text.

`examples/papers/dialogues.py` lets a model write such a file.
"""

from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from ingest.errors import LabelsError
from ingest.storage.given_files import given_stream
from ingest.storage.place import place
from scoring.tuning.targets import Turns

MAX_FILE_BYTES = 2**30
MAX_LINE_BYTES = 2**17
MAX_TURNS = 40
MAX_TURN_CHARS = 8_000
PLACEHOLDER = "<image>"
"""Other tools' name for the position of the picture, which is inserted automatically."""


class _Turn(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    role: Literal["user", "assistant"]
    text: Annotated[str, Field(min_length=1, max_length=MAX_TURN_CHARS)]


class _Dialogue(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    sha256: Annotated[str, Field(pattern="^[0-9a-fA-F]{64}$")] | None = None
    key: Annotated[str, Field(min_length=1, max_length=MAX_TURN_CHARS)] | None = None
    turns: Annotated[list[_Turn], Field(min_length=2, max_length=MAX_TURNS)]

    @model_validator(mode="after")
    def _is_a_conversation_about_a_picture(self) -> Self:
        if self.sha256 is None and self.key is None:
            raise ValueError("has neither sha256 nor key, one of which names the picture")
        wanted = ["user", "assistant"] * ((len(self.turns) + 1) // 2)
        if [turn.role for turn in self.turns] != wanted:
            raise ValueError("turns must alternate, from user to assistant, and end with the assistant's")
        if any(not turn.text.strip() for turn in self.turns):
            raise ValueError("a turn has no text")
        if any(PLACEHOLDER in turn.text for turn in self.turns):
            raise ValueError(f'a text holds "{PLACEHOLDER}"; remove it, the picture is put into the first turn')
        return self


_FIELDS = frozenset(["sha256", "key", "turns", "role", "text"])
"""Names that messages may repeat; other names come from the file."""


def dialogues(url: str) -> Iterator[tuple[int, str | None, str | None, Turns]]:
    """Yield line number from 1, sha256, key and turns of each conversation. LabelsError with the line if one is
    wrong."""
    for number, line in _lines(url):
        try:
            dialogue = _Dialogue.model_validate_json(line)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False, include_context=False)[0]
            field = ".".join(str(part) for part in first["loc"] if isinstance(part, int) or part in _FIELDS)
            what = first["msg"].removeprefix("Value error, ")
            raise LabelsError(f"{url}, line {number}: {field + ': ' if field else ''}{what}") from None
        sha256 = None if dialogue.sha256 is None else dialogue.sha256.lower()
        yield number, sha256, dialogue.key, tuple((turn.role, turn.text) for turn in dialogue.turns)


def _lines(url: str) -> Iterator[tuple[int, bytes]]:
    """Yield lines that are not blank, with their numbers."""
    number = 0
    with given_stream(place(url), f"--dialogues {url}", MAX_FILE_BYTES) as stream:
        while line := stream.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(line) > MAX_LINE_BYTES:
                raise LabelsError(f"{url}, line {number}: has more than {MAX_LINE_BYTES:,} bytes")
            if line.strip():
                yield number, line
