"""Labelled pictures as importers yield them, and bounded reading of the files that list them.

Errors name file and line but repeat no content.
"""

import csv
import io
import json
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ingest.errors import LabelsError
from ingest.formats.members import extension_of
from ingest.formats.shard import listed
from ingest.images.files.formats import EXTENSIONS
from ingest.sample import printable
from ingest.storage.given_files import given_stream
from ingest.storage.place import Place, reason_of

MAX_LABEL_FILE_BYTES = 512 * 2**20
"""The largest known list of a data set has 100 MB."""

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
"""Half of a character, as JSON escapes it."""


@dataclass(frozen=True, slots=True)
class LabelledPicture:
    """One picture with the labels of one annotator. Labels that the source does not give are None or missing."""

    path: str | None
    """Path of the picture relative to the folder of the data set, even if it is missing; None if unknown."""

    private: int | None = None
    class_: str | None = None
    split: str | None = None
    score: float | None = None

    vote: str | None = None
    """Class of `votes.VOTES`; `private` follows from it."""

    labels: tuple[str, ...] = ()
    """Labels of the source, which a mapping turns into values of attributes."""

    values: Mapping[str, float] = field(default_factory=dict)
    """Attribute -> 0, 0.5 or 1, if the source gives these itself. A mapping does not change them."""

    annotator: str | None = None
    """Name of the annotator; None for the data set itself."""

    licence: str | None = None
    """Licence of the label; None for that of the data set."""

    sha256: str | None = None
    """Hash of the picture, if the source gives it; it must match the picture if that exists."""

    key: str | None = None
    """Name of the picture if it is not at its path; None for the name of its file."""

    where: str = ""
    """File and line of the label, for errors."""


@dataclass(frozen=True)
class Importer:
    """A data set in the layout in which it is published, or a file of labels."""

    pictures: Callable[[Place], Iterator[LabelledPicture]]
    """Yields every labelled picture, in the order of the source. It takes the folder of the data set, or its one file.
    LabelsError with file and line if a file is wrong."""

    notes: tuple[str, ...] = ()
    """Notes that users of the labels need, one sentence each."""

    mapping: str | None = None
    """Name of the shipped mapping, None if the labels of the source need none."""

    licence: str | None = None


def folder_and_file(root: Place, default_name: str) -> tuple[Place, str]:
    """Return folder and name of a data set that is one file. root: the file, or the folder with a default name."""
    if root.is_dir():
        return root, default_name
    return Place(root.fs, posixpath.dirname(root.path)), root.name


def inside(path: str, where: str) -> str:
    """Normalise the path of a picture. LabelsError if it leads out of the root."""
    plain = posixpath.normpath(path.replace("\\", "/"))
    if plain.startswith(("/", "../")) or plain in ("..", ".", "") or "\0" in plain:
        raise LabelsError(f"{where}: the path of the picture leads out of the folder; give paths below it")
    return plain


def key_of(path: str) -> str:
    """Return the key that a scan of a folder tree gives to the picture: the name of its file."""
    return printable(posixpath.basename(path))


def has_picture_name(name: str) -> bool:
    return extension_of(name) in EXTENSIONS


def names_in(folder: Place) -> list[str]:
    """Return the files of a folder that are not hidden, sorted; none if the folder does not exist."""
    try:
        return [name for name, _ in listed(folder).files]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise LabelsError(f"{folder.path}: cannot be listed: {reason_of(error)}") from None


def csv_rows(file: Place, name: str) -> Iterator[tuple[str, list[str]]]:
    """Yield (file and line number, cells) of each row that is not blank. LabelsError if it is not CSV in UTF-8."""
    with given_stream(file, name, MAX_LABEL_FILE_BYTES) as stream:
        reader = csv.reader(io.TextIOWrapper(stream, "utf-8-sig", newline=""))
        try:
            for row in reader:
                if row:
                    yield f"{name}, line {reader.line_num}", row
        except UnicodeDecodeError:
            raise LabelsError(f"{name}: is not text in UTF-8") from None
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
