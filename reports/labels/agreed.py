"""One answer per picture from the labels of several people, and the questions that they leave undecided.

The majority of those who judged counts; if one person judged, that answer counts. A question is undecided if yes and no
have the same number of votes, or if all people who saw the picture could not say or skipped it. Undecided pictures are
the hard ones, so they must not count as left unlabelled by chance: rates and guarantees assume the worst of them.

A file of `labels consensus` already has one row per picture. There an attribute's 0.5 and a null `private` mean that
the people did not agree.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from reports.statistics.binary import Flags, Numbers
from scoring.labels.consensus import ANNOTATOR as CONSENSUS
from scoring.labels.picture_index import picture_names
from scoring.labels.table import JudgedLabels, attribute_values
from scoring.privacy import BY_LEVEL, IS_DECISIVE, follows_taxonomy, private_of_labels
from scoring.runs.audit_files import SUBJECTS
from scoring.table import numbers_of

Places = npt.NDArray[np.int64]


@dataclass(frozen=True)
class AgreedLabels:
    """Answers of all people together."""

    labels: pa.Table
    """Rows of `LABELS_SCHEMA`, one row per picture. A picture that one person labelled has that row."""

    undecided: Flags
    """Shape (rows, 23), as `SUBJECTS`. Such a question has no answer, whatever the row says."""

    num_yes: npt.NDArray[np.int64]
    num_no: npt.NDArray[np.int64]
    """Shape (rows, 23): people who say yes, and who say no."""


def agreed(judged: JudgedLabels, condition: str = BY_LEVEL) -> AgreedLabels:
    """Return one answer per picture and question.

    condition: what is private, as in `scoring.privacy.private_of_labels`.
    """
    labels = judged.labels
    pictures = picture_names(labels).combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)
    first_rows = np.unique(pictures, return_index=True)[1].astype(np.int64)
    votes = _votes(labels, condition)
    num_yes, num_no = (_per_picture(votes == answer, pictures, len(first_rows)) for answer in (1, 0))
    is_asked = ~np.isnan(votes).all(axis=0)
    could_not_say = _per_picture(_could_not_say(judged, votes), pictures, len(first_rows)) > 0
    undecided = is_asked & (num_yes == num_no) & ((num_yes > 0) | could_not_say)
    answers = np.where(num_yes == num_no, np.nan, num_yes > num_no)
    return AgreedLabels(_joined(labels, first_rows, pictures, answers), undecided, num_yes, num_no)


def _votes(labels: pa.Table, condition: str) -> Numbers:
    """Return the votes, shape (rows, 23): 1, 0 or NaN.

    An attribute's 0.5 is 0, since a person who is in doubt would not call it present.
    """
    given = numbers_of(labels, "private")
    values = attribute_values(labels).astype(np.float64)
    private = private_of_labels(given, values, condition)
    values[values == 0.5] = 0
    votes = np.column_stack([private, values])
    is_joined, half = _of_consensus(labels)
    votes[:, 1:][half] = np.nan
    if follows_taxonomy(condition):  # unless there is a 1 as well: then the picture is private for certain
        is_open = is_joined & np.isnan(given) & half[:, IS_DECISIVE].any(axis=1) & (votes[:, 0] != 1)
        votes[is_open, 0] = np.nan
    return votes


def _could_not_say(judged: JudgedLabels, votes: Numbers) -> Flags:
    """Return whether the person saw the picture and gave no answer, shape (rows, subjects)."""
    flags = np.tile((judged.is_unclear | judged.is_skipped)[:, None], (1, len(SUBJECTS)))
    is_joined, half = _of_consensus(judged.labels)
    flags[:, 1:] |= half
    flags[:, 0] |= is_joined & np.isnan(votes[:, 0])
    flags |= judged.is_complete[:, None] & np.isnan(votes)
    return np.asarray(flags, dtype=np.bool_)


def _of_consensus(labels: pa.Table) -> tuple[Flags, Flags]:
    """Return which rows are a consensus, shape (rows,), and which of their values are 0.5, shape (rows, attributes)."""
    is_joined = np.array([name == CONSENSUS for name in labels["annotator"].to_pylist()], dtype=np.bool_)
    return is_joined, np.asarray(is_joined[:, None] & (attribute_values(labels) == 0.5), dtype=np.bool_)


def _per_picture(flags: Flags, pictures: Places, num_pictures: int) -> npt.NDArray[np.int64]:
    """Count the rows of each picture that have a flag: shape (rows, 23) -> (pictures, 23)."""
    counts = np.zeros((num_pictures, len(SUBJECTS)), dtype=np.int64)
    np.add.at(counts, pictures, flags)
    return counts


def _joined(labels: pa.Table, first_rows: Places, pictures: Places, answers: Numbers) -> pa.Table:
    """Return one row per picture: its only row, or its first one with the answers of the majority."""
    joined = labels.take(pa.array(first_rows))
    several = np.bincount(pictures, minlength=len(first_rows)) > 1
    if not several.any():
        return joined
    people = np.array(labels["annotator"].to_pylist(), dtype=object)
    whose = joined["annotator"].to_pylist()
    for picture in np.flatnonzero(several):
        whose[picture] = ", ".join(sorted(people[pictures == picture]))
    unknown = np.full(len(several), np.nan)
    changed: dict[str, pa.Array] = {"annotator": pa.array(whose), "score": _replaced(joined, "score", several, unknown)}
    changed["vote"] = pc.if_else(pa.array(several), pa.scalar(None, pa.string()), joined["vote"])
    for index, subject in enumerate(SUBJECTS):
        changed[subject] = _replaced(joined, subject, several, answers[:, index])
    for name, values in changed.items():
        joined = joined.set_column(joined.schema.get_field_index(name), joined.schema.field(name), values)
    return joined


def _replaced(labels: pa.Table, name: str, members: Flags, values: Numbers) -> pa.Array:
    """Return the column with other values for the members. NaN is null."""
    changed = pa.array(np.where(members, values, numbers_of(labels, name)), from_pandas=True)
    return changed.cast(labels.schema.field(name).type)


def num_undecided_of(undecided: Flags) -> dict[str, int]:
    """Count the undecided pictures of each subject that has any. undecided: shape (m, 23)."""
    counts = undecided.sum(axis=0).tolist()
    return {subject: count for subject, count in zip(SUBJECTS, counts, strict=True) if count}


def in_words(num_undecided: dict[str, int]) -> str:
    """Return the counts as text, such as "private 12, biometrics 3". num_undecided: of `num_undecided_of`."""
    return ", ".join(f"{subject} {count:,}" for subject, count in num_undecided.items())
