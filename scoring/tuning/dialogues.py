"""Conversations about pictures, read from a file of the user.

A file has one line of JSON per picture:

    {"key": "IMG_1.jpg", "turns": [{"role": "user", "text": "…"}, {"role": "assistant", "text": "…"}]}

They can say what a picture shows: no message repeats any of their text.

`examples/papers/dialogues.py` lets a model write such a file.
"""

import json
import re
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ingest.errors import LabelsError
from ingest.storage.given_files import given_stream
from ingest.storage.place import place
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
    number = 0
    with given_stream(place(url), f"--dialogues {url}", MAX_FILE_BYTES) as stream:
        while line := stream.readline(MAX_LINE_BYTES + 1):
            number += 1
            if len(line) > MAX_LINE_BYTES:
                raise LabelsError(f"{url}, line {number}: has more than {MAX_LINE_BYTES:,} bytes")
            if line.strip():
                yield number, line
