"""Labels joined with the rows of a run, by the rules of `scoring.labels.picture_index`."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingest.errors import LabelsError
from ingest.sample import printable
from scoring.labels.picture_index import PictureIndex, shared_keys
from scoring.sql.expressions import shown
from scoring.table import Col

Places = npt.NDArray[np.int64]


@dataclass(frozen=True)
class JoinCounts:
    """What was joined and what was not; rows and labels each add up."""

    num_rows: int
    """Number of rows of the run."""

    num_labels: int
    """Rows of the labels table."""

    num_joined_rows: int
    """Rows of the run that have a label; copies of a picture count each."""

    num_joined_labels: int
    """Labels that are of at least one row."""

    num_rows_without_label: int
    """Rows that are in no figure, since nothing is known of them."""

    num_labels_without_row: int
    """Labels of pictures that the run does not hold."""

    num_ambiguous_rows: int
    """How many of the rows without a label have a name that a label gives, but that other pictures have too."""


@dataclass(frozen=True)
class Joined:
    """Rows of a run with their labels, in the order of the rows."""

    rows: pa.Table
    """The joined rows of the run."""

    labels: pa.Table
    """The label of each of these rows, as many."""

    label_places: Places
    """The place of the label in the labels table, of each of these rows."""

    counts: JoinCounts
    """Counts of both sides."""


def join(rows: pa.Table, labels: pa.Table) -> Joined:
    """Join the labels with the rows: a row whose key other pictures of the run have is joined by hash or SHARD/KEY.

    rows: with the columns shard, key and sha256. labels: of `LABELS_SCHEMA`, checked, one row per picture.
    LabelsError if nothing is joined, or if several annotators label a picture.
    """
    keys, hashes, shards = (rows[name].to_pylist() for name in (Col.KEY, Col.SHA256, Col.SHARD))
    annotators = labels["annotator"].to_pylist()
    index = PictureIndex(None, annotators.__getitem__, shared_keys(keys, hashes), has_unreadable=True)
    index.add_labels(labels)
    positions = np.full(rows.num_rows, -1, dtype=np.int64)
    num_ambiguous = 0
    for number, (shard, key, sha256) in enumerate(zip(shards, keys, hashes, strict=True)):
        label = index.row_of(shard, key, sha256)
        if label is not None:
            positions[number] = label
        elif index.is_ambiguous(key, sha256):
            num_ambiguous += 1
    joined = np.flatnonzero(positions >= 0)
    if not len(joined):
        raise _nothing(rows, labels)
    counts = JoinCounts(
        num_rows=rows.num_rows,
        num_labels=labels.num_rows,
        num_joined_rows=len(joined),
        num_joined_labels=len(index.used),
        num_rows_without_label=rows.num_rows - len(joined),
        num_labels_without_row=labels.num_rows - len(index.used),
        num_ambiguous_rows=num_ambiguous,
    )
    return Joined(rows.take(pa.array(joined)), labels.take(pa.array(positions[joined])), positions[joined], counts)


def _nothing(rows: pa.Table, labels: pa.Table) -> LabelsError:
    if not rows.num_rows:
        return LabelsError("the run has no rows yet; scan first")
    if not labels.num_rows:
        return LabelsError("the labels table has no rows")
    return LabelsError(
        f"no label belongs to a row of the run: rows are named like {_shape(rows, Col.KEY)} (sha256 "
        f"{_shape(rows, Col.SHA256)}), labels like {_shape(labels, 'key')} (sha256 {_shape(labels, 'sha256')}); "
        "labels of pictures that were encoded again need a key and no sha256"
    )


def _shape(table: pa.Table, column: str) -> str:
    """The first name in the column: names are what the user compares."""
    known = table[column].drop_null()
    if not len(known):
        return "–"
    first = printable(known[0].as_py())
    return f"{first[:12]}…" if column == "sha256" else f'"{shown(first)}"'
