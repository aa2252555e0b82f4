"""Joins labels with the rows of a run, by the rules of `scoring.labels.picture_index`, and says how the rows were
drawn.

`join` takes rows in memory. `labelled_rows` reads from the files of a run only the rows that have a label, so that
memory grows with the labels and not with the run.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.errors import LabelsError, RunError, number_of
from ingest.sample import printable
from ingest.storage.place import Place
from reports.labels.agreed import AgreedLabels, Places
from reports.statistics.binary import Flags, Numbers
from scoring.labels.picture_index import PictureIndex, are_named, shared_keys
from scoring.runs.audit_files import AuditSample, has_sample, read_sample
from scoring.runs.footers import refuse_foreign
from scoring.runs.record import RunRecord
from scoring.runs.results import listing, row_ranges
from scoring.runs.rows import images_only, rows_at
from scoring.sql.expressions import shown
from scoring.table import Col

Drawn = Literal["audit", "evenly"]
"""`audit`: the labelled pictures are those that `audit sample` drew, with known unequal probabilities. `evenly`: every
picture of the run was equally likely to be labelled."""

NEEDED = (Col.SHARD, Col.INDEX, Col.KEY, Col.SHA256, Col.STATUS)


@dataclass(frozen=True)
class JoinCounts:
    """Counts of rows and labels, joined and not; each side adds up."""

    num_rows: int
    num_labels: int
    num_joined_rows: int
    """Rows of the run that have a label; copies of a picture count each."""

    num_joined_labels: int
    num_rows_without_label: int
    """Rows without a label, which are in no figure."""

    num_labels_without_row: int
    num_ambiguous_rows: int
    """How many of the rows without a label have a name that a label gives, but that other pictures have too."""

    @property
    def in_words(self) -> str:
        belong = "belongs" if self.num_labels_without_row == 1 else "belong"
        return (
            f"{self.num_joined_rows:,} of {number_of(self.num_rows, 'row')} have a label; "
            f"{number_of(self.num_labels_without_row, 'label')} {belong} to no row"
        )


@dataclass(frozen=True)
class Joined:
    """Rows of a run with their labels, in the order of the rows."""

    rows: pa.Table
    labels: pa.Table
    label_places: Places
    """The place in the labels table of each of these labels."""

    counts: JoinCounts


def join(rows: pa.Table, labels: pa.Table) -> Joined:
    """Join labels with rows.

    A row whose key other pictures of the run have is joined by hash or SHARD/KEY.
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
    """Return the first name in the column, for the user to compare."""
    known = table[column].drop_null()
    if not len(known):
        return "–"
    first = printable(known[0].as_py())
    return f"{first[:12]}…" if column == "sha256" else f'"{shown(first)}"'


@dataclass(frozen=True)
class LabelledRows:
    """Joined rows with the probability of each."""

    joined: Joined
    """The counts are of the whole run."""

    undecided: Flags
    """Shape (n, 23), as `SUBJECTS`: questions about which people differ, or which none could answer."""

    drawn: Drawn
    probabilities: Numbers
    """Shape (n,): probability of being drawn; all 1 if drawn evenly."""

    sample: AuditSample | None
    """The audit sample; None if drawn evenly."""

    copies: pa.Table | None = None
    """For the rows of an audit sample: every scored row of the run with the bytes of one of these rows, the rows
    themselves included. The audit draws rows, and a picture can have several."""

    @property
    def weights(self) -> Numbers:
        """Return 1 / probability: how many pictures of the run each row represents. Shape (n,)."""
        return 1 / self.probabilities

    @property
    def one_per_picture(self) -> Places:
        """Return the places of the rows to count.

        If they were drawn evenly, copies of a labelled picture count once. An audit draws rows, so each of its rows
        counts.
        """
        if self.drawn == "audit":
            return np.arange(self.joined.rows.num_rows)
        return np.sort(np.unique(self.joined.label_places, return_index=True)[1])


def labelled_rows(
    run: Place, record: RunRecord, agreed: AgreedLabels, columns: Sequence[str], drawn: Drawn | None
) -> LabelledRows:
    """Read the rows of a run that have a label, and join the labels with them.

    columns: with `NEEDED`. drawn: None for `audit` if all labelled pictures are of the audit sample, and `evenly` if
    none is.

    LabelsError if nothing is joined, or if only some of the labelled pictures are of the sample and `drawn` is None.
    RunError if there is no sample although `drawn` says so, if the run changed after its draw, or if a file of the run
    is damaged or of another run.
    """
    labels = agreed.labels
    sample = read_sample(run) if drawn != "evenly" and has_sample(run) else None
    found_rows = _candidates(run, record, labels, sample, columns)
    num_images = found_rows.num_images
    joined = join(found_rows.table, labels)
    num_joined = joined.counts.num_joined_rows
    counts = replace(joined.counts, num_rows=num_images, num_rows_without_label=num_images - num_joined)
    joined = replace(joined, counts=counts)
    undecided = agreed.undecided[joined.label_places]
    evenly = LabelledRows(joined, undecided, "evenly", np.ones(num_joined), None)
    if sample is None:
        if drawn == "audit":
            raise RunError(f"{run.path} has no audit sample; draw one with: privsieve audit sample {run.path}")
        return evenly
    if not sample.design.are(record.settings_hash(), found_rows.num_rows, found_rows.rows_sha256):
        raise RunError(
            f"{run.path}: the audit sample was drawn from another state of the run; draw it again, or say "
            "--drawn evenly (in a policy drawn: evenly below guarantee)"
        )
    by_row = sample.probabilities()
    names = zip(joined.rows[Col.SHARD].to_pylist(), joined.rows[Col.INDEX].to_pylist(), strict=True)
    probabilities = np.array([by_row.get(name, np.nan) for name in names], dtype=np.float64)
    is_of_sample = ~np.isnan(probabilities)
    if drawn is None and not is_of_sample.any():
        return evenly
    # A copy of a drawn picture has its label, but was not drawn itself.
    of_drawn = set(joined.label_places[is_of_sample].tolist())
    num_others = len(set(joined.label_places.tolist()) - of_drawn)
    if num_others and drawn is None:
        raise LabelsError(
            f"{number_of(num_others, 'labelled picture')} of {len(of_drawn) + num_others} are not of the audit sample "
            "of this run; say --drawn audit to use only those that are, or --drawn evenly if every picture was equally "
            "likely to be labelled (in a policy drawn: audit or drawn: evenly below guarantee)"
        )
    if not is_of_sample.any():
        raise LabelsError("no label is of a picture of the audit sample of this run")
    kept = Joined(
        joined.rows.filter(pa.array(is_of_sample)),
        joined.labels.filter(pa.array(is_of_sample)),
        joined.label_places[is_of_sample],
        joined.counts,
    )
    candidates = found_rows.table
    has_bytes = pc.is_in(candidates[Col.SHA256], kept.rows[Col.SHA256].combine_chunks().drop_null())
    copies = candidates.filter(pc.and_(has_bytes, pc.equal(candidates[Col.STATUS], "scored")))
    return LabelledRows(kept, undecided[is_of_sample], "audit", probabilities[is_of_sample], sample, copies)


@dataclass(frozen=True)
class _Candidates:
    """Rows that may have a label, and counts of the run."""

    table: pa.Table
    """Every image that has the hash or the name of a label or the hash of a drawn picture, and the first image, which
    errors name."""

    num_images: int
    num_rows: int
    """Number of rows of the run, including those of damaged parts of shards."""

    rows_sha256: str


def _candidates(
    run: Place, record: RunRecord, labels: pa.Table, sample: AuditSample | None, columns: Sequence[str]
) -> _Candidates:
    keys = labels["key"].combine_chunks().drop_null()
    drawn = sample.table["sha256"].to_pylist() if sample else []
    hashes = pa.array({*labels["sha256"].to_pylist(), *drawn} - {None}, pa.string())
    listed = listing(run)
    checked = refuse_foreign(run, record.settings_hash(), listed)
    parts, num_images, num_rows = [rows_at(run, [], columns)], 0, 0
    for part in row_ranges(listed):
        all_rows = rows_at(run, [part], [*dict.fromkeys([*columns, Col.REASON])])
        num_rows += all_rows.num_rows
        rows = images_only(all_rows).select(columns)
        wanted = are_named(rows, hashes, keys).to_numpy()
        if not num_images:
            wanted = wanted | (np.arange(len(wanted)) == 0)
        parts.append(rows.filter(pa.array(wanted)))
        num_images += rows.num_rows
    return _Candidates(pa.concat_tables(parts), num_images, num_rows, checked.rows_sha256)
