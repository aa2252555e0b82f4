"""Lists that give each image of a corpus its class: CSV, TSV, a name and a class with a space between, or the columns
key and class of a labels file.

Places365's lists are of the last kind. Their classes are numbers, and the names of these stand in
`categories_places365.txt`, which is read if it lies beside the list.
"""

import csv
import hashlib
import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from ingest.errors import LabelsError
from ingest.sample import printable
from ingest.storage.given_files import given_content
from ingest.storage.place import Place, place

PARQUET = b"PAR1"
"""With which a labels file of `privsieve labels` begins."""

MAX_LIST_BYTES = 512 * 2**20
MAX_NAME_CHARACTERS = 4096
MAX_CLASS_CHARACTERS = 255
MAX_FOLDERS = 100
"""So many parts of an image's path are tried."""

NUMBERED_CLASSES = "categories_places365.txt"
NAME_HEADS = ("name", "key", "file", "filename", "file_name", "image", "path", "image name")
CLASS_HEADS = ("class", "category", "label", "scene")

_AMBIGUOUS = -1
_LABELLED = pa.schema([("key", pa.string()), ("class", pa.string())])


@dataclass(frozen=True)
class ClassList:
    """Image name -> class. Small enough to be sent to workers: names are kept as hashes of 64 bits."""

    url: str
    """Of the file."""

    sha256: str
    """Of the file's bytes, and of those of the file that names numbered classes."""

    num_names: int

    classes: tuple[str, ...]

    hashes: npt.NDArray[np.uint64] = field(repr=False)
    """Of the names, ascending; shape (names and their short forms,)."""

    numbers: npt.NDArray[np.int32] = field(repr=False)
    """The class of each, as a place in `classes`."""

    def class_of(self, path: str) -> str | None:
        """The class of an image; None if the list does not name it.

        path: its folders and name in the corpus. As far as the list allows, leading folders may be missing in it, so
        that `val_256/Places365_val_00000001.jpg` is found as `Places365_val_00000001.jpg`; so may the extension, and
        the folder of one letter in Places365's names.
        """
        parts = path.split("/")[-MAX_FOLDERS:]
        for first in range(len(parts)):
            name = "/".join(parts[first:])
            for form in dict.fromkeys((name, _short(name))):
                wanted = np.uint64(_hash(form))
                at = int(np.searchsorted(self.hashes, wanted))
                if at < len(self.hashes) and self.hashes[at] == wanted:
                    number = int(self.numbers[at])
                    return None if number == _AMBIGUOUS else self.classes[number]
        return None


def read_class_list(url: str) -> ClassList:
    """LabelsError or StorageError in one line where the file is no such list, or gives a name two classes."""
    file = place(url)
    content = given_content(file, f"--labels {url}", MAX_LIST_BYTES)
    is_table = content[:4] == PARQUET
    pairs = list(_labelled(content, url) if is_table else _pairs(_text(content, url), url))
    if not pairs:
        raise LabelsError(f"{url} names no image; give lines of an image's name and its class")
    digest = hashlib.sha256(content)
    beside = Place(file.fs, posixpath.join(posixpath.dirname(file.path), NUMBERED_CLASSES))
    if all(re.fullmatch(r"\d{1,6}", of) for _, of, _ in pairs) and beside.exists():
        named = given_content(beside, f"the list of classes {beside.path}", MAX_LIST_BYTES)
        digest.update(named)
        names = _numbered(_text(named, beside.path), beside.path)
        unknown = next((f"line {line}: class {of}" for _, of, line in pairs if int(of) not in names), None)
        if unknown is not None:
            raise LabelsError(f"{url}: {unknown} has no name in {NUMBERED_CLASSES} beside it")
        pairs = [(name, names[int(of)], line) for name, of, line in pairs]
    classes = sorted({of for _, of, _ in pairs})
    places = {of: number for number, of in enumerate(classes)}
    found: dict[str, int] = {}
    for name, of, line in pairs:
        if found.setdefault(name, places[of]) != places[of]:
            raise LabelsError(f"{url}, line {line}: the list gives {printable(name)} two classes; keep one of them")
    by_hash: dict[int, int] = {}
    for name, number in found.items():
        short = _hash(_short(name))
        by_hash[short] = number if by_hash.get(short, number) == number else _AMBIGUOUS
    by_hash |= {_hash(name): number for name, number in found.items()}
    hashes = np.array(sorted(by_hash), np.uint64)
    numbers = np.array([by_hash[one] for one in sorted(by_hash)], np.int32)
    return ClassList(url, digest.hexdigest(), len(found), tuple(classes), hashes, numbers)


def _text(content: bytes, url: str) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise LabelsError(f"{url} is no text in UTF-8; give lines of an image's name and its class")
    return text


def _pairs(text: str, url: str) -> Iterator[tuple[str, str, int]]:
    """(name, class, line) of each line, by the separator of the first one."""
    head = next((line for line in text.splitlines() if line.strip()), "")
    delimiter = "\t" if "\t" in head else "," if "," in head else None
    try:
        lines = csv.reader(text.splitlines(), delimiter=delimiter) if delimiter else map(_spaced, text.splitlines())
        at, rows = (0, 1), ((row, number) for number, row in enumerate(lines, 1) if any(cell.strip() for cell in row))
        for index, (row, number) in enumerate(rows):
            if index == 0 and (columns := _columns(row)) is not None:
                at = columns
                continue
            if max(at) >= len(row) or (at == (0, 1) and len(row) > 2):
                raise LabelsError(f"{url}, line {number}: {len(row)} columns where a name and a class are expected")
            name, of = _name(row[at[0]]), printable(row[at[1]].strip().lstrip("/"))
            if not name or not of or len(name) > MAX_NAME_CHARACTERS or len(of) > MAX_CLASS_CHARACTERS:
                raise LabelsError(f"{url}, line {number}: the name or the class is empty or too long")
            yield name, of, number
    except csv.Error:
        raise LabelsError(f"{url} is no CSV or TSV that can be read") from None


def _labelled(content: bytes, url: str) -> Iterator[tuple[str, str, int]]:
    """(key, class, row) of a labels file; rows without one of them name no image's class."""
    try:
        table = pq.read_table(pa.BufferReader(content), columns=["key", "class"]).cast(_LABELLED)
    except (pa.ArrowException, ValueError, KeyError):
        raise LabelsError(f"{url} has no columns key and class of text; give a labels file or a list") from None
    for number, row in enumerate(table.to_pylist(), 1):
        if row["key"] and row["class"]:
            yield _name(row["key"]), printable(row["class"]), number


def _spaced(line: str) -> list[str]:
    return line.rsplit(None, 1)


def _columns(row: Sequence[str]) -> tuple[int, int] | None:
    """The columns of name and class where the first line is a heading."""
    heads = [cell.strip().lower() for cell in row]
    names, classes = ([n for n, head in enumerate(heads) if head in known] for known in (NAME_HEADS, CLASS_HEADS))
    return (names[0], classes[0]) if names and classes else None


def _numbered(text: str, url: str) -> dict[int, str]:
    """Number -> name, of lines like `/a/airfield 0`."""
    found: dict[int, str] = {}
    for line in text.splitlines():
        name, _, number = line.strip().rpartition(" ")
        if not line.strip():
            continue
        if not name or not re.fullmatch(r"\d{1,6}", number) or len(name) > MAX_CLASS_CHARACTERS:
            raise LabelsError(f"{url} is no list of classes and their numbers, such as `/a/airfield 0`")
        found[int(number)] = printable(name.strip().lstrip("/"))
    return found


def _name(cell: str) -> str:
    return printable(re.sub(r"^(?:\./|/)+", "", cell.strip()))


def _short(name: str) -> str:
    """Without the folder of one letter that Places365's names begin with, and without the extension."""
    return posixpath.splitext(re.sub(r"^[a-z]/(?=[^/]+/)", "", name))[0]


def _hash(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big")
