"""How far annotators agree: shares of same answers, Cohen's and Fleiss' kappa, Krippendorff's alpha.

Answers have the shape (A annotators, N items); NaN is no answer. Items with one answer are left out. A figure is None
where it is not defined, as where all answers are the same: chance then explains every agreement.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ingest.errors import LabelsError, number_of
from reports.statistics.agreement import coefficients, share_of_same_pairs
from reports.statistics.intervals import Interval
from scoring.labels.consensus import numbered
from scoring.labels.judgements import Judgements
from scoring.taxonomy import ATTRIBUTES, LEVELS

Floats = npt.NDArray[np.floating]

ONE_ANSWER = 0.9
"""If one answer has a larger share, chance explains most agreement: κ and α can be near 0 though most pairs agree."""

LOW_ALPHA = 0.5
"""An α below this is low; our choice."""

SEVERITY_ORDER = np.array([0, 4, 3, 2, 1], np.float32)
"""Level 0–4 -> its place from harmless to severe."""


@dataclass(frozen=True)
class Agreement:
    """Agreement on one question; shares and coefficients, None where not defined."""

    name: str
    num_items: int
    """Pictures with at least two answers. In rows over several attributes each picture counts once per attribute."""

    num_answers: int
    fewest_judged_by_pair: int
    """Items that both of two annotators answered: of the pair of annotators that has fewest; 0 if a pair has none."""

    most_judged_by_pair: int
    most_common: float | None
    """Share of the most frequent answer, of all answers."""

    identical: float | None
    """Share of items of which all answers are the same."""

    percent: float | None
    """Share of pairs of answers to one item that are the same, mean over items."""

    cohen: float | None
    """Cohen's kappa, mean over pairs of annotators."""

    fleiss: float | None
    alpha_nominal: float | None
    """Krippendorff's alpha, any difference counting the same."""

    alpha_ordinal: float | None
    """Krippendorff's alpha in which a larger difference counts more; None if the answers have no order."""

    intervals: Mapping[str, Interval] = field(default_factory=dict)
    """95 % interval, over pictures, of each of the four coefficients that is defined."""

    @property
    def is_mostly_chance(self) -> bool:
        """Return whether nearly all answers are the same, and α is low or undefined although most pairs agree."""
        is_low = self.alpha_nominal is None or self.alpha_nominal < LOW_ALPHA
        return self.most_common is not None and self.most_common > ONE_ANSWER and is_low


@dataclass(frozen=True)
class AgreementTable:
    annotators: tuple[str, ...]
    num_pictures: int
    """Listed by at least two of them."""

    rows: tuple[Agreement, ...]


def agreement_table(judged: Judgements) -> AgreementTable:
    """Return the agreement on each attribute, each level's attributes, all attributes, the level, `private`, `vote` and
    `class`.

    LabelsError if there are fewer than two annotators, or one shares no picture with the others.
    """
    num_annotators = len(judged.annotators)
    if num_annotators < 2:
        raise LabelsError(f"the inputs have {number_of(num_annotators, 'annotator')}; agreement needs at least two")
    judged.refuse_strangers()
    rows = [agreement(a.key, judged.values[:, :, i]) for i, a in enumerate(ATTRIBUTES)]
    for level in (1, 2, 3, 4):
        places = [i for i, attribute in enumerate(ATTRIBUTES) if attribute.level == level]
        answers = judged.values[:, :, places].reshape(num_annotators, -1)
        rows.append(agreement(f"attributes of level {level} ({LEVELS[level]})", answers, num_per_picture=len(places)))
    answers = judged.values.reshape(num_annotators, -1)
    rows.append(agreement("all attributes", answers, num_per_picture=len(ATTRIBUTES)))
    levels = judged.levels()
    is_known = ~np.isnan(levels)
    levels[is_known] = SEVERITY_ORDER[levels[is_known].astype(int)]
    rows.append(agreement("level", levels))
    rows.append(agreement("private", judged.private))
    rows.append(agreement("vote", judged.vote))
    rows.append(agreement("class", numbered(judged.texts["class"])[1], has_order=False))
    num_pictures = int((judged.is_listed.sum(axis=0) >= 2).sum())
    return AgreementTable(judged.annotators, num_pictures, tuple(row for row in rows if row.num_items))


def agreement(name: str, answers: Floats, has_order: bool = True, num_per_picture: int = 1) -> Agreement:
    """Return the agreement on one question.

    answers: shape (A, N). num_per_picture: number of consecutive items of the same picture.
    """
    is_kept = (~np.isnan(answers)).sum(axis=0) >= 2
    kept = answers[:, is_kept].astype(np.float64)
    if not kept.size:
        return Agreement(name, 0, 0, 0, 0, None, None, None, None, None, None, None)
    known = np.unique(kept[~np.isnan(kept)])
    counts = np.stack([(kept == k).sum(axis=0) for k in known], axis=1).astype(np.float64)
    same, of_answers = share_of_same_pairs(counts), counts.sum(axis=0)
    judged = (~np.isnan(kept)).astype(np.float64)
    judged_by_pairs = (judged @ judged.T)[np.triu_indices(len(kept), 1)]
    _, pictures = np.unique(np.flatnonzero(is_kept) // num_per_picture, return_inverse=True)
    values, intervals = coefficients(kept, pictures, has_order)
    return Agreement(
        name,
        len(counts),
        int(counts.sum()),
        int(judged_by_pairs.min()),
        int(judged_by_pairs.max()),
        float(of_answers.max() / of_answers.sum()),
        float((same == 1).mean()),
        float(same.mean()),
        **values,
        intervals=intervals,
    )
