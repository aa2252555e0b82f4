"""The difference estimator: how often a subject is truly there, from the answers for all images and a few labels.

A cell is a group of rows about which the run says the same of a subject (the private decision, or an attribute). Every
scored row is in one cell of every subject, N_c of N images in cell c. The labels of cell c, each weighted by w = 1 /
its inclusion probability, say that the subject is truly there in the share r_c = Σ w y / Σ w. The rate is Σ N_c r_c /
N: the rate that the run claims minus the weighted mean error of its claims (Särndal, Swensson and Wretman, "Model
Assisted Survey Sampling", 1992, chapters 5 to 7; with machine answers also called prediction-powered inference).

Its variance by linearisation is V = Σ (N_c / N)² s_c (1 - s_c) / m_c (1 - Σ w / Σ w²). m_c is how many labels of equal
weight the labels of the cell are worth, the last factor is 0 if all of its images are labelled, and s_c is the share
r_c with a third of a count added on each side (J. Kerman, 2011), so that a cell without a positive label is not taken
as certain. The interval is Clopper and Pearson's exact one at the effective size s (1 - s) / V, s = Σ N_c s_c / N (E.
Korn and B. Graubard, "Confidence intervals for proportions with small expected number of positive counts", 1998).

Images that a screen left out are represented by those that its guard sent to the engine, a random 1 / M of them. These
have cells of their own, in which an image counts M times, and their rate has the variance of this draw too. The rate of
all images is the sum of two independent parts, whose ends are added up by their squared distances (MOVER: G. Zou and A.
Donner, "Construction of confidence limits about effect measures", 2008).

Sensitivity and specificity are a / (a + b), with a and b rates of their own among the images that the run answers with
yes and among the others. Their labels are independent, so the interval of b / a follows from those of a and b (MOVER-R:
R. Newcombe, "MOVER-R confidence intervals for ratios and products of two independently estimated quantities", 2016).

A cell without labels takes the share of the most similar cell with the same answer. An answer without a label has
bounds only: all of its images, or none. Assumes that chance alone decided which images were labelled, and that labels
are right.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from reports.statistics.shares import clopper_pearson

Numbers = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

EDGES = (0.01, 0.05, 0.2, 0.5, 0.8)
"""Probabilities at which one cell ends and the next begins. More cells made the intervals no shorter (simulated), and
those of rare subjects too high."""

_MIDDLES = (0.004, 0.025, 0.1, 0.33, 0.65, 0.92)
NUM_BINS = len(_MIDDLES)

ABSENT, NEAR, NOT_JUDGED, UNCLEAR, PRESENT = range(2 * NUM_BINS, 2 * NUM_BINS + 5)
"""Cells of rows without a probability. NEAR: not private, but with attributes of level 3 or 4. UNCLEAR: 0.5, or a null
where the engine answers for other images. NOT_JUDGED: any other null. The first 6 cells are by probability, of rows
that are not answered "yes"; the next 6 of rows that are."""

GUARDED = 2 * NUM_BINS + 5
"""First of the same cells again, of images that the guard of a screen sent to the engine."""

NUM_CELLS = 2 * GUARDED

IS_GUARDED: Flags = np.arange(NUM_CELLS) >= GUARDED

_IS_ANSWERED_YES: Flags = np.isin(np.arange(NUM_CELLS) % GUARDED, [*range(NUM_BINS, 2 * NUM_BINS), PRESENT])
_ANSWERS = _IS_ANSWERED_YES + 2 * IS_GUARDED

IS_YES: Flags = _IS_ANSWERED_YES & ~IS_GUARDED
"""The cells whose images the run answers with 1. Of those that a guarded image represents, the engine saw no other."""


def masses_of(guard_mass: float) -> Numbers:
    """Return how many images an image of each cell represents. Shape (NUM_CELLS,). guard_mass: of a guarded one."""
    return np.where(IS_GUARDED, guard_mass, 1.0)


PRIOR = 1 / 3
"""Count that is added on each side before a variance is taken."""


def guesses(num_images: Numbers) -> Numbers:
    """Guess the share of each cell in which the subject is truly there, before any label. Shape (NUM_CELLS,).

    The guess decides only where labels are placed, and which cells are alike: a wrong one widens intervals and biases
    nothing. num_images: of each cell of the run, shape (NUM_CELLS,).
    """
    of_strata = []
    for counts in (num_images[:GUARDED], num_images[GUARDED:]):
        rate = min(0.9, float(counts[_IS_ANSWERED_YES[:GUARDED]].sum()) / max(1.0, float(counts.sum())))
        missed = 0.2 * rate / (1 - rate)
        shares = np.empty(GUARDED)
        shares[: 2 * NUM_BINS] = np.clip(np.tile(_MIDDLES, 2), max(0.1 * rate, 0.001), 0.9)
        shares[ABSENT] = np.clip(missed, 0.002, 0.3)
        shares[NEAR] = np.clip(3 * missed, 0.01, 0.4)
        shares[NOT_JUDGED] = np.clip(rate, 0.02, 0.5)
        shares[UNCLEAR], shares[PRESENT] = 0.5, 0.8
        of_strata.append(shares)
    return np.concatenate(of_strata)


Method = Literal["difference", "fay-herriot"]


@dataclass(frozen=True)
class Estimate:
    """A share of the images, 0–1, with its 95 % interval; None where it is not known.

    With an interval and no value it is only known to lie between these bounds.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Rates:
    """What labels say of a subject in the images of a run, or of one of its categories."""

    prevalence: Estimate
    """Share of the images in which the subject is truly there."""

    sensitivity: Estimate = field(default_factory=Estimate)
    """Share of the images with the subject that the run answers with yes. An unknown answer is not a yes."""

    specificity: Estimate = field(default_factory=Estimate)
    """Share of the images without the subject that the run does not answer with yes."""

    method: Method = "difference"
    num_labels: int = 0


@dataclass(frozen=True)
class Labels:
    """Labels of one subject, with what the run says of the pictures. All of shape (m,)."""

    cells: Counts

    is_there: Numbers
    """1 or 0."""

    probabilities: Numbers
    """That the image was drawn and labelled, above 0."""

    masses: Numbers | float = 1.0
    """Number of images of the population that the picture itself counts as."""

    categories: Counts = field(default_factory=lambda: np.empty(0, np.int64))
    """Number of the category, from 0; only for rates of categories."""


@dataclass(frozen=True)
class Evidence:
    """Labels by cell. All arrays have the shape (NUM_CELLS,)."""

    num_images: Numbers
    """Images that the rates are of."""

    shares: Numbers
    """Weighted share of the labels that say yes; the run's claim if there are none."""

    sizes: Numbers
    """All labels, as effective numbers; 0 if there are none."""

    openness: Numbers
    """1 - Σ w / Σ w² of the labels: 0 if every image was labelled, 1 if hardly any was."""

    donors: Counts
    """The cell whose labels count for this one: itself, or the most similar labelled cell with the same answer."""

    guard_mass: float
    """Images that a guarded image represents."""

    @property
    def is_known(self) -> Flags:
        """Return which cells have labels that count for them."""
        return self.sizes[self.donors] > 0

    @property
    def rates(self) -> Numbers:
        """Return the share of each cell in which the subject is truly there; the run's claim if it is not known."""
        return self.shares[self.donors]

    @property
    def smoothed_rates(self) -> Numbers:
        """Return the same, never exactly 0 or 1; 0.5 if it is not known."""
        return ((self.shares * self.sizes + PRIOR) / (self.sizes + 2 * PRIOR))[self.donors]

    def variance(self, cells: Flags) -> float:
        """Return the variance V of the rate of the images in these cells, which are known, and all guarded or none."""
        num_images = np.where(cells, self.num_images, 0)
        shares, smoothed = num_images / num_images.sum(), self.smoothed_rates
        errors = _sums(self.donors, shares) ** 2 * smoothed * (1 - smoothed) * self.openness
        of_labels = float(_per(errors, self.sizes).sum())
        if not num_images[IS_GUARDED].any():
            return of_labels
        rate = float(shares @ smoothed)
        return of_labels + rate * (1 - rate) * (self.guard_mass - 1) / float(num_images.sum())


def evidence(num_images: Counts | Numbers, labels: Labels, guard_mass: float = 1.0) -> Evidence:
    """Return the evidence of labels, of which there must be one.

    num_images: images that the rates are of in each cell, shape (NUM_CELLS,). guard_mass: images that a guarded image
    counts as.
    """
    cells, weights = labels.cells, labels.masses / labels.probabilities
    assert len(cells)
    totals, squares = _sums(cells, weights), _sums(cells, weights**2)
    has_labels = totals > 0
    shares = np.where(has_labels, np.minimum(1, _per(_sums(cells, weights * labels.is_there), totals)), IS_YES)
    # Kish's effective size takes weights and labels as unrelated. If the few positive labels weigh most, it is too
    # large, so p (1 - p) / Σ w² (y - p)² · (Σ w)² is taken where it is smaller; one more label of each kind with the
    # largest weight of the cell makes up for kinds with few labels or none.
    largest = np.zeros(NUM_CELLS)
    np.maximum.at(largest, cells, weights)
    usual = np.zeros(NUM_CELLS)
    for members, others in ((labels.is_there, 1 - shares), (1 - labels.is_there, shares)):
        squared, plain = _sums(cells, weights**2 * members), _sums(cells, weights * members)
        usual += others * _per(squared + largest**2, plain + largest)
    sizes = np.minimum(_per(totals**2, squares), _per(totals, usual))
    counted = np.asarray(num_images, np.float64)
    guess = guesses(counted)
    log_odds = np.log(guess / (1 - guess))
    can_give = has_labels & (_ANSWERS[:, None] == _ANSWERS)
    distances = np.where(can_give, np.abs(log_odds[:, None] - log_odds), np.inf)
    np.fill_diagonal(distances, np.where(has_labels, -1, 1e300))
    donors = np.argmin(distances, axis=1)
    closed = _per(_sums(cells, weights * labels.masses), squares) * _per(counted, _sums(donors, counted))
    return Evidence(counted, shares, sizes, 1 - closed, donors, guard_mass)


def rates_of(known: Evidence) -> Rates:
    """Return the rates of all images."""
    opposite = replace(known, shares=1 - known.shares)
    return Rates(
        _mass(known, np.full(NUM_CELLS, fill_value=True)),
        _part(_mass(known, IS_YES), _mass(known, ~IS_YES)),
        _part(_mass(opposite, ~IS_YES), _mass(opposite, IS_YES)),
    )


def _mass(known: Evidence, cells: Flags) -> Estimate:
    """Return the share of all images that are in these cells and have the subject.

    Without a value if labels are missing for some.
    """
    total, parts = float(known.num_images.sum()), list[tuple[float, float, float]]()
    for stratum in (~IS_GUARDED, IS_GUARDED):
        chosen = cells & stratum & known.is_known
        num_images = known.num_images[chosen]
        if not num_images.any():
            continue
        shares = num_images / num_images.sum()
        value, variance = float(shares @ known.rates[chosen]), known.variance(chosen)
        low = high = value
        if variance > 0:
            expected = float(shares @ known.smoothed_rates[chosen])
            size = expected * (1 - expected) / variance
            low, high = map(float, clopper_pearson(min(1.0, value) * size, size))
        share = float(num_images.sum()) / total
        parts.append((share * value, share * (value - low), share * (high - value)))
    unknown = float(known.num_images[cells & ~known.is_known].sum()) / total
    value = sum(part[0] for part in parts)
    below, above = (math.hypot(*(part[side] for part in parts)) for side in (1, 2))
    return Estimate(None if unknown else value, max(0.0, value - below), min(1.0, value + above + unknown))


def _part(part: Estimate, rest: Estimate) -> Estimate:
    """Return part / (part + rest)."""
    low, high = part.low or 0.0, part.high or 0.0
    rest_low, rest_high = rest.low or 0.0, rest.high or 0.0
    if part.value is None or rest.value is None:
        return Estimate(None, low / (low + rest_high) if low else 0.0, high / (high + rest_low) if high else 0.0)
    if part.value + rest.value <= 0:
        return Estimate()
    least = 1 / (1 + _highest_ratio(rest.value, rest_high, part.value, low))
    most = 1 - 1 / (1 + _highest_ratio(part.value, high, rest.value, rest_low))
    return Estimate(part.value / (part.value + rest.value), least, most)


def _highest_ratio(top: float, top_high: float, bottom: float, bottom_low: float) -> float:
    """Return the high end of top / bottom by the ends of both (MOVER-R)."""
    square, both = bottom_low * (2 * bottom - bottom_low), top * bottom
    if square <= 0:
        return math.inf
    return (both + math.sqrt(max(0.0, both**2 - square * top_high * (2 * top - top_high)))) / square


def _sums(cells: Counts, values: Numbers) -> Numbers:
    return np.asarray(np.bincount(cells, values, NUM_CELLS), dtype=np.float64)


def _per(top: Numbers, bottom: Numbers) -> Numbers:
    """Return top / bottom; the top, which is then 0 too, where the bottom is 0."""
    return np.asarray(top / np.where(bottom > 0, bottom, 1), dtype=np.float64)
