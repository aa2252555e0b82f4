"""Files of users that give each image its category: lists of classes, and words of captions.

A list of classes is CSV, TSV, a name and a class with a space between, or has the columns key and class of a labels
file. Places365's lists have a space between: their classes are numbers, whose names are in `categories_places365.txt`,
which is read if it is next to the list. A file of words is CSV, `category,word` on each line.
"""

import csv
import hashlib
import io
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
"""First bytes of a labels file of `privsieve labels`."""

MAX_LIST_BYTES = 512 * 2**20
MAX_NAME_CHARACTERS = 4096
MAX_CLASS_CHARACTERS = 255
MAX_FOLDERS = 100
"""Number of trailing parts of an image's path that are tried."""

NUMBERED_CLASSES = "categories_places365.txt"
NAME_HEADS = ("name", "key", "file", "filename", "file_name", "image", "path", "image name")
CLASS_HEADS = ("class", "category", "label", "scene")

_AMBIGUOUS = -1
_LABELLED = pa.schema([("key", pa.string()), ("class", pa.string())])


@dataclass(frozen=True)
class ClassList:
    """A map from image name to class. Small enough to be sent to workers: names are kept as hashes of 64 bits."""

    url: str
    sha256: str
    """Hash of the file's bytes, followed by those of the file that names numbered classes."""

    num_names: int
    classes: tuple[str, ...]

    hashes: npt.NDArray[np.uint64] = field(repr=False)
    """Hashes of the names, ascending; shape (names and their short forms,)."""

    numbers: npt.NDArray[np.int32] = field(repr=False)
    """Class of each name, as an index of `classes`."""

    shared_folders: tuple[str, ...] = ()
    """Leading folders of all names."""

    def class_of(self, path: str) -> str | None:
        """Return the class of an image; None if the list does not name it.

        path: its folders and name in the corpus. As far as the list allows, leading folders may be missing in it, so
        that `val_256/Places365_val_00000001.jpg` is listed as `Places365_val_00000001.jpg`; so may the extension, and
        the folder of one letter in Places365's names. In the corpus the folders may be missing that all names share.
        """
        parts = path.split("/")[-MAX_FOLDERS:]
        names = ["/".join(parts[first:]) for first in range(len(parts))]
        folders = [self.shared_folders[:last] for last in range(1, len(self.shared_folders) + 1)]
        for name in (*names, *("/".join((*missing, path)) for missing in folders)):
            for form in dict.fromkeys((name, _short(name))):
                wanted = np.uint64(_hash(form))
                index = int(np.searchsorted(self.hashes, wanted))
                if index < len(self.hashes) and self.hashes[index] == wanted:
                    number = int(self.numbers[index])
                    return None if number == _AMBIGUOUS else self.classes[number]
        return None


def read_class_list(url: str) -> ClassList:
    """Read a list. LabelsError or StorageError if the file is not such a list, or gives a name two classes."""
    file = place(url)
    content = given_content(file, f"--labels {url}", MAX_LIST_BYTES)
    is_table = content[:4] == PARQUET
    pairs = list(_labelled(content, url) if is_table else _pairs(_text(content, url), url))
    if not pairs:
        raise LabelsError(f"{url} names no image; give lines of an image's name and its class")
    digest = hashlib.sha256(content)
    names_file = Place(file.fs, posixpath.join(posixpath.dirname(file.path), NUMBERED_CLASSES))
    if all(re.fullmatch(r"\d{1,6}", class_name) for _, class_name, _ in pairs) and names_file.exists():
        named = given_content(names_file, f"the list of classes {names_file.path}", MAX_LIST_BYTES)
        digest.update(named)
        names = _numbered(_text(named, names_file.path), names_file.path)
        unknown = next(
            (f"line {line}: class {class_name}" for _, class_name, line in pairs if int(class_name) not in names), None
        )
        if unknown is not None:
            raise LabelsError(f"{url}: {unknown} has no name in {NUMBERED_CLASSES} next to it")
        pairs = [(name, names[int(class_name)], line) for name, class_name, line in pairs]
    classes = sorted({class_name for _, class_name, _ in pairs})
    class_numbers = {class_name: number for number, class_name in enumerate(classes)}
    number_by_name: dict[str, int] = {}
    for name, class_name, line in pairs:
        if number_by_name.setdefault(name, class_numbers[class_name]) != class_numbers[class_name]:
            raise LabelsError(f"{url}, line {line}: the list gives {printable(name)} two classes; keep one of them")
    by_hash: dict[int, int] = {}
    of_paths = {_with_slashes(name): number for name, number in number_by_name.items()} | number_by_name
    for name, number in of_paths.items():
        short = _hash(_short(name))
        by_hash[short] = number if by_hash.get(short, number) == number else _AMBIGUOUS
    by_hash |= {_hash(name): number for name, number in of_paths.items()}
    shared = posixpath.commonpath({posixpath.dirname(_with_slashes(name)) for name in number_by_name}).split("/")
    hashes = np.array(sorted(by_hash), np.uint64)
    numbers = np.array([by_hash[name_hash] for name_hash in sorted(by_hash)], np.int32)
    shared_folders = tuple(filter(None, shared[:MAX_FOLDERS]))
    return ClassList(url, digest.hexdigest(), len(number_by_name), tuple(classes), hashes, numbers, shared_folders)


def _text(content: bytes, url: str) -> str:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise LabelsError(f"{url} is not text in UTF-8; give lines of an image's name and its class")
    return text


def _pairs(text: str, url: str) -> Iterator[tuple[str, str, int]]:
    """Yield (name, class, line number) of each line. The separator of the first line counts for all."""
    head = next((line for line in io.StringIO(text, newline=None) if line.strip()), "")
    delimiter = "\t" if "\t" in head else "," if "," in head else None
    try:
        lines = io.StringIO(text, newline=None)
        cells = csv.reader(lines, delimiter=delimiter) if delimiter else (line.rsplit(None, 1) for line in lines)
        rows = ((row, number) for number, row in enumerate(cells, 1) if any(cell.strip() for cell in row))
        positions = (0, 1)
        for index, (row, number) in enumerate(rows):
            if index == 0 and (columns := _columns(row)) is not None:
                positions = columns
                continue
            if max(positions) >= len(row) or (positions == (0, 1) and len(row) > 2):
                raise LabelsError(f"{url}, line {number}: {len(row)} columns where a name and a class are expected")
            name, class_name = _name(row[positions[0]]), printable(row[positions[1]].strip().lstrip("/"))
            if not name or not class_name or len(name) > MAX_NAME_CHARACTERS or len(class_name) > MAX_CLASS_CHARACTERS:
                raise LabelsError(f"{url}, line {number}: the name or the class is empty or too long")
            yield name, class_name, number
    except csv.Error:
        raise LabelsError(f"{url} cannot be read as CSV or TSV") from None


def _labelled(content: bytes, url: str) -> Iterator[tuple[str, str, int]]:
    """Yield (key, class, row number) of a labels file; rows without a key or a class are skipped."""
    try:
        table = pq.read_table(pa.BufferReader(content), columns=["key", "class"]).cast(_LABELLED)
    except (pa.ArrowException, ValueError, KeyError):
        raise LabelsError(f"{url} has no columns key and class of text; give a labels file or a list") from None
    for number, row in enumerate(table.to_pylist(), 1):
        if row["key"] and row["class"]:
            yield _name(row["key"]), printable(row["class"]), number


def _columns(row: Sequence[str]) -> tuple[int, int] | None:
    """Return the columns of name and class if the first line is a heading."""
    heads = [cell.strip().lower() for cell in row]
    names, classes = ([n for n, head in enumerate(heads) if head in known] for known in (NAME_HEADS, CLASS_HEADS))
    return (names[0], classes[0]) if names and classes else None


def _numbered(text: str, url: str) -> dict[int, str]:
    """Map each number to its class name, from lines like `/a/airfield 0`."""
    names: dict[int, str] = {}
    for line in io.StringIO(text, newline=None):
        name, _, number = line.strip().rpartition(" ")
        if not line.strip():
            continue
        if not name or not re.fullmatch(r"\d{1,6}", number) or len(name) > MAX_CLASS_CHARACTERS:
            raise LabelsError(f"{url} is not a list of classes and their numbers, such as `/a/airfield 0`")
        names[int(number)] = printable(name.strip().lstrip("/"))
    return names


def _name(cell: str) -> str:
    return printable(re.sub(r"^(?:\./|/)+", "", cell.strip()))


def _with_slashes(name: str) -> str:
    """Return a path as Windows writes it with slashes. Keys of rows have backslashes too, in escapes."""
    return name if "/" in name else name.replace("\\", "/")


def _short(name: str) -> str:
    """Remove the one-letter folder that Places365's names begin with, and the extension."""
    return posixpath.splitext(re.sub(r"^[a-z]/(?=[^/]+/)", "", name))[0]


def _hash(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), "big")


MAX_FILE_BYTES = 2**20
MAX_CHARACTERS = 255
"""Limit of a category, and of a word."""

HEADS = ("category", "word")


@dataclass(frozen=True)
class KeywordList:
    """The words of each category, in the order of the file. Small enough to be sent to workers."""

    url: str
    sha256: str
    words: tuple[tuple[str, re.Pattern[str]], ...]
    """Category, and a pattern that matches any of its words."""

    def category_of(self, caption: str | None) -> str | None:
        """Return the first category with a word, or phrase, that is in the caption, or None. Whole words count, in any
        case: `cat` is in "a Cat." and not in "category"."""
        folded = "" if caption is None else " ".join(caption.casefold().split())
        return next((category for category, words in self.words if words.search(folded)), None)


def read_keyword_list(url: str) -> KeywordList:
    """Read a list. LabelsError or StorageError if the file is not such a list."""
    content = given_content(place(url), f"--caption-words {url}", MAX_FILE_BYTES)
    words_by_category: dict[str, list[str]] = {}
    try:
        lines = csv.reader(io.StringIO(content.decode("utf-8-sig"), newline=""), strict=True)
        for number, cells in enumerate(lines, 1):
            row = [cell.strip() for cell in cells]
            if not any(row) or (number == 1 and tuple(cell.lower() for cell in row) == HEADS):
                continue
            if len(row) != len(HEADS) or not all(0 < len(cell) <= MAX_CHARACTERS for cell in row):
                raise LabelsError(
                    f"{url}, line {number}: a category and a word are expected, with a comma between, each of at most "
                    f"{MAX_CHARACTERS} characters"
                )
            words_by_category.setdefault(printable(row[0]), []).append(" ".join(row[1].casefold().split()))
    except (UnicodeDecodeError, csv.Error):
        raise LabelsError(f"{url} cannot be read as CSV in UTF-8; give a category and a word per line") from None
    if not words_by_category:
        raise LabelsError(f"{url} names no word; give a category and a word per line, with a comma between")
    words = tuple(
        (category, re.compile(rf"(?<!\w)(?:{'|'.join(map(re.escape, of_category))})(?!\w)"))
        for category, of_category in words_by_category.items()
    )
    return KeywordList(url, hashlib.sha256(content).hexdigest(), words)
