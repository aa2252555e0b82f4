"""Conversion of the labelled pictures of a data set to the labels table: hashes, keys, mapping, one row per picture.

A mapping says which attributes a label of another source means; it is shipped as YAML, or a user's own.
"""

import hashlib
import os
import pickle
import stat
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Annotated

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from ingest.errors import LabelsError, did_you_mean, number_of
from ingest.formats.shard import MAX_IMAGE_BYTES
from ingest.sample import printable
from ingest.storage.place import Place
from ingest.storage.retries import storage_error
from scoring.labels.label_files import LABELS_SCHEMA, PRIVATE_VOTES, with_private_of_votes
from scoring.labels.source_files import Importer, LabelledPicture, folder_and_file, key_of
from scoring.labels.table import LabelsOrigin, checked
from scoring.taxonomy import KEYS
from scoring.yaml_files import load_yaml, shipped_or_given

SHIPPED = ("vispr", "privbench", "biv-priv", "privacyalert")

MAX_MAPPING_BYTES = 10 * 2**20

Text = Annotated[str, Field(min_length=1, max_length=200)]


class LabelMapping(BaseModel):
    """A mapping file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Text
    version: Annotated[int, Field(ge=1)]

    source: Text
    """The source of the labels, in words."""

    licence: Text
    """Licence of this file, not of the labels."""

    absent_is_zero: bool
    """Whether the source judged every picture for all of its labels: if so, attributes without any of their labels are
    0, else null."""

    safe: tuple[Text, ...] = ()
    """Labels that say that nothing private is shown. They map to no attribute and are not counted as unmapped."""

    only_affirmed: tuple[Text, ...] = ()
    """Attributes that are never 0, since the source has labels for a part of them only."""

    entries: Mapping[str, Mapping[str, float]]
    """Label of the source -> attributes that it means. An empty entry is a label that fits no attribute."""

    @field_validator("entries")
    @classmethod
    def _known(cls, entries: Mapping[str, Mapping[str, float]]) -> Mapping[str, Mapping[str, float]]:
        _refuse_unknown({key for entry in entries.values() for key in entry})
        if any(value not in (0.5, 1) for entry in entries.values() for value in entry.values()):
            raise ValueError("an entry gives an attribute 0.5 or 1; leave out attributes that its label does not mean")
        return entries

    @field_validator("only_affirmed")
    @classmethod
    def _known_affirmed(cls, keys: tuple[str, ...]) -> tuple[str, ...]:
        _refuse_unknown(keys)
        return keys

    @property
    def title(self) -> str:
        """Name and version, for the origin of labels."""
        return f"{self.name} {self.version}"

    @property
    def keys(self) -> tuple[str, ...]:
        """Attributes that any label means, in canonical order; all others are always null."""
        mapped = {key for entry in self.entries.values() for key in entry}
        return tuple(key for key in KEYS if key in mapped)

    def values(self, labels: Collection[str]) -> dict[str, float]:
        """Return attribute -> 0, 0.5 or 1, the highest of all labels. Missing attributes are null.

        A picture without any label was not judged, so all of its attributes are null.
        """
        if not labels:
            return {}
        values = dict.fromkeys(set(self.keys) - set(self.only_affirmed), 0.0) if self.absent_is_zero else {}
        for label in labels:
            for key, value in self.entries.get(label, {}).items():
                values[key] = max(values.get(key, 0.0), float(value))
        return values

    def unmapped(self, labels: Collection[str]) -> list[str]:
        """Return the labels that fit no attribute."""
        return [label for label in labels if not self.entries.get(label) and label not in self.safe]


def load_mapping(name: str) -> LabelMapping:
    """Load a shipped mapping by its name, or a YAML file by its path. LabelsError if it is neither or wrong."""
    folder = resources.files("scoring.labels") / "mappings"
    content = shipped_or_given("mapping", name, SHIPPED, folder, LabelsError, MAX_MAPPING_BYTES)
    fields = load_yaml(content, f"the mapping {name}", LabelsError)
    if not isinstance(fields, dict):
        raise LabelsError(f"{name} is not a mapping: write it like those in {folder}, with the same fields")
    try:
        return LabelMapping.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        position = ".".join(str(part) for part in first["loc"])
        raise LabelsError(f'the mapping {name}: "{position:.80}": {first["msg"].lower()}') from None


def _refuse_unknown(keys: Collection[str]) -> None:
    for key in sorted(keys):
        if key not in KEYS:
            raise ValueError(f'there is no attribute "{key:.40}"{did_you_mean(key, KEYS)}')


JUDGED = ("private", "class", "score", "vote", *KEYS)
"""Columns in which two rows of one picture can contradict each other."""

_ROWS_AT_ONCE = 10_000


@dataclass(frozen=True)
class Imported:
    labels: pa.Table
    origin: LabelsOrigin

    num_listed: int
    """Number of pictures that the data set lists, one per annotator: rows plus `num_copies`."""

    num_missing: int
    """Number of rows without sha256: the picture is missing or cannot be read."""

    num_copies: int
    """Number of listed pictures with the bytes of another one, whose row they share."""

    num_contradictions: int
    """Number of rows of several such pictures with different labels; differing values are null."""

    num_shared_names: int
    """Number of listed pictures whose file name also occurs in another folder, so that it cannot be their key."""


def import_labels(
    name: str,
    importer: Importer,
    root: Place,
    mapping: LabelMapping | None,
    *,
    split: str | None = None,
    annotator: str | None = None,
    advance: Callable[[int, int], None] = lambda done, all_: None,
) -> Imported:
    """Import the labels of the data set below `root`.

    split: only pictures of this split; data sets without splits get it as their split.
    annotator: who gave the labels, if the source does not name anyone; None for the name of the data set.
    advance: called with the number of pictures done and of all, for a display of progress.
    LabelsError if a file of labels is wrong or lists no picture, or the mapping or annotator would change nothing.
    """
    listed = _Listed(picture for picture in importer.pictures(root) if split is None or picture.split in (None, split))
    if not listed.num_pictures:
        which = f" of the split {split}" if split else ""
        raise LabelsError(f"{root.path}: no labelled picture{which} was found; privsieve help labels shows the layouts")
    if mapping is not None and importer.mapping is None and not listed.has_labels:
        raise LabelsError(f"--mapping changes nothing: {name} has no labels of its own here to map; leave it out")
    if annotator is not None and listed.names_annotators:
        raise LabelsError("--annotator changes nothing: every label names its annotator; leave it out")
    folder, _ = folder_and_file(root, "")
    rows, unmapped, num_shared = _Rows(), Counter[str](), 0
    for number, picture in enumerate(listed):
        row = _row(picture, folder, mapping, listed.shared_keys)
        row |= {"annotator": picture.annotator or annotator or name, "split": picture.split or split}
        rows.add(row | {"licence": picture.licence or importer.licence})
        unmapped.update(mapping.unmapped(picture.labels) if mapping else picture.labels)
        num_shared += picture.path is not None and key_of(picture.path) in listed.shared_keys
        advance(number + 1, listed.num_pictures)
    labels = rows.labels()
    num_copies = listed.num_pictures - labels.num_rows
    counts = (labels["sha256"].null_count, num_copies, rows.num_contradictions, num_shared)
    origin = LabelsOrigin(
        source=name,
        mapping=mapping.title if mapping else None,
        num_pictures=pc.count_distinct(pc.coalesce(labels["sha256"], labels["key"])).as_py(),
        unmapped={printable(label)[:200]: count for label, count in sorted(unmapped.items())},
        notes=(*importer.notes, *_notes(*counts)),
    )
    return Imported(labels, origin, listed.num_pictures, *counts)


class _Listed:
    """The pictures that a data set lists, in a temporary file, and what must be known of all before the first row."""

    def __init__(self, pictures: Iterable[LabelledPicture]):
        """LabelsError if a picture is labelled twice; StorageError if the disk is full."""
        self.num_pictures, self.has_labels, self.names_annotators = 0, False, True
        self.shared_keys = set[str]()
        """Keys that a scan would give to several of the pictures."""

        self._file = tempfile.TemporaryFile(prefix="privsieve-")  # noqa: SIM115 - it goes with this object
        labelled_before, path_of_keys, waiting = set[bytes](), dict[bytes, bytes](), list[LabelledPicture]()
        for picture in pictures:
            self.num_pictures += 1
            self.has_labels |= bool(picture.labels)
            self.names_annotators &= bool(picture.annotator)
            label = _digest(picture.path, picture.sha256 or picture.key, picture.annotator)
            if label in labelled_before:
                raise LabelsError(f"{picture.where}: the same picture is labelled a second time; keep one of them")
            labelled_before.add(label)
            if picture.path is not None:
                key, path = key_of(picture.path), _digest(picture.path)
                if path_of_keys.setdefault(_digest(key), path) != path:
                    self.shared_keys.add(key)
            waiting.append(picture)
            if len(waiting) == _ROWS_AT_ONCE:
                self._keep(waiting)
                waiting = []
        self._keep(waiting)

    def _keep(self, pictures: list[LabelledPicture]) -> None:
        try:
            pickle.dump(pictures, self._file)
            self._file.flush()
        except OSError as error:
            raise storage_error(f"cannot write a temporary file in {tempfile.gettempdir()}", error) from None

    def __iter__(self) -> Iterator[LabelledPicture]:
        self._file.seek(0)
        num_left = self.num_pictures
        while num_left:
            pictures: list[LabelledPicture] = pickle.load(self._file)
            num_left -= len(pictures)
            yield from pictures


class _Rows:
    """Rows of the labels table. Pictures with the same bytes are merged to one row per annotator."""

    def __init__(self) -> None:
        self._tables, self._waiting = list[pa.Table](), list[dict[str, object]]()
        self._number_of = dict[bytes, int]()
        self._nulled = {column: set[int]() for column in (*JUDGED, "split", "licence")}
        """Column -> rows of which it became null, since the labels of a picture differ."""

    @property
    def num_contradictions(self) -> int:
        return len(set().union(*(self._nulled[column] for column in JUDGED)))

    def add(self, row: dict[str, object]) -> None:
        num_rows = len(self._number_of)
        number = self._number_of.setdefault(_digest(row["sha256"] or row["key"], row["annotator"]), num_rows)
        if number < num_rows:
            first = self._row(number)
            for column, numbers in self._nulled.items():
                if first.get(column) != row.get(column):
                    numbers.add(number)
            return
        self._waiting.append(row)
        if len(self._waiting) == _ROWS_AT_ONCE:
            self._tables.append(_table_of(self._waiting))
            self._waiting = []

    def labels(self) -> pa.Table:
        """Return the table, checked."""
        labels = pa.concat_tables([*self._tables, _table_of(self._waiting)])
        for column, numbers in self._nulled.items():
            if numbers:
                is_null = np.zeros(labels.num_rows, np.bool_)
                is_null[list(numbers)] = True
                field_ = LABELS_SCHEMA.field(column)
                cells = pc.if_else(pa.array(is_null), pa.scalar(None, field_.type), labels[column])
                labels = labels.set_column(LABELS_SCHEMA.names.index(column), field_, cells)
        return checked(with_private_of_votes(labels, "the labels"), "the labels")

    def _row(self, number: int) -> dict[str, object]:
        table, row = divmod(number, _ROWS_AT_ONCE)
        if table == len(self._tables):
            return self._waiting[row]
        first: dict[str, object] = self._tables[table].slice(row, 1).to_pylist()[0]
        return first


def _table_of(rows: Sequence[Mapping[str, object]]) -> pa.Table:
    cells = [pa.array([row.get(f.name) for row in rows], f.type, from_pandas=True) for f in LABELS_SCHEMA]
    return pa.Table.from_arrays(cells, schema=LABELS_SCHEMA)


def _digest(*texts: object) -> bytes:
    """Return a short hash by which texts are compared: millions of the texts themselves take gigabytes."""
    return hashlib.blake2b(repr(texts).encode(), digest_size=16).digest()


def sha256_of(picture: Place) -> str | None:
    """Hash the encoded bytes, as a scan does. None if the file is missing or a scan would not read it."""
    if not picture.is_local:
        try:
            content = picture.content()
        except FileNotFoundError:
            return None
        return hashlib.sha256(content).hexdigest() if content else None
    try:
        if not stat.S_ISREG(os.stat(picture.path).st_mode):  # to open a pipe would wait for a writer
            return None
        with open(picture.path, "rb", opener=lambda path, flags: os.open(path, flags | os.O_NONBLOCK)) as file:
            size = os.fstat(file.fileno()).st_size
            if not 0 < size <= MAX_IMAGE_BYTES:
                return None
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


def _row(labelled: LabelledPicture, root: Place, mapping: LabelMapping | None, shared: set[str]) -> dict[str, object]:
    actual_sha256 = sha256_of(root.at(labelled.path)) if labelled.path is not None else None
    if actual_sha256 and labelled.sha256 and actual_sha256 != labelled.sha256:
        raise LabelsError(
            f"{labelled.where}: sha256 is not that of the picture at this path; correct it or leave it out"
        )
    sha256, key = actual_sha256 or labelled.sha256, _key(labelled, actual_sha256 is not None, shared)
    values: dict[str, float] = mapping.values(labelled.labels) if mapping else {}
    private = labelled.private
    if private is None and labelled.vote is not None:
        private = int(labelled.vote in PRIVATE_VOTES)
    score = None if labelled.score is None else float(np.float32(labelled.score))  # as in the table
    row: dict[str, object] = {"private": private, "class": labelled.class_, "score": score}
    row["vote"] = labelled.vote
    return row | {"sha256": sha256, "key": key} | values | dict(labelled.values)


def _key(labelled: LabelledPicture, is_there: bool, shared: set[str]) -> str | None:
    """Return the key as a scan writes it; None if it would name several pictures."""
    if labelled.path is None or (labelled.key is not None and not is_there):
        return labelled.key
    if key_of(labelled.path) not in shared:
        return key_of(labelled.path)
    return None if is_there or labelled.sha256 else printable(labelled.path)


def _notes(num_missing: int, num_copies: int, num_contradictions: int, num_shared_names: int) -> tuple[str, ...]:
    counted = (
        (num_missing, "row", "without sha256: the picture was not there"),
        (num_copies, "picture", "had the bytes of another one and shares its row"),
        (num_contradictions, "picture", "with several files had different labels, now null"),
        (num_shared_names, "picture", "with a file name that another folder has too: found by sha256 only"),
    )
    return tuple(f"{number_of(num, noun)} {what}." for num, noun, what in counted if num)
