"""Reading the files of a data set: bounded, and with errors that name file and line but repeat no content."""

import csv
import io
import json
import re
from collections.abc import Iterator
from typing import Any

from ingest.errors import LabelsError
from ingest.formats.shard import listed
from ingest.sample import printable
from ingest.storage.given_files import given_content
from ingest.storage.place import Place, reason_of

MAX_LABEL_FILE_BYTES = 512 * 2**20
"""The largest known list of a data set has 100 MB."""


_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
"""Half of a character, as JSON escapes it."""


def names_in(folder: Place) -> list[str]:
    """Files of a folder that are not hidden, sorted; none if there is no such folder."""
    try:
        return [name for name, _ in listed(folder).files]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise LabelsError(f"{folder.path}: cannot be listed: {reason_of(error)}") from None


def content_of(file: Place, name: str, max_bytes: int = MAX_LABEL_FILE_BYTES) -> bytes:
    """A file of labels. StorageError, with its name, if it is not there or too large."""
    return given_content(file, name, max_bytes)


def lines_of(file: Place, name: str) -> Iterator[tuple[str, str]]:
    """File with line number, and text, of each line that is not blank. LabelsError if it is no UTF-8."""
    try:
        text = content_of(file, name).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise LabelsError(f"{name}: is no text in UTF-8") from None
    for number, line in enumerate(text.splitlines()):
        if line.strip():
            yield f"{name}, line {number + 1}", line


def csv_rows(file: Place, name: str) -> Iterator[tuple[str, list[str]]]:
    """File with line number, and cells, of each row that is not blank. LabelsError if it is no CSV in UTF-8."""
    try:
        text = content_of(file, name).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise LabelsError(f"{name}: is no text in UTF-8") from None
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        for row in reader:
            if row:
                yield f"{name}, line {reader.line_num}", row
    except csv.Error:
        raise LabelsError(f"{name}, line {reader.line_num}: is no CSV; check its quotation marks") from None


def json_of(content: bytes, name: str) -> Any:
    """What a JSON file holds. LabelsError if it is none, has a key twice, or a text that cannot be stored as UTF-8."""
    try:
        found = json.loads(content.decode("utf-8-sig"), object_pairs_hook=_once)
        if _SURROGATE.search(content):  # two of them can be one character, one alone is none
            json.dumps(found, ensure_ascii=False).encode()
        return found
    except json.JSONDecodeError as error:
        raise LabelsError(f"{name}, line {error.lineno}: is no JSON") from None
    except _TwiceError as error:
        raise LabelsError(f'{name}: the key "{error}" is in one object twice; keep one') from None
    except (ValueError, RecursionError):
        raise LabelsError(f"{name}: is no JSON in UTF-8, or too deeply nested") from None


class _TwiceError(Exception):
    """The key."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _TwiceError(printable(next(key for key in found if keys.count(key) > 1)))
    return found
