"""The difference estimator: how often a subject is truly there, from the answers for all images and a few labels.

A cell is a group of rows about which the run says the same of a subject (the private decision, or an attribute), such
as "shows a face, P from 0.8 on". Every scored row is in one cell of every subject. The labels of the sample, each
weighted by 1 / its inclusion probability, say how often the answer is wrong in a cell. The rate is the raw one minus
the mean error. This is the sum over cells of the cell's share of the images times the share of the cell in which the
subject is truly there.

The interval comes from Beta distributions, one for each cell. Each has as many labels as the weights are worth, and the
prior Beta(1/3, 1/3), whose median is close to the plain share. They are for the images without a label; the others are
known. Intervals of the normal distribution fail: with 400 labels and 0.5 % prevalence most samples hold no missed
image.

How many labels the weights are worth depends on which labels have large ones. Kish's effective size takes weights and
labels as unrelated. If an attribute that the engine never judges is present only where the sample is thin, its few
positive labels weigh most, and that size is too large. So the size by the linearised variance, Σ w² (y - p)² / (Σ w)²,
is taken where it is smaller. One more label of each kind with the largest weight of the cell makes up for kinds with
few labels or none.

With few positives (or few negatives) such intervals are too short as well. Then the ends are exact in the cell whose
labels weigh most: one more positive there for the high end, one fewer for the low end. With a single cell, these are
the ends of Clopper and Pearson, or of the hypergeometric distribution if a large part of the images is labelled. Fay
and Feuer also add one more count, of the largest weight.

Sensitivity and specificity are ratios, which the prior of a large cell can move far: a third of a positive among 200
labels without one is more than a good engine misses. Their ends go half of the way to the exact ones in every cell, as
mid-P intervals do.

Sources: Särndal, Swensson and Wretman, "Model Assisted Survey Sampling", 1992, chapters 5 to 7; L. Kish, "Survey
Sampling", 1965, section 11.7; J. Kerman, "Neutral noninformative and informative conjugate beta and gamma prior
distributions", Electronic Journal of Statistics, 2011; C. Clopper and E. Pearson, "The use of confidence or fiducial
limits illustrated in the case of the binomial", 1934; M. Fay and E. Feuer, "Confidence intervals for directly
standardized rates: a method based on the gamma distribution", 1997; H. Lancaster, "Significance tests in discrete
distributions", 1961, for mid-P.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

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

NUM_CELLS = 2 * NUM_BINS + 5

IS_YES: Flags = np.isin(np.arange(NUM_CELLS), [*range(NUM_BINS, 2 * NUM_BINS), PRESENT])
"""The cells whose rows the run answers with 1."""

NUM_DRAWS = 4_000
PRIOR = 1 / 3
"""Value of both shape parameters."""

FEW_COUNTS, MANY_COUNTS = 3, 6
"""Numbers of positives or negatives, whichever are fewer: up to the first the ends are exact, and from the second on
they need not be. With several cells the number is the variance, in units of the largest weight squared. What other
cells add to it smooths the steps of single counts, so no exact ends are needed if they add a whole count.
"""

MID_P = 0.5
"""How far the ends of sensitivity and specificity go towards exact ones, 0–1."""

_LEAST_SHAPE = 1e-3
"""Smallest value of a shape, which would be 0 at an exact end."""

NOWHERE: Numbers = np.zeros(NUM_CELLS)
"""No step towards an exact end, in no cell."""


def guesses(num_images: Counts | Numbers) -> Numbers:
    """Guess the share of each cell in which the subject is truly there, before any label. Shape (NUM_CELLS,).

    The guess decides only where labels are placed, and which cells are alike: a wrong one widens intervals and biases
    nothing. num_images: of each cell of the run, shape (NUM_CELLS,).
    """
    rate = min(0.9, float(num_images[IS_YES].sum()) / max(1.0, float(num_images.sum())))
    missed = 0.2 * rate / (1 - rate)
    shares = np.empty(NUM_CELLS)
    shares[: 2 * NUM_BINS] = np.clip(np.tile(_MIDDLES, 2), max(0.1 * rate, 0.001), 0.9)
    shares[ABSENT] = np.clip(missed, 0.002, 0.3)
    shares[NEAR] = np.clip(3 * missed, 0.01, 0.4)
    shares[NOT_JUDGED] = np.clip(rate, 0.02, 0.5)
    shares[UNCLEAR], shares[PRESENT] = 0.5, 0.8
    return shares


@dataclass(frozen=True)
class Estimate:
    """A share of the images, 0–1, with its 95 % interval; None where it is not known."""

    value: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Evidence:
    """What labels say of each cell. All arrays have the shape (NUM_CELLS,)."""

    num_images: Numbers
    """Images that the rates are of."""

    num_labelled: Numbers
    """How many of these have a label."""

    positives: Numbers
    """Labels that say yes, as effective numbers."""

    sizes: Numbers
    """All labels, as effective numbers; 0 if there are none."""

    donors: npt.NDArray[np.int64]
    """The cell whose labels count for this one: itself, or the most similar cell that has labels."""

    @property
    def shares(self) -> Numbers:
        """Return the share of each cell among all images, 0–1."""
        return np.asarray(self.num_images / self.num_images.sum(), dtype=np.float64)

    @property
    def shares_labelled(self) -> Numbers:
        """Return the labelled share of the images of each cell, 0–1."""
        return np.asarray(np.minimum(1, self.num_labelled / np.maximum(self.num_images, 1)), dtype=np.float64)

    @property
    def rates(self) -> Numbers:
        """Return the share of each cell in which the subject is truly there."""
        own = np.divide(self.positives, self.sizes, out=np.zeros(NUM_CELLS), where=self.sizes > 0)
        return np.asarray(own[self.donors], dtype=np.float64)

    @property
    def smoothed_rates(self) -> Numbers:
        """Return the same, never exactly 0 or 1."""
        own = (self.positives + PRIOR) / (self.sizes + 2 * PRIOR)
        return np.asarray(own[self.donors], dtype=np.float64)

    def draws(self, random: np.random.Generator, steps: Numbers = NOWHERE, num_draws: int = NUM_DRAWS) -> Numbers:
        """Draw rates of the cells that the labels leave possible; labelled images stay as labelled.

        Shape (num_draws, NUM_CELLS). steps: as in `chances`.
        """
        # The number of images without a label is finite, so their true share is drawn too, not only its chance.
        used = np.flatnonzero(self.num_images > 0)
        num_open = np.rint(np.maximum(self.num_images - self.num_labelled, 0)[used]).astype(np.int64)
        of_open = random.binomial(num_open, self.chances(random, steps, num_draws)[:, used]) / np.maximum(num_open, 1)
        labelled = self.shares_labelled[used]
        drawn = np.zeros((num_draws, NUM_CELLS))
        drawn[:, used] = labelled * self.rates[used] + (1 - labelled) * of_open
        return drawn

    def chances(self, random: np.random.Generator, steps: Numbers = NOWHERE, num_draws: int = NUM_DRAWS) -> Numbers:
        """Draw chances that the subject is in an image of each cell without a label; never exactly 0 or 1.

        Shape (num_draws, NUM_CELLS). steps: for each cell 1 for an exact high end, -1 for an exact low one, 0 for
        neither, or a number between.
        """
        used = np.unique(self.donors[self.num_images > 0])
        up, down = np.maximum(steps, 0), np.maximum(-steps, 0)
        # At an exact end the prior's third of a count becomes a whole count on that side, and 0 on the other.
        with_ = self.positives + PRIOR + up * (1 - PRIOR) - down * PRIOR
        without = self.sizes - self.positives + PRIOR + down * (1 - PRIOR) - up * PRIOR
        with_, without = np.maximum(with_, _LEAST_SHAPE), np.maximum(without, _LEAST_SHAPE)
        drawn = np.full((num_draws, NUM_CELLS), 0.5)
        drawn[:, used] = random.beta(with_[used], without[used], size=(num_draws, len(used)))
        return np.asarray(np.clip(drawn[:, self.donors], 1e-12, 1 - 1e-12), dtype=np.float64)

    def steps_of_prevalence(self) -> Numbers:
        """Return the steps towards the exact high end, which is in the cell whose labels weigh most.

        They are 0 if there are enough positives and negatives.
        """
        # A cell without labels adds its share to its donor, so a label there weighs more.
        of_donors = _sums(self.donors, self.shares)
        weights = np.divide(of_donors, self.sizes, out=np.zeros(NUM_CELLS), where=self.sizes > 0)
        with_, without = self.positives + PRIOR, self.sizes - self.positives + PRIOR
        counts = with_ * without / (with_ + without) * (weights / weights.max()) ** 2
        heaviest = int(np.argmax(weights))
        of_others = float(counts.sum() - counts[heaviest])
        is_few = min(1.0, max(0.0, (MANY_COUNTS - float(counts.sum())) / (MANY_COUNTS - FEW_COUNTS)))
        steps = np.zeros(NUM_CELLS)
        steps[heaviest] = is_few * max(0.0, 1 - of_others)
        return steps


def evidence(
    num_images: Counts | Numbers,
    cells: Counts,
    is_there: Numbers,
    probabilities: Numbers,
    masses: Numbers | None = None,
) -> Evidence:
    """Return what the labels say of each cell.

    num_images: images that the rates are of in each cell, shape (NUM_CELLS,). The others have the shape (m,), one entry
    for each label; there must be one.
    is_there: 1 or 0. probabilities: that the image was drawn and labelled, above 0. masses: number of `num_images` that
    the labelled image itself counts as, if images count differently; None: one.
    """
    assert len(cells)
    masses = np.ones(len(cells)) if masses is None else masses
    weights = masses / probabilities
    of_cells = _sums(cells, weights)
    has_labels = of_cells > 0
    of_positives = _sums(cells, weights * is_there)
    rates = np.minimum(1, np.divide(of_positives, of_cells, out=np.zeros(NUM_CELLS), where=has_labels))
    sizes = _effective_sizes(cells, is_there, weights, rates)
    # A cell without labels takes those of the most similar cell, by the guesses; all others take their own.
    guess = guesses(num_images)
    log_odds = np.log(guess / (1 - guess))
    distances = np.abs(log_odds[:, None] - log_odds[None, :]) + np.where(has_labels, 0, np.inf)[None, :]
    np.fill_diagonal(distances, np.where(has_labels, -1, np.inf))
    in_population = np.asarray(num_images, dtype=np.float64)
    return Evidence(in_population, _sums(cells, masses), rates * sizes, sizes, np.argmin(distances, axis=1))


def _effective_sizes(cells: Counts, is_there: Numbers, weights: Numbers, rates: Numbers) -> Numbers:
    """Return how many labels of equal weight the labels of each cell are worth, 0 without any. Shape (NUM_CELLS,)."""
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

    # p (1 - p) over the linearised variance of the weighted share p, sorted by kinds of labels.
    usual = usual_weight(is_there) * (1 - rates) + usual_weight(1 - is_there) * rates
    linearised = of_cells / usual
    kish = np.divide(of_cells**2, squares, out=np.zeros(NUM_CELLS), where=has_labels)
    return np.asarray(np.where(has_labels, np.minimum(kish, linearised), 0.0), dtype=np.float64)


def prevalence(of_cells: Evidence, random: np.random.Generator, num_draws: int = NUM_DRAWS) -> Estimate:
    """Return the share of all images in which the subject is truly there."""
    # Exact steps widen one end each, so the low and the high end come from draws of their own.
    steps = of_cells.steps_of_prevalence()
    drawn = of_cells.draws(random, -steps, num_draws) @ of_cells.shares
    low, high = _middle(drawn)
    if steps.any():
        high = _middle(of_cells.draws(random, steps, num_draws) @ of_cells.shares)[1]
    return _bounded(float(of_cells.shares @ of_cells.rates), low, high, of_cells)


def standard_error(of_cells: Evidence) -> float:
    """Return the standard error of the prevalence: the root of the design's variance.

    0 says little if no label contradicts the run.
    """
    sizes = np.where(of_cells.sizes > 0, of_cells.sizes, np.inf)
    # Cells without labels of their own are one with their donor; what is labelled is known.
    shares = _sums(of_cells.donors, of_cells.shares)
    is_open = 1 - np.minimum(1, of_cells.num_labelled / np.maximum(_sums(of_cells.donors, of_cells.num_images), 1))
    own = np.divide(of_cells.positives, sizes)
    return float(np.sqrt(np.sum(shares**2 * own * (1 - own) / sizes * is_open)))


def sensitivity(of_cells: Evidence, random: np.random.Generator, num_draws: int = NUM_DRAWS) -> Estimate:
    """Return the share of the images with the subject that the run answers with yes. An unknown answer is not a yes."""
    steps = np.where(IS_YES, MID_P, -MID_P)
    low, high = (of_cells.draws(random, sign * steps, num_draws) for sign in (-1, 1))
    return _ratio(of_cells.shares, of_cells.rates, low, high, IS_YES)


def specificity(of_cells: Evidence, random: np.random.Generator, num_draws: int = NUM_DRAWS) -> Estimate:
    """Return the share of the images without the subject that the run does not answer with yes."""
    steps = np.where(IS_YES, -MID_P, MID_P)
    low, high = (1 - of_cells.draws(random, sign * steps, num_draws) for sign in (1, -1))
    return _ratio(of_cells.shares, 1 - of_cells.rates, low, high, ~IS_YES)


def share_in(shares: Numbers, rates: Numbers, cells: Flags) -> Numbers:
    """Return the share of all images with the subject that is in these cells; NaN if there are none.

    rates: shape (…, NUM_CELLS).
    """
    whole = rates @ shares
    return np.divide(rates[..., cells] @ shares[cells], whole, out=np.full_like(whole, np.nan), where=whole > 0)


def _ratio(shares: Numbers, rates: Numbers, low: Numbers, high: Numbers, cells: Flags) -> Estimate:
    """Return `share_in` with its interval, from draws for the low end and for the high one."""
    value = float(share_in(shares, rates[None], cells)[0])
    if np.isnan(value):
        return Estimate()
    ends = [item[~np.isnan(item)] for item in (share_in(shares, low, cells), share_in(shares, high, cells))]
    least, most = (_middle(end) if len(end) else (value, value) for end in ends)
    return Estimate(min(1.0, value), max(0.0, min(value, least[0])), min(1.0, max(value, most[1])))


def _bounded(value: float, low: float, high: float, of_cells: Evidence) -> Estimate:
    """Return the estimate within [0, 1], and exact at an end if every label is the same."""
    used = np.unique(of_cells.donors[of_cells.num_images > 0])
    is_none = not of_cells.positives[used].any()
    is_all = bool((of_cells.positives[used] >= of_cells.sizes[used]).all())
    return Estimate(value, 0.0 if is_none else min(low, value), 1.0 if is_all else max(high, value))


def _middle(drawn: Numbers) -> tuple[float, float]:
    """Return the ends of the middle 95 % of draws, shape (num_draws,)."""
    low, high = np.quantile(drawn, [0.025, 0.975], method="weibull")
    return float(low), float(high)


def _sums(cells: Counts, values: Numbers) -> Numbers:
    return np.asarray(np.bincount(cells, values, NUM_CELLS), dtype=np.float64)
