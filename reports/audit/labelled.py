"""Labels of an audit as answers to its questions: is the picture private, does it show each attribute?"""

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.errors import LabelsError
from reports.audit.results import LabelCounts
from reports.labels.agreed import agreed
from reports.labels.joining import join
from reports.statistics.estimates import Counts, Flags, Numbers
from scoring.labels.picture_index import are_named, hashes_by_name
from scoring.labels.table import JudgedLabels, attribute_values
from scoring.privacy import private_of_labels
from scoring.runs.audit_files import PRIVATE, SUBJECTS
from scoring.table import Col, numbers_of
from scoring.taxonomy import KEYS


@dataclass(frozen=True)
class LabelledSample:
    """Pictures with a label."""

    places: Counts
    """Their rows in the table that was joined, ascending. Shape (m,)."""

    truth: dict[str, Numbers]
    """Subject -> 1, 0 or NaN (not labelled), shape (m,). An attribute's 0.5 is 0."""

    num_ambiguous: dict[str, int]
    """Subject -> labels of 0.5."""

    undecided: dict[str, Flags]
    """Subject -> whether people differ on it, cannot say, or skipped it, shape (m,); then the truth is NaN."""

    num_yes: dict[str, Counts]
    """Subject -> people who say yes, shape (m,)."""

    num_no: dict[str, Counts]
    """Subject -> people who say no, shape (m,)."""

    counts: LabelCounts


def labelled(
    rows: pa.Table, judged: JudgedLabels, private: str, whose: str, is_in_order: bool = False
) -> LabelledSample:
    """Join labels with pictures, and return the truth about each subject.

    rows: pictures with `shard`, `key` (a name that no other picture of the run has), `sha256`. judged: labels of one or
    several people. private: SQL condition of what the run calls private. whose: the rows, in words. is_in_order: people
    were asked in the order of the rows.
    LabelsError if no label is of these pictures.
    """
    labels = _with_hashes(rows, judged.labels)
    skipped = judged.is_skipped | _passed_over(rows, labels) if is_in_order else judged.is_skipped
    answers = agreed(replace(judged, labels=labels, is_skipped=skipped), private)
    labels = answers.labels
    hashes, keys = (labels[name].combine_chunks().drop_null() for name in ("sha256", "key"))
    if not pc.any(are_named(rows, hashes, keys)).as_py():
        raise LabelsError(
            f"no label is of a picture of {whose}; label the pictures of the list that audit sample wrote"
        )
    joined = join(rows.append_column("place", pa.array(np.arange(rows.num_rows))), labels)
    of_attributes = attribute_values(joined.labels).astype(np.float64)
    undecided = dict(zip(SUBJECTS, answers.undecided[joined.label_places].T, strict=True))
    truth = {PRIVATE: private_of_labels(numbers_of(joined.labels, "private"), of_attributes, private)}
    ambiguous = {PRIVATE: 0}
    for index, key in enumerate(KEYS):
        values = of_attributes[:, index]
        truth[key] = np.where(values == 0.5, 0.0, values)
        ambiguous[key] = int(((values == 0.5) & ~undecided[key]).sum())
    truth = {subject: np.where(undecided[subject], np.nan, answer) for subject, answer in truth.items()}
    is_undecided: Flags = np.asarray(np.stack(list(undecided.values())).any(axis=0), dtype=np.bool_)
    has_answer: Flags = np.asarray(~np.isnan(np.stack(list(truth.values()))).all(axis=0), dtype=np.bool_)
    counts = LabelCounts(
        num_drawn=rows.num_rows,
        num_labelled=int(has_answer.sum()),
        num_undecided=int((~has_answer & is_undecided).sum()),
        num_empty=int((~has_answer & ~is_undecided).sum()),
        num_without_row=rows.num_rows - len(has_answer),
        num_rows=judged.labels.num_rows,
        num_outside=joined.counts.num_labels_without_row,
    )
    places = joined.rows["place"].to_numpy().astype(np.int64)
    num_yes, num_no = (
        dict(zip(SUBJECTS, votes[joined.label_places].T, strict=True)) for votes in (answers.num_yes, answers.num_no)
    )
    return LabelledSample(places, truth, ambiguous, undecided, num_yes, num_no, counts)


def _with_hashes(rows: pa.Table, labels: pa.Table) -> pa.Table:
    """Add the hash to labels that name a picture by its key alone, so that they count for its copies too."""
    shards, keys, row_hashes = (rows[name].to_pylist() for name in (Col.SHARD, Col.KEY, Col.SHA256))
    full = [None if key is None else f"{shard}/{key}" for shard, key in zip(shards, keys, strict=True)]
    by_name = hashes_by_name(zip([*keys, *full], [*row_hashes, *row_hashes], strict=True))
    given = zip(labels["sha256"].to_pylist(), labels["key"].to_pylist(), strict=True)
    hashes = [by_name.get(key) if sha256 is None else sha256 for sha256, key in given]
    index = labels.schema.get_field_index("sha256")
    return labels.set_column(index, labels.schema.field(index), pa.array(hashes, pa.string()))


def _passed_over(rows: pa.Table, labels: pa.Table) -> Flags:
    """Return which labels have no answer although a later picture has one, so that the person saw the picture. Shape
    (labels,)."""
    position = {sha256: number for number, sha256 in reversed(list(enumerate(rows[Col.SHA256].to_pylist()))) if sha256}
    positions = np.array([position.get(sha256, -1) for sha256 in labels["sha256"].to_pylist()], dtype=np.int64)
    is_blank: Flags = np.asarray(np.isnan(attribute_values(labels)).all(axis=1), dtype=np.bool_)
    is_blank &= labels["private"].is_null().to_numpy()
    last = positions[~is_blank].max(initial=-1)
    return np.asarray(is_blank & (positions >= 0) & (positions < last), dtype=np.bool_)
