"""The columns of the labels table."""

import pyarrow as pa

from ingest.sample import Column
from scoring.taxonomy import ATTRIBUTES

LABEL_COLUMNS: tuple[Column, ...] = (
    Column("sha256", pa.string(), "hex", "hash of the encoded picture, null if the picture is not at hand"),
    Column("key", pa.string(), "", "the picture's name as a scan of the same folder writes it, null if unknown"),
    Column("annotator", pa.string(), "", "who or what gave the label: a person, a benchmark, a run", False),
    Column("split", pa.string(), "", "train, validation or test, null if the source does not say"),
    Column("licence", pa.string(), "", "licence of the label, null if unknown"),
    Column("class", pa.string(), "", "class that the source gives (face, passport, …), null if it gives none"),
    Column("private", pa.int8(), "0 | 1", "whether the picture is private, null if not judged"),
    Column("score", pa.float32(), "0–1", "severity: 0 harmless, 1 most private; null if not judged"),
    *(Column(a.key, pa.float32(), "0 | 0.5 | 1", f"level {a.level}: {a.shows}; null = not judged") for a in ATTRIBUTES),
    Column("vote", pa.string(), "", "clearly private, private, public or clearly public; null if not voted so"),
)
"""Every column of the labels table, in order. A file may leave out any but `annotator` and one of the two names."""

LABELS_SCHEMA = pa.schema([pa.field(c.name, c.type, nullable=c.nullable) for c in LABEL_COLUMNS])
