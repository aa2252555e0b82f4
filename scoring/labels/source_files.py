"""Bounded reading of the files of a data set; errors name file and line but repeat no content."""

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
    """Return the files of a folder that are not hidden, sorted; none if the folder does not exist."""
    try:
        return [name for name, _ in listed(folder).files]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise LabelsError(f"{folder.path}: cannot be listed: {reason_of(error)}") from None


def content_of(file: Place, name: str, max_bytes: int = MAX_LABEL_FILE_BYTES) -> bytes:
    """Read a file of labels. StorageError, with its name, if it is missing or too large."""
    return given_content(file, name, max_bytes)


def lines_of(file: Place, name: str) -> Iterator[tuple[str, str]]:
    """Yield (file and line number, text) of each line that is not blank. LabelsError if it is not UTF-8."""
    try:
        text = content_of(file, name).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise LabelsError(f"{name}: is not text in UTF-8") from None
    for number, line in enumerate(text.splitlines()):
        if line.strip():
            yield f"{name}, line {number + 1}", line


def csv_rows(file: Place, name: str) -> Iterator[tuple[str, list[str]]]:
    """Yield (file and line number, cells) of each row that is not blank. LabelsError if it is not CSV in UTF-8."""
    try:
        text = content_of(file, name).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise LabelsError(f"{name}: is not text in UTF-8") from None
    reader = csv.reader(io.StringIO(text, newline=""))
    try:
        for row in reader:
            if row:
                yield f"{name}, line {reader.line_num}", row
    except csv.Error:
        raise LabelsError(f"{name}, line {reader.line_num}: is not valid CSV; check its quotation marks") from None


def json_of(content: bytes, name: str) -> Any:
    """Parse JSON. LabelsError if it is invalid, has a key twice, or a text that cannot be stored as UTF-8."""
    try:
        value = json.loads(content.decode("utf-8-sig"), object_pairs_hook=_once)
        if _SURROGATE.search(content):  # a pair of them can be a character, a single one is not
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except json.JSONDecodeError as error:
        raise LabelsError(f"{name}, line {error.lineno}: is not JSON") from None
    except _TwiceError as error:
        raise LabelsError(f'{name}: the key "{error}" is in one object twice; keep one') from None
    except (ValueError, RecursionError):
        raise LabelsError(f"{name}: is not JSON in UTF-8, or too deeply nested") from None


class _TwiceError(Exception):
    """Raised with a key that occurs twice."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) < len(pairs):
        keys = [key for key, _ in pairs]
        raise _TwiceError(printable(next(key for key in unique if keys.count(key) > 1)))
    return unique
