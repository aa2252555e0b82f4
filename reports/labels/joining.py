"""Which label belongs to which row of a run: by the hash of the picture, or by its name.

A label with a hash belongs to the rows with that hash. A row without a hash (it has no bytes), or a label without one,
is joined by name: the row's `key`, or `shard/key` where several rows have that key. If one annotator's labels match a
row by hash and by name, the hash decides: the name is of another picture.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingest.errors import LabelsError, number_of
from ingest.sample import printable
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
    """rows: with the columns shard, key and sha256. labels: of `LABELS_SCHEMA`, checked, one row per picture.

    LabelsError if nothing is joined, or if several annotators label a picture.
    """
    names = _names(labels)
    keys, hashes, shards = (rows[name].to_pylist() for name in (Col.KEY, Col.SHA256, Col.SHARD))
    pictures: dict[str, set[str | None]] = {}
    for key, hash_ in zip(keys, hashes, strict=True):
        pictures.setdefault(key, set()).add(hash_)
    annotators = labels["annotator"].to_pylist()
    positions = np.full(rows.num_rows, -1, dtype=np.int64)
    num_ambiguous = 0
    for index, (key, hash_, shard) in enumerate(zip(keys, hashes, shards, strict=True)):
        of_hash = names.by_hash.get(hash_ or "")
        is_shared = len(pictures[key]) > 1
        of_name = names.named(f"{shard}/{key}", hash_)
        if of_name is None and not is_shared:
            of_name = names.named(key, hash_)
        if of_hash is not None and of_name is not None and annotators[of_hash] != annotators[of_name]:
            raise _named_in_two_ways(key)
        label = of_name if of_hash is None else of_hash
        if label is not None:
            positions[index] = label
        elif is_shared and names.named(key, hash_) is not None:
            num_ambiguous += 1
    joined = np.flatnonzero(positions >= 0)
    if not len(joined):
        raise _nothing(rows, labels)
    num_used = len(np.unique(positions[joined]))
    counts = JoinCounts(
        num_rows=rows.num_rows,
        num_labels=labels.num_rows,
        num_joined_rows=len(joined),
        num_joined_labels=num_used,
        num_rows_without_label=rows.num_rows - len(joined),
        num_labels_without_row=labels.num_rows - num_used,
        num_ambiguous_rows=num_ambiguous,
    )
    return Joined(rows.take(pa.array(joined)), labels.take(pa.array(positions[joined])), positions[joined], counts)


@dataclass(frozen=True)
class _Names:
    """The places of labels."""

    by_hash: Mapping[str, int]
    """Hash -> position of the labels with a hash."""

    by_name: Mapping[str, int]
    """Name -> position of the labels without one."""

    also_by_name: Mapping[str, int]
    """Name -> position of the labels with a hash whose name no other label has; for rows without a hash."""

    def named(self, name: str, hash_: str | None) -> int | None:
        """The label of a row with this name and hash, by its name."""
        position = self.by_name.get(name)
        return self.also_by_name.get(name) if position is None and hash_ is None else position


def _names(labels: pa.Table) -> _Names:
    by_hash: dict[str, int] = {}
    by_name: dict[str, int] = {}
    also: dict[str, int] = {}
    hashes, keys = labels["sha256"].to_pylist(), labels["key"].to_pylist()
    uses = Counter(keys)
    for index, (hash_, key) in enumerate(zip(hashes, keys, strict=True)):
        if hash_ is None:
            if by_name.setdefault(key, index) != index:
                raise _several(labels, index)
        elif by_hash.setdefault(hash_.lower(), index) != index:
            raise _several(labels, index)
        elif key is not None and uses[key] == 1:
            also[key] = index
    return _Names(by_hash, by_name, also)


def _several(labels: pa.Table, index: int) -> LabelsError:
    name = shown(labels["key"][index].as_py() or labels["sha256"][index].as_py())
    annotators = number_of(len(labels["annotator"].unique()), "annotator")
    return LabelsError(
        f"the labels hold several rows for one picture ({name}, {annotators} in the table); make one row of them with: "
        "privsieve labels consensus FILE --out FILE2"
    )


def _named_in_two_ways(key: str) -> LabelsError:
    return LabelsError(
        f"the labels of two annotators are of the same picture ({shown(printable(key))}), but one names it by sha256 "
        "and the other by key alone, so they cannot be put together; give sha256 in every row, or in none"
    )


def _nothing(rows: pa.Table, labels: pa.Table) -> LabelsError:
    if not rows.num_rows:
        return LabelsError("the run has no rows yet; scan first")
    if not labels.num_rows:
        return LabelsError("the labels table has no rows")
    return LabelsError(
        f"no label belongs to a row of the run: rows are named like {_shape(rows, Col.KEY)} (sha256 "
        f"{_shape(rows, Col.SHA256)}), labels like {_shape(labels, Col.KEY)} (sha256 {_shape(labels, Col.SHA256)}); "
        "labels of pictures that were encoded again need a key and no sha256"
    )


def _shape(table: pa.Table, column: str) -> str:
    """The first name in the column: names are what the user compares."""
    known = table[column].drop_null()
    if not len(known):
        return "–"
    first = printable(known[0].as_py())
    return f"{first[:12]}…" if column == "sha256" else f'"{shown(first)}"'
