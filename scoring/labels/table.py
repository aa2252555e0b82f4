"""The labels table: one row per picture and annotator, as Parquet or CSV.

A picture is named by `sha256`, by `key`, or by both. A label is any of: values of the attributes; `private` with a
`class`; a `score`. What an annotator did not judge is null, never 0.
"""

import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic_core import from_json

from ingest.errors import LabelsError, number_of
from ingest.sample import printable
from ingest.storage.file_format import FORMAT, refuse_other_format
from ingest.storage.given_files import given_content
from ingest.storage.parquet_tables import refuse_damage
from ingest.storage.place import place
from scoring.assessment import Values
from scoring.labels.label_files import (
    LABELS_SCHEMA,
    MAX_TEXT_CHARS,
    NULL_NUMBERS,
    WORDS_OF_PRIVATE,
    as_csv,
    bounded_table,
    refuse_rows,
    refuse_unknown,
    text_batches,
    unescaped,
    with_private_of_votes,
)
from scoring.labels.picture_index import picture_names
from scoring.labels.reviews import OF_ATTRIBUTES, SKIP, UNCLEAR, read_reviews, standing
from scoring.taxonomy import KEYS

FOOTER_KEY = b"privsieve.labels"
MAX_LABELS_BYTES = 4 * 1024**3
MAX_SPLITS_SHOWN = 20


@dataclass(frozen=True)
class LabelsOrigin:
    """Origin of labels; written into the footer of the file."""

    source: str
    """Source that was imported or joined: `vispr`, `consensus`, `label-studio`, …"""

    mapping: str | None = None
    """Name and version of the mapping onto the taxonomy, null if none was needed."""

    num_pictures: int = 0

    unmapped: Mapping[str, int] = field(default_factory=dict)
    """Labels of the source that the mapping lacks -> number of occurrences."""

    notes: tuple[str, ...] = ()
    """What a user of these labels must know, one sentence each."""


def to_labels(columns: Mapping[str, Sequence[object]], num_rows: int) -> pa.Table:
    """Build a table of `LABELS_SCHEMA`; missing columns are null, but `private` follows from a vote."""
    arrays = [
        pa.array(columns[f.name], type=f.type, from_pandas=True) if f.name in columns else pa.nulls(num_rows, f.type)
        for f in LABELS_SCHEMA
    ]
    labels = pa.Table.from_arrays(arrays, schema=LABELS_SCHEMA)
    return checked(with_private_of_votes(labels, "the labels"), "the labels")


def write_labels(labels: pa.Table, url: str, origin: LabelsOrigin) -> None:
    """Write a checked table as one file, whole or not at all. StorageError if it cannot be written.

    Parquet with the origin in its footer; CSV without an origin if the name ends in `.csv`.
    """
    labels = checked(labels, url)
    with place(url).create() as file:
        if url.lower().endswith(".csv"):
            file.write(as_csv(labels))
        else:
            footer = json.dumps({"format": FORMAT, **asdict(origin)}, sort_keys=True)
            pq.write_table(labels.replace_schema_metadata({FOOTER_KEY: footer}), file)


def read_labels(url: str) -> pa.Table:
    """Read the rows of a Parquet or CSV file in `LABELS_SCHEMA`, checked. LabelsError in one line if they are wrong.

    url: a file, or the folder RUN/reviews, whose last answer of each person to each picture counts.
    """
    return read_labels_and_origin(url)[0]


@dataclass(frozen=True)
class JudgedLabels:
    """Labels of one or several people, and the pictures that they could not judge."""

    labels: pa.Table
    """Rows of `LABELS_SCHEMA`, one per picture and annotator."""

    is_unclear: npt.NDArray[np.bool_]
    """Shape (rows,): the person saw the picture but could not answer."""

    is_complete: npt.NDArray[np.bool_]
    """Shape (rows,): the person was asked for every attribute, so a missing value means that they could not tell."""

    is_skipped: npt.NDArray[np.bool_]
    """Shape (rows,): the person skipped the picture."""


def read_judged(url: str) -> JudgedLabels:
    """Read labels, and what people could not judge, which only RUN/reviews holds.

    Of RUN/reviews only answers about the audit sample are used, without pictures whose answer was known, since the
    figures need pictures drawn at random. LabelsError if there are none.
    """
    if not place(url).is_dir():
        return as_judged(read_labels(url))
    given = standing(read_reviews(place(url)))
    answers = given.filter(pc.and_(pc.equal(given["queue"], "audit"), pc.invert(given["is_gold"])))
    if not answers.num_rows:
        raise LabelsError(
            f"{url}: none of the {given.num_rows:,} answers is about an audit sample, and the others are not of "
            "pictures drawn at random; draw a sample with privsieve audit sample, then review --queue audit"
        )
    says = np.array(answers["answer"].to_pylist(), dtype=object)
    labels = _as_labels(answers.select(LABELS_SCHEMA.names), url)
    return JudgedLabels(labels, *(np.asarray(says == answer, np.bool_) for answer in (UNCLEAR, OF_ATTRIBUTES, SKIP)))


def as_judged(labels: pa.Table) -> JudgedLabels:
    """Wrap labels without a record of what people could not judge: null is not judged. labels: `LABELS_SCHEMA`."""
    nothing = np.zeros(labels.num_rows, dtype=np.bool_)
    return JudgedLabels(labels, nothing, nothing, nothing)


def read_labels_and_origin(url: str) -> tuple[pa.Table, LabelsOrigin | None]:
    """Read labels, with their origin if privsieve wrote the file. Errors as in `read_labels`."""
    if place(url).is_dir():
        return _as_labels(standing(read_reviews(place(url))).select(LABELS_SCHEMA.names), url), None
    content = labels_content(url)
    if content[:4] != b"PAR1":
        labels = pa.concat_tables(label_batches(io.BytesIO(content), url))
        _refuse_labelled_twice(labels, url)
        return labels, None
    what = "is a damaged Parquet file, or holds text that is not UTF-8; write it again"
    with refuse_damage(f"{url}:", what, LabelsError):
        footer = (pq.read_metadata(pa.BufferReader(content)).metadata or {}).get(FOOTER_KEY)
        origin = None if footer is None else _origin(footer, url)
        table = bounded_table(content, url, LABELS_SCHEMA.names)
    labels = _as_labels(table, url)
    _refuse_labelled_twice(labels, url)
    return labels, origin


def label_batches(stream: BinaryIO, name: str, more: Sequence[str] = ()) -> Iterator[pa.Table]:
    """Yield the rows of a CSV file, some at a time. LabelsError in one line; a picture that is labelled twice is none.

    more: further columns of text to return.
    """
    num_before = 0
    for table in text_batches(stream, name):
        yield _labels_of_text(table, name, num_before, more)
        num_before += table.num_rows


def _labels_of_text(table: pa.Table, name: str, num_before: int, more: Sequence[str]) -> pa.Table:
    if len(set(table.column_names)) < table.num_columns:
        raise LabelsError(f"{name}: a column name occurs twice in the first line; keep one")
    columns = {}
    for column in table.column_names:
        if column in LABELS_SCHEMA.names and not pa.types.is_string(LABELS_SCHEMA.field(column).type):
            columns[column] = _numbers(table[column], column, name, num_before)
        elif column in (*LABELS_SCHEMA.names, *more):
            cells = [None if cell is None else unescaped(cell) for cell in table[column].to_pylist()]
            columns[column] = pa.array(cells, pa.string())
        else:
            columns[column] = table[column]
    others = {column: columns.pop(column) for column in more if column in columns}
    labels = _as_labels(pa.table(columns), name, num_before)
    for column, cells in others.items():
        labels = labels.append_column(column, cells)
    return labels


def of_split(labels: pa.Table, split: str, url: str) -> pa.Table:
    """Return the labels of a split, of the file `url`. LabelsError if there are none."""
    chosen = labels.filter(pc.equal(labels["split"], split))
    if not chosen.num_rows:
        known = sorted(printable(name[:80]) for name in pc.unique(labels["split"]).drop_null().to_pylist())
        there = f"there are: {', '.join(known[:MAX_SPLITS_SHOWN])}" if known else "the labels name no split"
        raise LabelsError(f'{url}: no label is of the split "{split:.80}"; {there}')
    return chosen


def attribute_values(labels: pa.Table) -> Values:
    """Return values of shape (rows, attributes), float32, canonical order: 0, 0.5, 1 or NaN."""
    columns = [labels.column(key).to_numpy(zero_copy_only=False) for key in KEYS]
    return np.stack(columns, axis=1).astype(np.float32).reshape(labels.num_rows, len(KEYS))


def checked(labels: pa.Table, name: str) -> pa.Table:
    """Check a table and return it. LabelsError if a value is out of its range, or a picture is labelled twice."""
    _refuse_labelled_twice(check_cells(labels, name), name)
    return labels


def check_cells(labels: pa.Table, name: str, num_before: int = 0) -> pa.Table:
    """Check the rows one by one and return them. LabelsError as in `checked`. num_before: rows of the file before."""
    refuse = partial(refuse_rows, name=name, num_before=num_before)
    for column in (*KEYS, "private"):
        allowed = pa.array([0, 1] if column == "private" else [0.0, 0.5, 1.0], LABELS_SCHEMA.field(column).type)
        values = "0 and 1" if column == "private" else "0, 0.5 and 1"
        wrong = pc.invert(pc.is_in(labels[column].fill_null(0), allowed))
        refuse(wrong, why=f'"{column}" is {{}}; allowed are {values}, or null', values=labels[column])
    scores = labels["score"].fill_null(0)
    within = pc.and_(pc.greater_equal(scores, 0), pc.less_equal(scores, 1))  # neither holds for NaN
    refuse(pc.invert(within), why='"score" is {}; scores go from 0 to 1', values=labels["score"])
    for column in ("sha256", "key", "annotator", "split", "licence", "class"):
        is_long = pc.greater(pc.utf8_length(labels[column]), MAX_TEXT_CHARS)
        refuse(is_long, why=f'"{column}" has more than {MAX_TEXT_CHARS:,} characters')
    is_hash = pc.match_substring_regex(labels["sha256"], "^[0-9a-f]{64}$")
    refuse(pc.invert(is_hash), why='"sha256" is not 64 lower-case hexadecimal digits')
    refuse(pc.is_null(labels["annotator"]), why='"annotator" is empty; name one, such as "labels"')
    is_unnamed = pc.and_(pc.is_null(labels["sha256"]), pc.is_null(labels["key"]))
    refuse(is_unnamed, why="has neither sha256 nor key; each row needs one of them")
    return labels


def _refuse_labelled_twice(labels: pa.Table, name: str) -> None:
    rows = pa.table({"name": picture_names(labels), "annotator": labels["annotator"]})
    counts = rows.group_by(["name", "annotator"], use_threads=False).aggregate([([], "count_all")])
    twice = counts.filter(pc.greater(counts["count_all"], 1))
    if twice.num_rows:
        first = twice.slice(0, 1).to_pylist()[0]
        who = f'annotator "{first["annotator"]}" labels {first["name"]} {first["count_all"]} times'
        raise LabelsError(f"{name}: {who} ({number_of(twice.num_rows, 'such picture')}); keep one row of each")


def _numbers(cells: pa.ChunkedArray, column: str, name: str, num_before: int) -> pa.ChunkedArray:
    cells = pc.if_else(pc.is_in(cells, pa.array(NULL_NUMBERS)), pa.scalar(None, pa.string()), cells)
    if column == "private":
        for word, number in WORDS_OF_PRIVATE.items():
            cells = pc.if_else(pc.equal(pc.utf8_lower(cells), word), pa.scalar(number), cells)
    try:
        return pc.cast(cells, pa.float64())
    except pa.ArrowInvalid:
        for row, cell in enumerate(cells.to_pylist()):
            try:
                pc.cast(pa.array([cell], pa.string()), pa.float64())
            except pa.ArrowInvalid:
                raise LabelsError(
                    f'{name}, line {num_before + row + 2}: the column "{column}" holds no number'
                    f"{'; write 1 or private, 0 or public' if column == 'private' else ''}"
                ) from None
        raise


def _as_labels(table: pa.Table, name: str, num_before: int = 0) -> pa.Table:
    refuse_unknown(table.column_names, name, LABELS_SCHEMA.names)
    for field_ in LABELS_SCHEMA:
        if field_.name not in table.column_names:
            fill = pa.array(["labels"] * table.num_rows) if field_.name == "annotator" else pa.nulls(table.num_rows)
            table = table.append_column(field_.name, fill)
    columns = []
    for field_ in LABELS_SCHEMA:
        try:
            # Unchecked numbers are kept wide: 300 is no int8, and is refused with its row below.
            kind = pa.float64() if pa.types.is_integer(field_.type) else field_.type
            columns.append(pc.cast(table[field_.name], kind))
        except (pa.ArrowException, ValueError):
            wanted = "text" if pa.types.is_string(field_.type) else "numbers"
            raise LabelsError(f'{name}: the column "{field_.name}" does not hold {wanted}') from None
    private = LABELS_SCHEMA.names.index("private")
    wrong = pc.invert(pc.is_in(columns[private].fill_null(0), pa.array([0.0, 1.0])))
    refuse_rows(wrong, name, num_before, '"private" is {}; allowed are 0 and 1, or null', columns[private])
    narrow = [column.cast(f.type) for column, f in zip(columns, LABELS_SCHEMA, strict=True)]
    labels = pa.Table.from_arrays(narrow, schema=LABELS_SCHEMA)
    labels = labels.set_column(0, LABELS_SCHEMA.field(0), pc.utf8_lower(labels["sha256"]))
    return check_cells(with_private_of_votes(labels, name, num_before), name, num_before)


def _origin(footer: bytes, url: str) -> LabelsOrigin:
    try:
        stored = from_json(footer)
        refuse_other_format(stored, url, "write the labels again", LabelsError)
        return LabelsOrigin(
            stored["source"], stored["mapping"], stored["num_pictures"], stored["unmapped"], tuple(stored["notes"])
        )
    except (ValueError, KeyError, TypeError):
        raise LabelsError(f"{url}: its footer {FOOTER_KEY.decode()} is damaged; import the labels again") from None


def labels_sha256(url: str) -> str:
    """Return the hex hash of a labels file, or of the labels of a folder of reviews. Errors as in `read_labels`."""
    content = as_csv(read_labels(url)) if place(url).is_dir() else labels_content(url)
    return hashlib.sha256(content).hexdigest()


def labels_content(url: str) -> bytes:
    """Read the bytes of a file. StorageError if it cannot be read or is too large."""
    return given_content(place(url), url, MAX_LABELS_BYTES)
