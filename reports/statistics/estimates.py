"""The difference estimator: how often a subject is truly there, from the answers for all images and a few labels.

A cell is a group of rows about which the run says the same of a subject (the private decision, or an attribute), such
as "shows a face, P from 0.8 on". Every scored row is in one cell of every subject. N_c images are in cell c, of N in
all. The labels of cell c, each weighted by w = 1 / its inclusion probability, say that the subject is truly there in
the share r_c = Σ w y / Σ w. The rate is Σ N_c r_c / N: the rate that the run claims minus the weighted mean error of
its claims (Särndal, Swensson and Wretman, "Model Assisted Survey Sampling", 1992, chapters 5 to 7; with machine answers
also called prediction-powered inference).

Interval of a rate: its variance by linearisation is V = Σ (N_c / N)² s_c (1 - s_c) / m_c (1 - Σ w / Σ w²). m_c is how
many labels of equal weight the labels of the cell are worth, the last factor is 0 if all of its images are labelled,
and s_c is the share r_c with a third of a count added on each side (J. Kerman, 2011), so that a cell without a positive
label is not taken as certain. Then Clopper and Pearson's exact interval at the effective size s (1 - s) / V, s =
Σ N_c s_c / N (E. Korn and B. Graubard, "Confidence intervals for proportions with small expected number of positive
counts", 1998).

Images that a screen left out are represented by those that its guard sent to the engine, a random 1 / M of them. These
have cells of their own, in which an image counts M times, and their rate has the variance of this draw too. The rate of
all images is the sum of two independent parts, whose ends are added up by their squared distances (MOVER: G. Zou and A.
Donner, "Construction of confidence limits about effect measures", 2008).

Sensitivity and specificity are a / (a + b), with a and b rates of their own among the images that the run answers with
yes and among the others, such as those that were screened out. Their labels are independent, so the interval of the
ratio b / a follows from those of a and b (MOVER-R: R. Newcombe, "MOVER-R confidence intervals for ratios and products
of two independently estimated quantities", 2016).

A cell without labels takes the share of the most similar cell with the same answer. An answer without a label has
bounds only: all of its images, or none.

Assumes that chance alone decided which images were labelled, and that labels are right.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

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

NO_DONOR = -1


def guesses(num_images: Numbers) -> Numbers:
    """Guess the share of each cell in which the subject is truly there, before any label. Shape (NUM_CELLS,).

    The guess decides only where labels are placed, and which cells are alike: a wrong one widens intervals and biases
    nothing. num_images: of each cell of the run, shape (NUM_CELLS,).
    """
    return np.concatenate([_guesses(num_images[:GUARDED]), _guesses(num_images[GUARDED:])])


def _guesses(num_images: Numbers) -> Numbers:
    rate = min(0.9, float(num_images[_IS_ANSWERED_YES[:GUARDED]].sum()) / max(1.0, float(num_images.sum())))
    missed = 0.2 * rate / (1 - rate)
    shares = np.empty(GUARDED)
    shares[: 2 * NUM_BINS] = np.clip(np.tile(_MIDDLES, 2), max(0.1 * rate, 0.001), 0.9)
    shares[ABSENT] = np.clip(missed, 0.002, 0.3)
    shares[NEAR] = np.clip(3 * missed, 0.01, 0.4)
    shares[NOT_JUDGED] = np.clip(rate, 0.02, 0.5)
    shares[UNCLEAR], shares[PRESENT] = 0.5, 0.8
    return shares


@dataclass(frozen=True)
class Estimate:
    """A share of the images, 0–1, with its 95 % interval; None where it is not known.

    With an interval and no value it is only known to lie between these bounds.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Evidence:
    """Labels by cell. All arrays have the shape (NUM_CELLS,)."""

    num_images: Numbers
    """Images that the rates are of."""

    positives: Numbers
    """Labels that say yes, as effective numbers."""

    sizes: Numbers
    """All labels, as effective numbers; 0 if there are none."""

    openness: Numbers
    """1 - Σ w / Σ w² of the labels: 0 if every image was labelled, 1 if hardly any was."""

    donors: Counts
    """The cell whose labels count for this one: itself, or the most similar labelled cell with the same answer.
    `NO_DONOR` if there is none."""

    guard_mass: float
    """Images that a guarded image represents."""

    @property
    def rates(self) -> Numbers:
        """Return the share of each cell in which the subject is truly there; the run's claim without a donor."""
        rates = np.divide(self.positives, self.sizes, out=np.zeros(NUM_CELLS), where=self.sizes > 0)
        return np.where(self.donors == NO_DONOR, IS_YES.astype(np.float64), rates[self.donors])

    @property
    def smoothed_rates(self) -> Numbers:
        """Return the same, never exactly 0 or 1."""
        rates = (self.positives + PRIOR) / (self.sizes + 2 * PRIOR)
        return np.where(self.donors == NO_DONOR, 0.5, rates[self.donors])

    def variance(self, cells: Flags) -> float:
        """Return the variance V of the rate of the images in these cells, which must have donors."""
        num_images = np.where(cells, self.num_images, 0)
        shares = num_images / num_images.sum()
        with_donor = self.donors != NO_DONOR
        of_donors, images = (_sums(self.donors[with_donor], values[with_donor]) for values in (shares, self.num_images))
        is_open = 1 - (1 - self.openness) * self.num_images / np.maximum(images, 1e-300)
        smoothed = (self.positives + PRIOR) / (self.sizes + 2 * PRIOR)
        sizes = np.where(self.sizes > 0, self.sizes, np.inf)
        of_labels = float(np.sum(of_donors**2 * smoothed * (1 - smoothed) / sizes * is_open))
        of_guard = float(shares[IS_GUARDED].sum())
        if not of_guard:
            return of_labels
        num_guarded = num_images[IS_GUARDED].sum() / self.guard_mass
        rate = float((shares * self.smoothed_rates)[IS_GUARDED].sum()) / of_guard
        return of_labels + of_guard**2 * rate * (1 - rate) / float(num_guarded) * (1 - 1 / self.guard_mass)


def evidence(
    num_images: Counts | Numbers,
    cells: Counts,
    is_there: Numbers,
    probabilities: Numbers,
    masses: Numbers | None = None,
    guard_mass: float = 1.0,
) -> Evidence:
    """Return the evidence of labels.

    num_images: images that the rates are of in each cell, shape (NUM_CELLS,). The others have the shape (m,), one entry
    for each label; there must be one.
    is_there: 1 or 0. probabilities: that the image was drawn and labelled, above 0. masses: number of `num_images` that
    the labelled image itself counts as, if images of a cell count differently; None: the same. guard_mass: images that
    a guarded image counts as.
    """
    assert len(cells)
    masses = np.ones(len(cells)) if masses is None else masses
    weights = masses / probabilities
    of_cells = _sums(cells, weights)
    has_labels = of_cells > 0
    of_positives = _sums(cells, weights * is_there)
    rates = np.minimum(1, np.divide(of_positives, of_cells, out=np.zeros(NUM_CELLS), where=has_labels))
    sizes = _effective_sizes(cells, is_there, weights, rates)
    closed = np.divide(
        _sums(cells, weights * masses), _sums(cells, weights**2), out=np.zeros(NUM_CELLS), where=has_labels
    )
    guess = guesses(np.asarray(num_images, np.float64))
    log_odds = np.log(guess / (1 - guess))
    can_give = has_labels[None, :] & (_ANSWERS[:, None] == _ANSWERS[None, :])
    distances = np.where(can_give, np.abs(log_odds[:, None] - log_odds[None, :]), np.inf)
    np.fill_diagonal(distances, np.where(has_labels, -1, np.inf))
    donors = np.where(np.isinf(distances.min(axis=1)), NO_DONOR, np.argmin(distances, axis=1))
    return Evidence(np.asarray(num_images, np.float64), rates * sizes, sizes, 1 - closed, donors, guard_mass)


def _effective_sizes(cells: Counts, is_there: Numbers, weights: Numbers, rates: Numbers) -> Numbers:
    """Return how many labels of equal weight the labels of each cell are worth, 0 without any. Shape (NUM_CELLS,).

    Kish's effective size takes weights and labels as unrelated. If the few positive labels weigh most, it is too large,
    so the size p (1 - p) / Σ w² (y - p)² · (Σ w)² by the linearised variance is taken where it is smaller. One more
    label of each kind with the largest weight of the cell makes up for kinds with few labels or none.
    """
    of_cells, squares = _sums(cells, weights), _sums(cells, weights**2)
    largest = np.zeros(NUM_CELLS)
    np.maximum.at(largest, cells, weights)
    has_labels = of_cells > 0

    def usual_weight(members: Numbers) -> Numbers:
        """Return the weighted mean weight of one kind of labels and one more with the largest weight of the cell."""
        total = _sums(cells, weights * members) + largest
        return np.divide(
            _sums(cells, weights**2 * members) + largest**2, total, out=np.ones(NUM_CELLS), where=total > 0
        )

    usual = usual_weight(is_there) * (1 - rates) + usual_weight(1 - is_there) * rates
    kish = np.divide(of_cells**2, squares, out=np.zeros(NUM_CELLS), where=has_labels)
    return np.asarray(np.where(has_labels, np.minimum(kish, of_cells / usual), 0.0), dtype=np.float64)


def prevalence(known: Evidence) -> Estimate:
    """Return the share of all images in which the subject is truly there."""
    return _mass(known, np.full(NUM_CELLS, fill_value=True))


def sensitivity(known: Evidence) -> Estimate:
    """Return the share of the images with the subject that the run answers with yes. An unknown answer is not a yes."""
    return _part(_mass(known, IS_YES), _mass(known, ~IS_YES))


def specificity(known: Evidence) -> Estimate:
    """Return the share of the images without the subject that the run does not answer with yes."""
    return _part(_mass(known, ~IS_YES, is_there=False), _mass(known, IS_YES, is_there=False))


def _mass(known: Evidence, cells: Flags, is_there: bool = True) -> Estimate:
    """Return the share of all images that are in these cells and have the subject, or do not have it.

    Without a value if labels are missing for some."""
    shares = known.num_images / known.num_images.sum()
    has_rate = known.donors != NO_DONOR
    parts = [Estimate(None, 0.0, unknown)] if (unknown := float(shares[cells & ~has_rate].sum())) else []
    for stratum in (~IS_GUARDED, IS_GUARDED):
        if share := float(shares[(chosen := cells & stratum & has_rate)].sum()):
            value, low, high = _rate(known, chosen)
            ends = (value, low, high) if is_there else (1 - value, 1 - high, 1 - low)
            parts.append(Estimate(*(share * end for end in ends)))
    return added(parts)


def _rate(known: Evidence, cells: Flags) -> tuple[float, float, float]:
    """Return the share of the images in these cells in which the subject is truly there, and its interval."""
    shares = known.num_images[cells] / known.num_images[cells].sum()
    value, variance = float(shares @ known.rates[cells]), known.variance(cells)
    if variance <= 0:
        return value, value, value
    expected = float(shares @ known.smoothed_rates[cells])
    size = expected * (1 - expected) / variance
    low, high = clopper_pearson(min(1.0, value) * size, size)
    return value, float(low), float(high)


def added(parts: Sequence[Estimate]) -> Estimate:
    """Return the sum of independent estimates; without a value if one of them has bounds only."""
    sure = [(part.value, part.low or 0.0, part.high or 0.0) for part in parts if part.value is not None]
    bounds = [(part.low or 0.0, part.high or 0.0) for part in parts if part.value is None]
    value = sum(mid for mid, _, _ in sure)
    low = value - math.hypot(*(mid - low for mid, low, _ in sure)) + sum(low for low, _ in bounds)
    high = value + math.hypot(*(high - mid for mid, _, high in sure)) + sum(high for _, high in bounds)
    return Estimate(None if bounds else value, max(0.0, low), min(1.0, high))


def _part(part: Estimate, rest: Estimate) -> Estimate:
    """Return part / (part + rest)."""
    low, high = part.low or 0.0, part.high or 0.0
    rest_low, rest_high = rest.low or 0.0, rest.high or 0.0
    if part.value is None or rest.value is None:
        return Estimate(None, low / (low + rest_high) if low else 0.0, high / (high + rest_low) if high else 0.0)
    whole = part.value + rest.value
    if whole <= 0:
        return Estimate()
    value = part.value / whole
    if not part.value:
        most = _largest_ratio(part.value, high, rest.value, rest_low)
        return Estimate(0.0, 0.0, most / (1 + most) if math.isfinite(most) else 1.0)
    most = _largest_ratio(rest.value, rest_high, part.value, low)
    least = _least_ratio(rest.value, rest_low, part.value, high)
    return Estimate(value, 1 / (1 + most), 1 / (1 + least))


def _largest_ratio(top: float, top_high: float, bottom: float, bottom_low: float) -> float:
    """Return the high end of top / bottom by the ends of both (MOVER-R)."""
    square = bottom_low * (2 * bottom - bottom_low)
    if square <= 0:
        return math.inf
    both = top * bottom
    root = math.sqrt(max(0.0, both**2 - square * top_high * (2 * top - top_high)))
    return (both + root) / square


def _least_ratio(top: float, top_low: float, bottom: float, bottom_high: float) -> float:
    """Return the low end of top / bottom by the ends of both (MOVER-R)."""
    if not top:
        return 0.0
    square, both = top_low * (2 * top - top_low), top * bottom
    root = math.sqrt(max(0.0, both**2 - bottom_high * (2 * bottom - bottom_high) * square))
    return square / (both + root)


def _sums(cells: Counts, values: Numbers) -> Numbers:
    return np.asarray(np.bincount(cells, values, NUM_CELLS), dtype=np.float64)
