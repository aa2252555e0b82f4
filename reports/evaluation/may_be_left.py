"""How many pictures of a release may be private after all, by labels of some of them."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ingest.errors import LabelsError, number_of
from ingest.storage.place import place
from reports.evaluation.answers import truth_of
from reports.labels.agreed import agreed
from reports.statistics.shares import clopper_pearson
from scoring.labels.table import read_judged

CONFIDENCE = 0.95


@dataclass(frozen=True)
class MayBeLeft:
    """Pictures with the same bytes count once."""

    num_labelled: int
    """Pictures of the release that are labelled."""

    num_private: int
    """Private ones among these; also those on which people differ, or which they could not judge."""

    num_other_labels: int
    """Labelled pictures that are not in the release, or are known by their key alone."""

    num_pictures: int
    """Pictures of the release."""

    highest_share: float
    """Upper end of the exact one-sided 95 % interval of the share of private pictures."""

    def __str__(self) -> str:
        text = (
            f"of {number_of(self.num_labelled, 'labelled picture')} of the release {self.num_private:,} "
            f"{'is' if self.num_private == 1 else 'are'} private: if they were drawn at random, all with the same "
            f"probability, at most {100 * self.highest_share:.2f} % of its {number_of(self.num_pictures, 'picture')} "
            f"are private (one-sided {100 * CONFIDENCE:.0f} % confidence)"
        )
        if self.num_other_labels:
            text += f"; {number_of(self.num_other_labels, 'label')} left out: not of the bytes of a released picture"
        return text


def may_be_left(labels: str, decisions: pa.Table) -> MayBeLeft:
    """Return what labels say of the released pictures, joined by the hash of the released file.

    A key would also name the picture as it was before it was covered. LabelsError if no released picture is labelled,
    or if some labels say too little.
    """
    if place(labels).is_dir():
        raise LabelsError(
            f"{labels} is a folder: an audit draws pictures with unequal probabilities, and privsieve audit apply has "
            "the interval for that; for verify give a file of labels, of pictures drawn at random"
        )
    if "released_sha256" not in decisions.column_names:
        raise LabelsError("--labels: this release of an older version does not say the hashes of its pictures")
    of_release = {
        row["released_sha256"]
        for row in decisions.select(["action", "released_sha256"]).to_pylist()
        if row["action"] != "drop" and row["released_sha256"]
    }
    judged = agreed(read_judged(labels))
    is_released = np.array([sha256 in of_release for sha256 in judged.labels["sha256"].to_pylist()], np.bool_)
    truth, is_undecided = truth_of(judged.labels), np.asarray(judged.undecided[:, 0], np.bool_)
    if num_open := truth_of(judged.labels.filter(pa.array(is_released & ~is_undecided))).num_open:
        raise LabelsError(
            f"{labels}: of {number_of(num_open, 'labelled picture')} only some of the attributes are labelled that "
            "make a picture private (levels 1 and 2); fill in the column private, or all of these attributes"
        )
    is_judged = is_released & (~np.isnan(truth.private) | is_undecided)
    num = int(is_judged.sum())
    if not num:
        raise LabelsError(f"{labels}: no label has the sha256 of a picture as it was released")
    num_private = int((is_judged & ((truth.private == 1) | is_undecided)).sum())
    highest = float(clopper_pearson(num_private, num, 2 * CONFIDENCE - 1)[1])
    return MayBeLeft(num, num_private, int((~is_released).sum()), len(of_release), highest)
