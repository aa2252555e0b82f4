"""How far annotators agree: pairwise agreement, Cohen's and Fleiss' kappa, Krippendorff's alpha. Pure numpy.

Answers have the shape (A annotators, N items); NaN is no answer. Items with one answer say nothing and are left out. A
figure is None where it is not defined, as where all answers are the same: chance then explains every agreement.
"""

import itertools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ingest.errors import LabelsError
from scoring.labels.attention import AttentionChecks
from scoring.labels.judgements import Judgements
from scoring.taxonomy import ATTRIBUTES, LEVELS

Floats = npt.NDArray[np.floating]

MAX_ANNOTATORS_FOR_COHEN = 100
"""Cohen's kappa is of pairs of annotators: of more, crowds mostly, it is left out."""

BANDS = {"none": 0.25, "poor": 0.5, "moderate": 0.75, "high": 1.0}
"""Band of an item's pairwise agreement -> its upper end; the first one ends below 0.25. Source: Zhao et al.,
"PrivacyAlert"."""

SEVERITY_ORDER = np.array([0, 4, 3, 2, 1], np.float32)
"""Level 0–4 -> its place from harmless to severe."""


@dataclass(frozen=True)
class Agreement:
    """Of one question; shares and coefficients, None where not defined."""

    name: str
    num_items: int
    """Pictures with at least two answers. In rows over several attributes each picture counts once per attribute."""

    num_answers: int
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


@dataclass(frozen=True)
class PairwiseAgreement:
    """Mean over items of 1 - |a - b| over pairs of annotators (PA of Zhao et al., "PrivacyAlert")."""

    of: str
    """Column that was compared: `score` or `private`."""

    num_items: int
    mean: float | None
    bands: dict[str, int]
    """Items per band: none, poor, moderate, high."""


@dataclass(frozen=True)
class AgreementTable:
    annotators: tuple[str, ...]
    """Those that were compared."""

    num_pictures: int
    """Listed by at least two of them."""

    rows: tuple[Agreement, ...]
    pairwise: PairwiseAgreement
    checks: AttentionChecks | None = None


def agreement_table(found: Judgements, checks: AttentionChecks | None = None) -> AgreementTable:
    """One row per attribute, per level's attributes, for all attributes, the level, `private` and `class`.

    LabelsError if there are fewer than two annotators, or one shares no picture with the others.
    """
    if len(found.annotators) < 2:
        raise LabelsError(f"there is {len(found.annotators)} annotator to compare; agreement needs at least two")
    found.refuse_strangers()
    num_annotators = len(found.annotators)
    rows = [agreement(a.key, found.values[:, :, i]) for i, a in enumerate(ATTRIBUTES)]
    for level in (1, 2, 3, 4):
        places = [i for i, attribute in enumerate(ATTRIBUTES) if attribute.level == level]
        answers = found.values[:, :, places].reshape(num_annotators, -1)
        rows.append(agreement(f"attributes of level {level} ({LEVELS[level]})", answers))
    rows.append(agreement("all attributes", found.values.reshape(num_annotators, -1)))
    levels = found.levels()
    is_known = ~np.isnan(levels)
    levels[is_known] = SEVERITY_ORDER[levels[is_known].astype(int)]
    rows.append(agreement("level", levels))
    rows.append(agreement("private", found.private))
    rows.append(agreement("class", _numbered(found.texts["class"]), has_order=False))
    num_scored = (~np.isnan(found.score)).any(axis=1).sum()
    of, answers = ("score", found.score) if num_scored >= 2 else ("private", found.private)
    return AgreementTable(
        found.annotators,
        int((found.is_listed.sum(axis=0) >= 2).sum()),
        tuple(row for row in rows if row.num_items),
        pairwise_agreement(answers, of),
        checks,
    )


def agreement(name: str, answers: Floats, has_order: bool = True) -> Agreement:
    counts = _counts(answers)
    if not len(counts):
        return Agreement(name, 0, 0, None, None, None, None, None, None)
    same = _share_of_same_pairs(counts)
    return Agreement(
        name,
        len(counts),
        int(counts.sum()),
        float((same == 1).mean()),
        float(same.mean()),
        _mean_cohen(answers),
        fleiss_kappa(counts),
        krippendorff_alpha(counts, is_ordinal=False),
        krippendorff_alpha(counts, is_ordinal=True) if has_order else None,
    )


def cohen_kappa(first: Floats, second: Floats) -> float | None:
    """Of two annotators, shape (N,) each. Source: Cohen, "A coefficient of agreement for nominal scales" (1960)."""
    both = ~(np.isnan(first) | np.isnan(second))
    if not both.any():
        return None
    first, second = first[both], second[both]
    expected = sum(float((first == k).mean() * (second == k).mean()) for k in np.union1d(first, second))
    return _above_chance(float((first == second).mean()), expected)


def fleiss_kappa(counts: Floats) -> float | None:
    """counts: shape (N, K), how many annotators gave each answer, at least two an item; their number may differ.

    Source: Fleiss, "Measuring nominal scale agreement among many raters" (1971).
    """
    shares = counts.sum(axis=0) / counts.sum()
    return _above_chance(float(_share_of_same_pairs(counts).mean()), float((shares**2).sum()))


def krippendorff_alpha(counts: Floats, is_ordinal: bool) -> float | None:
    """counts: as of `fleiss_kappa`, answers in their order. Source: Krippendorff, "Computing Krippendorff's
    Alpha-Reliability" (2011)."""
    num_answers = counts.sum(axis=1)
    weighted = counts / (num_answers - 1)[:, None]
    coincidences = weighted.T @ counts - np.diag(weighted.sum(axis=0))
    totals = coincidences.sum(axis=0)
    if is_ordinal:
        below = np.cumsum(totals) - totals / 2
        distances = (below[:, None] - below[None, :]) ** 2
    else:
        distances = 1.0 - np.eye(len(totals))
    expected = float((np.outer(totals, totals) * distances).sum() / (totals.sum() - 1))
    if expected == 0:
        return None
    return 1 - float((coincidences * distances).sum()) / expected


def pairwise_agreement(scores: Floats, of: str = "score") -> PairwiseAgreement:
    """scores: shape (A, N), 0–1, in any steps. PrivacyAlert's four are 0, 0.25, 0.75 and 1."""
    kept = scores[:, (~np.isnan(scores)).sum(axis=0) >= 2].astype(np.float64)
    num_answers = (~np.isnan(kept)).sum(axis=0)
    # Sorted, the sum of all |a - b| is a sum of values with the weights 1-n, 3-n, … n-1.
    ordered, places = np.sort(kept, axis=0), np.arange(len(kept))[:, None]
    weights = 2 * places + 1 - num_answers
    differences = np.where(np.isnan(ordered), 0, ordered * weights).sum(axis=0)  # NaN is sorted last
    agreements = 1 - differences / (num_answers * (num_answers - 1) / 2)
    ends = np.array(list(BANDS.values())[1:-1])
    bands = np.where(agreements < BANDS["none"], 0, 1 + (agreements[:, None] > ends + 1e-9).sum(axis=1))
    found = {name: int((bands == place).sum()) for place, name in enumerate(BANDS)}
    return PairwiseAgreement(of, kept.shape[1], float(agreements.mean()) if kept.shape[1] else None, found)


def _counts(answers: Floats) -> npt.NDArray[np.float64]:
    """Shape (N, K) of the items with at least two answers, K distinct answers in ascending order."""
    kept = answers[:, (~np.isnan(answers)).sum(axis=0) >= 2]
    known = np.unique(kept[~np.isnan(kept)])
    return np.stack([(kept == k).sum(axis=0) for k in known], axis=1).astype(np.float64) if len(known) else _NOTHING


_NOTHING = np.zeros((0, 0), np.float64)


def _share_of_same_pairs(counts: Floats) -> npt.NDArray[np.float64]:
    """Shape (N, K) -> (N,)."""
    num_answers = counts.sum(axis=1)
    same: npt.NDArray[np.float64] = (counts * (counts - 1)).sum(axis=1) / (num_answers * (num_answers - 1))
    return same


def _mean_cohen(answers: Floats) -> float | None:
    if len(answers) > MAX_ANNOTATORS_FOR_COHEN:
        return None
    found = [cohen_kappa(answers[a], answers[b]) for a, b in itertools.combinations(range(len(answers)), 2)]
    known = [kappa for kappa in found if kappa is not None]
    return float(np.mean(known)) if known else None


def _above_chance(observed: float, expected: float) -> float | None:
    return None if np.isclose(expected, 1) else (observed - expected) / (1 - expected)


def _numbered(texts: npt.NDArray[np.object_]) -> npt.NDArray[np.float64]:
    known = {text: float(i) for i, text in enumerate(sorted({text for text in texts.ravel() if text is not None}))}
    return np.array([[known.get(text, np.nan) for text in row] for row in texts], np.float64).reshape(texts.shape)
