"""The difference estimator: how often a subject is truly there, from the answers for all images and a few labels.

In each cell (`cells.py`) the run gives all images one answer; the labels of the sample, each weighted by one over its
inclusion probability, say how often that answer is wrong there. The rate is the raw one minus the mean error, which is
the sum over cells of the cell's share of the images times the share that is truly there in it.

The interval is of Beta distributions, one for each cell, with as many labels as the weights are worth (Kish's effective
size) and the prior Beta(1/3, 1/3), whose median is close to the plain share. They are for the images without a label;
the others are known. Intervals of the normal distribution miss: with 400 labels and .5 % prevalence most samples hold
no missed image.

With few positives (or few negatives) such intervals are too short as well. Then the ends are exact ones in the cell
whose labels stand for the most images each: one more positive there for the high end, one fewer for the low end. If
there is one cell, these are the ends of Clopper and Pearson, or of the hypergeometric distribution if the labels are a
large part of the images. One more count, of the largest weight, is also what Fay and Feuer add.

Sources: Särndal, Swensson and Wretman, "Model Assisted Survey Sampling", 1992, chapters 6 and 7; L. Kish, "Survey
Sampling", 1965, section 11.7; J. Kerman, "Neutral noninformative and informative conjugate beta and gamma prior
distributions", Electronic Journal of Statistics, 2011; C. Clopper and E. Pearson, "The use of confidence or fiducial
limits illustrated in the case of the binomial", 1934; M. Fay and E. Feuer, "Confidence intervals for directly
standardized rates: a method based on the gamma distribution", 1997.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reports.audit.cells import IS_YES, Counts, Numbers, guesses
from scoring.runs.audit_sample import NUM_CELLS

NUM_DRAWS = 4_000
PRIOR = 1 / 3
"""Of both shape parameters."""

FEW_COUNTS, MANY_COUNTS = 3, 6
"""Positives or negatives, whichever are fewer: up to the first number the ends are exact, and from the second on they
need not be. In several cells: the variance, in units of the largest weight squared. What other cells add to it smooths
the steps of single counts, so that no exact ends are needed if they add a whole count."""

_LEAST_SHAPE = 1e-3
"""Instead of the 0 that a shape is at an exact end."""


@dataclass(frozen=True)
class Estimate:
    """A share of the images, 0–1, with its 95 % interval; None where it is not known."""

    value: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Draws:
    """Rates of the cells that the labels leave possible, each of shape (num_draws, NUM_CELLS)."""

    for_low: Numbers
    """For the low end of a rate."""

    for_high: Numbers
    """For the high end; the same array if there are many positives and negatives."""


@dataclass(frozen=True)
class Evidence:
    """What labels say of each cell. All arrays have the shape (NUM_CELLS,)."""

    num_images: Counts
    """Of the run."""

    num_labelled: Counts
    """Of these, those with a label."""

    positives: Numbers
    """Labels that say yes, as effective numbers."""

    sizes: Numbers
    """All labels, as effective numbers; 0 if there are none."""

    donors: npt.NDArray[np.int64]
    """The cell whose labels stand for this one: itself, or the likest that has some."""

    @property
    def shares(self) -> Numbers:
        """Of the images, 0–1."""
        return np.asarray(self.num_images / self.num_images.sum(), dtype=np.float64)

    @property
    def shares_labelled(self) -> Numbers:
        """Of the images of each cell, 0–1."""
        return np.asarray(np.minimum(1, self.num_labelled / np.maximum(self.num_images, 1)), dtype=np.float64)

    @property
    def rates(self) -> Numbers:
        """Share of each cell in which the subject is truly there."""
        own = np.divide(self.positives, self.sizes, out=np.zeros(NUM_CELLS), where=self.sizes > 0)
        return np.asarray(own[self.donors], dtype=np.float64)

    @property
    def smoothed_rates(self) -> Numbers:
        """The same, never exactly 0 or 1."""
        own = (self.positives + PRIOR) / (self.sizes + 2 * PRIOR)
        return np.asarray(own[self.donors], dtype=np.float64)

    def draws(self, random: np.random.Generator, num_draws: int = NUM_DRAWS) -> Draws:
        """Of the cells, with what is labelled as it is."""
        lacking = self._share_lacking()
        if not lacking:
            both = self._draws(random, num_draws, 0)
            return Draws(both, both)
        return Draws(self._draws(random, num_draws, -lacking), self._draws(random, num_draws, lacking))

    def _draws(self, random: np.random.Generator, num_draws: int, towards: float) -> Numbers:
        used = np.flatnonzero(self.num_images > 0)
        num_open = np.maximum(self.num_images - self.num_labelled, 0)[used]
        of_open = random.binomial(num_open, self.chances(random, num_draws, towards)[:, used]) / np.maximum(num_open, 1)
        labelled = self.shares_labelled[used]
        found = np.zeros((num_draws, NUM_CELLS))
        found[:, used] = labelled * self.rates[used] + (1 - labelled) * of_open
        return found

    def chances(self, random: np.random.Generator, num_draws: int = NUM_DRAWS, towards: float = 0) -> Numbers:
        """Chances, for an image of each cell without a label, that the subject is there; never exactly 0 or 1.

        towards: 1 for those of an exact high end, -1 for a low one, 0 for neither.
        """
        used = np.unique(self.donors[self.num_images > 0])
        with_, without = self.positives + PRIOR, self.sizes - self.positives + PRIOR
        heaviest = int(np.argmax(self._weights()))
        up, down = max(towards, 0.0), max(-towards, 0.0)
        with_[heaviest] += up * (1 - PRIOR) - down * PRIOR
        without[heaviest] += down * (1 - PRIOR) - up * PRIOR
        with_, without = np.maximum(with_, _LEAST_SHAPE), np.maximum(without, _LEAST_SHAPE)
        found = np.full((num_draws, NUM_CELLS), 0.5)
        found[:, used] = random.beta(with_[used], without[used], size=(num_draws, len(used)))
        return np.asarray(np.clip(found[:, self.donors], 1e-12, 1 - 1e-12), dtype=np.float64)

    def _weights(self) -> Numbers:
        """Share of the images for which one label stands, of each cell; 0 without labels."""
        of_donors = _sums(self.donors, self.shares)
        return np.divide(of_donors, self.sizes, out=np.zeros(NUM_CELLS), where=self.sizes > 0)

    def _share_lacking(self) -> float:
        """How much of the exact ends is needed, 0-1."""
        weights = self._weights()
        with_, without = self.positives + PRIOR, self.sizes - self.positives + PRIOR
        counts = with_ * without / (with_ + without) * (weights / weights.max()) ** 2
        of_others = float(counts.sum() - counts[np.argmax(weights)])
        is_few = min(1.0, max(0.0, (MANY_COUNTS - float(counts.sum())) / (MANY_COUNTS - FEW_COUNTS)))
        return is_few * max(0.0, 1 - of_others)


def evidence(num_images: Counts, cells: Counts, is_there: Numbers, probabilities: Numbers) -> Evidence:
    """num_images: of the run in each cell, shape (NUM_CELLS,). The others have the shape (m,), one for each label.

    is_there: 1 or 0. probabilities: that the image was drawn and labelled, above 0. There must be a label.
    """
    assert len(cells)
    weights = 1 / probabilities
    of_cells = _sums(cells, weights)
    has_labels = of_cells > 0
    sizes = np.divide(of_cells**2, _sums(cells, weights**2), out=np.zeros(NUM_CELLS), where=has_labels)
    rates = np.divide(_sums(cells, weights * is_there), of_cells, out=np.zeros(NUM_CELLS), where=has_labels)
    guess = guesses(num_images)
    log_odds = np.log(guess / (1 - guess))
    distances = np.abs(log_odds[:, None] - log_odds[None, :]) + np.where(has_labels, 0, np.inf)[None, :]
    np.fill_diagonal(distances, np.where(has_labels, -1, np.inf))
    num_labelled = np.bincount(cells, minlength=NUM_CELLS)
    return Evidence(num_images, num_labelled, np.minimum(rates, 1) * sizes, sizes, np.argmin(distances, axis=1))


def prevalence(found: Evidence, draws: Draws) -> Estimate:
    """Share of all images in which the subject is truly there. draws: of `Evidence.draws`."""
    low, high = _middle(draws.for_low @ found.shares)[0], _middle(draws.for_high @ found.shares)[1]
    return _bounded(float(found.shares @ found.rates), low, high, found)


def standard_error(found: Evidence) -> float:
    """Of the prevalence: the root of the design's variance. 0 says little if no label contradicts the run."""
    sizes = np.where(found.sizes > 0, found.sizes, np.inf)
    # Cells without labels of their own are one with their donor; what is labelled is known.
    shares = _sums(found.donors, found.shares)
    is_open = 1 - np.minimum(
        1, found.num_labelled / np.maximum(_sums(found.donors, found.num_images.astype(np.float64)), 1)
    )
    own = np.divide(found.positives, sizes)
    return float(np.sqrt(np.sum(shares**2 * own * (1 - own) / sizes * is_open)))


def sensitivity(found: Evidence, draws: Draws) -> Estimate:
    """Share of the images in which the subject truly is that the run answers with yes. Unknown is no yes."""
    return _ratio(found, found.rates, (draws.for_low, draws.for_high), IS_YES)


def specificity(found: Evidence, draws: Draws) -> Estimate:
    """Share of the images without the subject that the run does not answer with yes."""
    return _ratio(found, 1 - found.rates, (1 - draws.for_low, 1 - draws.for_high), ~IS_YES)


def _ratio(found: Evidence, rates: Numbers, draws: tuple[Numbers, Numbers], cells: npt.NDArray[np.bool_]) -> Estimate:
    """The interval covers those of both draws: whether more positives raise the ratio depends on their cell."""
    whole = float(found.shares @ rates)
    if whole <= 0:
        return Estimate()
    value = float((found.shares * rates)[cells].sum()) / whole
    low = high = value
    for one in draws:
        drawn_whole = one @ found.shares
        is_defined = drawn_whole > 0
        if is_defined.any():
            ends = _middle((one[:, cells] @ found.shares[cells])[is_defined] / drawn_whole[is_defined])
            low, high = min(low, ends[0]), max(high, ends[1])
    return Estimate(min(1.0, value), max(0.0, low), min(1.0, high))


def _bounded(value: float, low: float, high: float, found: Evidence) -> Estimate:
    """Within [0, 1], and exact at an end if every label is the same."""
    used = np.unique(found.donors[found.num_images > 0])
    is_none = not found.positives[used].any()
    is_all = bool((found.positives[used] >= found.sizes[used]).all())
    return Estimate(value, 0.0 if is_none else min(low, value), 1.0 if is_all else max(high, value))


def _middle(drawn: Numbers) -> tuple[float, float]:
    """The middle 95 % of draws, shape (num_draws,)."""
    low, high = np.quantile(drawn, [0.025, 0.975], method="weibull")
    return float(low), float(high)


def _sums(cells: Counts, values: Numbers) -> Numbers:
    return np.asarray(np.bincount(cells, values, NUM_CELLS), dtype=np.float64)
