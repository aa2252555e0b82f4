"""Labels of an audit as answers to its questions: is the picture private, does it show each attribute?"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ingest.errors import LabelsError
from reports.audit.cells import HOLISTIC_PRIVATE, PRIVATE_ANSWER, Counts, Flags, Numbers
from reports.audit.results import LabelCounts
from reports.evaluation.answers import truth_of
from reports.evaluation.joining import join
from reports.warehouse import PRIVATE as PRIVATE_LEVELS
from scoring.runs.audit_sample import PRIVATE
from scoring.taxonomy import KEYS

OF_LEVELS = (PRIVATE_LEVELS, PRIVATE_ANSWER, HOLISTIC_PRIVATE)
"""Conditions that mean levels 1 and 2; for others only the labels' own column `private` counts."""


@dataclass(frozen=True)
class Labelled:
    """Pictures with a label."""

    places: Counts
    """Their rows in the table that was joined, ascending. Shape (m,)."""

    truth: dict[str, Numbers]
    """Subject -> 1, 0 or NaN (not labelled), shape (m,). An attribute's 0.5 is 0."""

    num_ambiguous: dict[str, int]
    """Subject -> labels of 0.5."""

    counts: LabelCounts


def labelled(rows: pa.Table, labels: pa.Table, private: str, whose: str) -> Labelled:
    """rows: pictures with `shard`, `key` (a name that no other picture of the run has), `sha256`.

    labels: of `LABELS_SCHEMA`, one row per picture. private: SQL condition of what the run calls private. whose: the
    rows, in words. LabelsError if no label is of these pictures, or a picture has several.
    """
    if not _share_names(rows, labels):
        raise LabelsError(
            f"no label is of a picture of {whose}; label the pictures of the list that audit sample wrote"
        )
    joined = join(rows.append_column("place", pa.array(np.arange(rows.num_rows))), labels)
    answers = truth_of(joined.labels)
    given = np.asarray(joined.labels["private"].cast(pa.float64()).to_numpy(zero_copy_only=False), dtype=np.float64)
    # What else the user calls private does not follow from attributes.
    truth = {PRIVATE: answers.settled if private in OF_LEVELS else given}
    ambiguous = {PRIVATE: 0}
    for place, key in enumerate(KEYS):
        values = answers.values[:, place]
        truth[key] = np.where(values == 0.5, 0.0, values)
        ambiguous[key] = int((values == 0.5).sum())
    has_answer: Flags = np.asarray(~np.isnan(np.stack(list(truth.values()))).all(axis=0), dtype=np.bool_)
    counts = LabelCounts(
        num_drawn=rows.num_rows,
        num_labelled=int(has_answer.sum()),
        num_empty=int((~has_answer).sum()),
        num_without_row=rows.num_rows - len(has_answer),
        num_rows=labels.num_rows,
        num_outside=joined.counts.num_labels_without_row,
    )
    return Labelled(joined.rows["place"].to_numpy().astype(np.int64), truth, ambiguous, counts)


def _share_names(rows: pa.Table, labels: pa.Table) -> bool:
    hashes, keys = (set(labels[name].drop_null().to_pylist()) for name in ("sha256", "key"))
    named = zip(rows["shard"].to_pylist(), rows["key"].to_pylist(), rows["sha256"].to_pylist(), strict=True)
    return any(sha256 in hashes or key in keys or f"{shard}/{key}" in keys for shard, key, sha256 in named)
