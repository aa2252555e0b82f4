"""Conversion of the labelled pictures of a data set to the labels table: hashes, keys, mapping, one row per picture.

A mapping says which attributes a label of another source means; it is shipped as YAML, or a user's own.
"""

import hashlib
import os
import pickle
import stat
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import pyarrow as pa
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from ingest.errors import LabelsError, did_you_mean, number_of
from ingest.formats.shard import MAX_IMAGE_BYTES
from ingest.sample import printable
from ingest.storage.place import Place
from ingest.storage.retries import storage_error
from scoring.labels.label_files import LABELS_SCHEMA, PRIVATE_VOTES, with_private_of_votes
from scoring.labels.source_files import Importer, LabelledPicture, folder_and_file, key_of
from scoring.labels.table import Contradictions, LabelsOrigin, check_cells, write_label_batches
from scoring.sql.limits import spilling_database
from scoring.taxonomy import KEYS
from scoring.yaml_files import load_yaml, shipped_or_given

if TYPE_CHECKING:
    import duckdb

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

_ROWS_WRITTEN_AT_ONCE = 50_000

_MAX_MEMORY_BYTES = 128 * 2**20


@dataclass(frozen=True)
class Imported:
    origin: LabelsOrigin

    num_rows: int

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
    out: str,
    *,
    split: str | None = None,
    annotator: str | None = None,
    advance: Callable[[int, int], None] = lambda done, all_: None,
) -> tuple[Imported, str | None]:
    """Write the labels of the data set below `root` to `out`; return what they are, and the caution about labels that
    contradict themselves, None without any.

    split: only pictures of this split; data sets without splits get it as their split.
    annotator: who gave the labels, if the source does not name anyone; None for the name of the data set.
    advance: called with the number of pictures done and of all, for a display of progress.
    LabelsError if a file of labels is wrong or lists no picture, or the mapping or annotator would change nothing.
    Nothing is written then. Memory does not grow with the number of pictures: they are in temporary files.
    """
    with spilling_database("the import of labels", _MAX_MEMORY_BYTES) as database:
        database.execute("SET preserve_insertion_order = true; SET threads = 2")
        is_of_split = (
            picture for picture in importer.pictures(root) if split is None or picture.split in (None, split)
        )
        listed = _Listed(database, is_of_split)
        if not listed.num_pictures:
            which = f" of the split {split}" if split else ""
            raise LabelsError(
                f"{root.path}: no labelled picture{which} was found; privsieve help labels shows the layouts"
            )
        if mapping is not None and importer.mapping is None and not listed.has_labels:
            raise LabelsError(f"--mapping changes nothing: {name} has no labels of its own here to map; leave it out")
        if annotator is not None and listed.names_annotators:
            raise LabelsError("--annotator changes nothing: every label names its annotator; leave it out")
        folder, _ = folder_and_file(root, "")
        rows, unmapped = _Rows(database), Counter[str]()
        for pictures in listed.batches():
            cells = []
            for picture, is_shared in pictures:
                row = _row(picture, folder, mapping, is_shared)
                row |= {"annotator": picture.annotator or annotator or name, "split": picture.split or split}
                cells.append(row | {"licence": picture.licence or importer.licence})
                unmapped.update(mapping.unmapped(picture.labels) if mapping else picture.labels)
                advance(rows.num_added + len(cells), listed.num_pictures)
            rows.add(cells)
        num_contradictions = rows.merge()
        num_rows, num_pictures, num_missing = rows.counts()
        counts = (num_missing, listed.num_pictures - num_rows, num_contradictions, listed.num_shared_names)
        origin = LabelsOrigin(
            source=name,
            mapping=mapping.title if mapping else None,
            num_pictures=num_pictures,
            unmapped={printable(label)[:200]: count for label, count in sorted(unmapped.items())},
            notes=(*importer.notes, *_notes(*counts)),
        )
        contradictory = Contradictions()
        write_label_batches(map(contradictory.counted, rows.labels()), out, origin)
        return Imported(origin, num_rows, listed.num_pictures, *counts), contradictory.caution()


class _Listed:
    """The pictures that a data set lists, in a temporary file, and what must be known of all before the first row."""

    def __init__(self, database: "duckdb.DuckDBPyConnection", pictures: Iterator[LabelledPicture]):
        """LabelsError if a picture is labelled twice; StorageError if the disk is full."""
        self.num_pictures, self.has_labels, self.names_annotators = 0, False, True
        self._database = database
        self._file = tempfile.TemporaryFile(prefix="privsieve-")  # noqa: SIM115 - it goes with this object
        database.execute("CREATE TABLE listed (number BIGINT, label BLOB, name BLOB, path BLOB)")
        while batch := list(islice(pictures, _ROWS_AT_ONCE)):
            self._keep(batch)
        database.execute(
            "CREATE TABLE shared AS SELECT number FROM listed WHERE path IS NOT NULL AND name IN "
            "(SELECT name FROM listed GROUP BY name HAVING min(path) <> max(path)) ORDER BY number"
        )
        self.num_shared_names = _only_row(database, "SELECT count(*) FROM shared")[0]
        second = _only_row(
            database,
            "SELECT min(number) FROM (SELECT number, row_number() OVER (PARTITION BY label ORDER BY number) AS nth "
            "FROM listed WHERE label IN (SELECT label FROM listed GROUP BY label HAVING count(*) > 1)) WHERE nth = 2",
        )[0]
        if second is not None:
            picture = next(islice(chain.from_iterable(self.batches()), second, None))[0]
            raise LabelsError(f"{picture.where}: the same picture is labelled a second time; keep one of them")

    def _keep(self, pictures: list[LabelledPicture]) -> None:
        self.has_labels |= any(picture.labels for picture in pictures)
        self.names_annotators &= all(picture.annotator for picture in pictures)
        columns = {
            "number": range(self.num_pictures, self.num_pictures + len(pictures)),
            "label": [_digest(each.path, each.sha256 or each.key, each.annotator) for each in pictures],
            "name": [None if each.path is None else _digest(key_of(each.path)) for each in pictures],
            "path": [None if each.path is None else _digest(each.path) for each in pictures],
        }
        self.num_pictures += len(pictures)
        _insert(self._database, "listed", pa.table(columns))
        try:
            pickle.dump(pictures, self._file)
            self._file.flush()
        except OSError as error:
            raise storage_error(f"cannot write a temporary file in {tempfile.gettempdir()}", error) from None

    def batches(self) -> Iterator[list[tuple[LabelledPicture, bool]]]:
        """Yield the pictures in order, each with whether a scan would give its key to another one, too."""
        self._file.seek(0)
        for start in range(0, self.num_pictures, _ROWS_AT_ONCE):
            pictures: list[LabelledPicture] = pickle.load(self._file)
            statement = f"SELECT number FROM shared WHERE number BETWEEN {start} AND {start + _ROWS_AT_ONCE - 1}"
            shared = {number for (number,) in self._database.execute(statement).fetchall()}
            yield [(picture, start + place in shared) for place, picture in enumerate(pictures)]


class _Rows:
    """Rows of the labels table. Pictures with the same bytes are merged to one row per annotator."""

    def __init__(self, database: "duckdb.DuckDBPyConnection"):
        self._database, self.num_added = database, 0
        _insert(database, "rows", self._table([]), is_new=True)

    def _table(self, rows: Sequence[Mapping[str, object]]) -> pa.Table:
        cells = [pa.array([row.get(f.name) for row in rows], f.type, from_pandas=True) for f in LABELS_SCHEMA]
        digests = [_digest(row["sha256"] or row["key"], row["annotator"]) for row in rows]
        numbers = range(self.num_added, self.num_added + len(rows))
        columns = [pa.array(numbers, pa.int64()), pa.array(digests, pa.binary()), *cells]
        return pa.table(columns, names=["number", "of", *LABELS_SCHEMA.names])

    def add(self, rows: Sequence[Mapping[str, object]]) -> None:
        _insert(self._database, "rows", self._table(rows))
        self.num_added += len(rows)

    def merge(self) -> int:
        """Keep the first row of each picture and annotator; what others say differently becomes null. Return of how
        many rows anything judged became null."""
        columns = (*JUDGED, "split", "licence")
        differs = ", ".join(
            f'min("{name}") IS DISTINCT FROM max("{name}") OR count("{name}") NOT IN (0, count(*)) AS "{name}"'
            for name in columns
        )
        nulled = ", ".join(
            f'"{name}" = CASE WHEN differing."{name}" THEN NULL ELSE rows."{name}" END' for name in columns
        )
        self._database.execute(
            "CREATE TABLE repeated AS SELECT of, min(number) AS first FROM rows GROUP BY of HAVING count(*) > 1; "
            f"CREATE TABLE differing AS SELECT first, {differs} FROM rows JOIN repeated USING (of) GROUP BY first; "
            f"UPDATE rows SET {nulled} FROM differing WHERE number = first; "
            "DELETE FROM rows USING repeated WHERE rows.of = repeated.of AND number <> first"
        )
        judged = " OR ".join(f'"{name}"' for name in JUDGED)
        return int(_only_row(self._database, f"SELECT count(*) FROM differing WHERE {judged}")[0])

    def counts(self) -> tuple[int, int, int]:
        """Return the number of rows, of pictures, and of rows without sha256."""
        rows, missing = _only_row(self._database, "SELECT count(*), count(*) - count(sha256) FROM rows")
        pictures = "SELECT count(*) FROM (SELECT DISTINCT coalesce(sha256, key) FROM rows)"
        return rows, _only_row(self._database, pictures)[0], missing

    def labels(self) -> Iterator[pa.Table]:
        """Yield the rows in order, checked."""
        names = ", ".join(f'"{name}"' for name in LABELS_SCHEMA.names)
        num_before = 0
        for batch in self._database.sql(f"SELECT {names} FROM rows").to_arrow_reader(_ROWS_WRITTEN_AT_ONCE):
            labels = with_private_of_votes(pa.table(batch).cast(LABELS_SCHEMA), "the labels", num_before)
            yield check_cells(labels, "the labels", num_before)
            num_before += labels.num_rows


def _insert(database: "duckdb.DuckDBPyConnection", table: str, rows: pa.Table, is_new: bool = False) -> None:
    database.register("batch", rows)
    database.execute(f"CREATE TABLE {table} AS FROM batch" if is_new else f"INSERT INTO {table} FROM batch")
    database.unregister("batch")


def _only_row(database: "duckdb.DuckDBPyConnection", statement: str) -> tuple[Any, ...]:
    (row,) = database.execute(statement).fetchall()
    return tuple(row)


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


def _row(labelled: LabelledPicture, root: Place, mapping: LabelMapping | None, is_shared: bool) -> dict[str, object]:
    actual_sha256 = sha256_of(root.at(labelled.path)) if labelled.path is not None else None
    if actual_sha256 and labelled.sha256 and actual_sha256 != labelled.sha256:
        raise LabelsError(
            f"{labelled.where}: sha256 is not that of the picture at this path; correct it or leave it out"
        )
    sha256, key = actual_sha256 or labelled.sha256, _key(labelled, actual_sha256 is not None, is_shared)
    values: dict[str, float] = mapping.values(labelled.labels) if mapping else {}
    private = labelled.private
    if private is None and labelled.vote is not None:
        private = int(labelled.vote in PRIVATE_VOTES)
    score = None if labelled.score is None else float(np.float32(labelled.score))  # as in the table
    row: dict[str, object] = {"private": private, "class": labelled.class_, "score": score}
    row["vote"] = labelled.vote
    return row | {"sha256": sha256, "key": key} | values | dict(labelled.values)


def _key(labelled: LabelledPicture, is_there: bool, is_shared: bool) -> str | None:
    """Return the key as a scan writes it; None if it would name several pictures."""
    if labelled.path is None or (labelled.key is not None and not is_there):
        return labelled.key
    if not is_shared:
        return key_of(labelled.path)
    return None if is_there or labelled.sha256 else printable(labelled.path)


def _notes(num_missing: int, num_copies: int, num_contradictions: int, num_shared_names: int) -> tuple[str, ...]:
    counted = (
        (num_missing, "row", "without sha256: the picture was not there"),
        (num_copies, "picture", "with the bytes of another one, in its row"),
        (num_contradictions, "picture", "with several files had different labels, now null"),
        (num_shared_names, "picture", "with a file name that another folder has too: found by sha256 only"),
    )
    return tuple(f"{number_of(num, noun)} {what}." for num, noun, what in counted if num)
