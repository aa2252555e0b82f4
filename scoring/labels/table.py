"""The labels table: one row per picture and annotator, as Parquet or CSV.

A picture is named by `sha256`, by `key`, or by both. A label is any of: values of the 22 attributes; `private` with a
`class`; a `score`. What an annotator did not judge is null, never 0.
"""

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from ingest.errors import LabelsError, did_you_mean
from ingest.sample import Column
from ingest.storage.place import place, reason_of
from scoring.assessment import Values
from scoring.taxonomy import ATTRIBUTES, KEYS

LABEL_COLUMNS: tuple[Column, ...] = (
    Column("sha256", pa.string(), "hex", "hash of the encoded picture, null if the picture is not at hand"),
    Column("key", pa.string(), "", "the picture's name as a scan of the same folder writes it, null if unknown"),
    Column("annotator", pa.string(), "", "who or what gave the label: a person, a benchmark, a run", False),
    Column("split", pa.string(), "", "train, validation or test, null if the source does not say"),
    Column("licence", pa.string(), "", "licence of the label, null if unknown"),
    Column("class", pa.string(), "", "class that the source gives (face, passport, …), null if it gives none"),
    Column("private", pa.int8(), "0 | 1", "whether the picture is private, null if not judged"),
    Column("score", pa.float32(), "0–1", "severity score, null if not judged"),
    *(Column(a.key, pa.float32(), "0 | 0.5 | 1", f"level {a.level}: {a.shows}; null = not judged") for a in ATTRIBUTES),
)
"""Every column of the labels table, in order. A file may leave out any but `annotator` and one of the two names."""

LABELS_SCHEMA = pa.schema([pa.field(c.name, c.type, nullable=c.nullable) for c in LABEL_COLUMNS])

FOOTER_KEY = b"privsieve.labels"
MAX_LABELS_BYTES = 4 * 1024**3


@dataclass(frozen=True)
class LabelsOrigin:
    """Where labels come from; written into the footer of the file."""

    source: str
    """What was imported or joined: `vispr`, `consensus`, `label-studio`, …"""

    mapping: str | None = None
    """Name and version of the mapping onto the taxonomy, null if none was needed."""

    num_pictures: int = 0

    unmapped: Mapping[str, int] = field(default_factory=dict)
    """Labels of the source that the mapping does not hold, with how often they occurred."""

    notes: tuple[str, ...] = ()
    """What a user of these labels must know, one sentence each."""


def to_labels(columns: Mapping[str, list[object]], num_rows: int) -> pa.Table:
    """A table of `LABELS_SCHEMA`; columns that are not given are null."""
    arrays = [
        pa.array(columns[f.name], type=f.type, from_pandas=True) if f.name in columns else pa.nulls(num_rows, f.type)
        for f in LABELS_SCHEMA
    ]
    return checked(pa.Table.from_arrays(arrays, schema=LABELS_SCHEMA), "the labels")


def write_labels(labels: pa.Table, url: str, origin: LabelsOrigin) -> None:
    """Writes a checked table as one Parquet file: aside, then renamed. StorageError if it cannot be written."""
    footer = {FOOTER_KEY: json.dumps(asdict(origin), sort_keys=True).encode()}
    sink = pa.BufferOutputStream()
    pq.write_table(checked(labels, url).replace_schema_metadata(footer), sink)
    place(url).write(sink.getvalue().to_pybytes())


def read_labels(url: str) -> pa.Table:
    """The rows of a Parquet or CSV file in `LABELS_SCHEMA`, checked. LabelsError in one line if they are wrong."""
    table, _ = read_labels_and_origin(url)
    return table


def read_labels_and_origin(url: str) -> tuple[pa.Table, LabelsOrigin | None]:
    """As `read_labels`, with the origin if the file was written by privsieve."""
    content = _content(url)
    try:
        if content[:4] == b"PAR1":
            table = pq.read_table(pa.BufferReader(content))
        else:
            options = pyarrow.csv.ConvertOptions(column_types=LABELS_SCHEMA, strings_can_be_null=True)
            table = pyarrow.csv.read_csv(pa.BufferReader(content), convert_options=options)
    except pa.ArrowInvalid as error:
        raise LabelsError(f"{url}: cannot be read as labels: {str(error).splitlines()[0]}") from None
    footer = (table.schema.metadata or {}).get(FOOTER_KEY)
    return _as_labels(table, url), _origin(footer, url)


def attribute_values(labels: pa.Table) -> Values:
    """Shape (rows, 22), float32, canonical order: 0, 0.5, 1 or NaN."""
    columns = [labels.column(key).to_numpy(zero_copy_only=False) for key in KEYS]
    return np.stack(columns, axis=1).astype(np.float32).reshape(labels.num_rows, len(KEYS))


def checked(labels: pa.Table, name: str) -> pa.Table:
    """The table itself. LabelsError if a value is out of its range, or a picture is named or labelled twice."""
    for column in (*KEYS, "private"):
        allowed = pa.array([0, 1] if column == "private" else [0.0, 0.5, 1.0], LABELS_SCHEMA.field(column).type)
        wrong = pc.filter(labels[column], pc.invert(pc.is_in(labels[column].fill_null(0), allowed)))
        if len(wrong):
            values = "0 and 1" if column == "private" else "0, 0.5 and 1"
            raise LabelsError(f'{name}: column "{column}" holds {wrong[0].as_py()}; allowed are {values}, or null')
    scores = labels["score"].drop_null().to_numpy()
    if len(scores) and not ((scores >= 0) & (scores <= 1)).all():
        raise LabelsError(f'{name}: column "score" holds a value that is not from 0 to 1')
    if labels["annotator"].null_count:
        raise LabelsError(f'{name}: column "annotator" is empty in {labels["annotator"].null_count} rows; name one')
    nameless = pc.sum(pc.and_(pc.is_null(labels["sha256"]), pc.is_null(labels["key"]))).as_py() or 0
    if nameless:
        raise LabelsError(f"{name}: {nameless} rows have neither sha256 nor key; each needs one of them")
    names = pc.coalesce(labels["sha256"], labels["key"]).to_pylist()
    twice = [pair for pair, n in Counter(zip(names, labels["annotator"].to_pylist(), strict=True)).items() if n > 1]
    if twice:
        raise LabelsError(
            f'{name}: annotator "{twice[0][1]}" labels {twice[0][0]} more than once ({len(twice)} such); keep one row'
        )
    return labels


def _as_labels(table: pa.Table, url: str) -> pa.Table:
    for column in table.column_names:
        if column not in LABELS_SCHEMA.names:
            near = did_you_mean(column, LABELS_SCHEMA.names)
            raise LabelsError(f'{url}: there is no label column "{column}"{near}; see docs/labels.md')
    if not {"sha256", "key"} & set(table.column_names):
        raise LabelsError(f"{url}: has neither the column sha256 nor key, one of which names the picture")
    for field_ in LABELS_SCHEMA:
        if field_.name not in table.column_names:
            fill = pa.array(["labels"] * table.num_rows) if field_.name == "annotator" else pa.nulls(table.num_rows)
            table = table.append_column(field_.name, fill)
    try:
        return checked(table.select(LABELS_SCHEMA.names).replace_schema_metadata(None).cast(LABELS_SCHEMA), url)
    except (pa.ArrowInvalid, ValueError) as error:
        raise LabelsError(f"{url}: a column has the wrong type: {str(error).splitlines()[0]}") from None


def _origin(footer: bytes | None, url: str) -> LabelsOrigin | None:
    if footer is None:
        return None
    try:
        stored = json.loads(footer)
        return LabelsOrigin(
            stored["source"], stored["mapping"], stored["num_pictures"], stored["unmapped"], tuple(stored["notes"])
        )
    except (ValueError, KeyError, TypeError):
        raise LabelsError(f"{url}: its footer {FOOTER_KEY.decode()} is damaged; import the labels again") from None


def _content(url: str) -> bytes:
    file = place(url)
    try:
        size = file.size()
    except OSError as error:
        raise LabelsError(f"{url}: cannot be read: {reason_of(error)}") from None
    if size > MAX_LABELS_BYTES:
        raise LabelsError(f"{url}: has {size:,} bytes; a labels file may have {MAX_LABELS_BYTES:,}")
    return file.read()
