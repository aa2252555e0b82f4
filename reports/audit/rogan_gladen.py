"""Rates corrected by sensitivity and specificity that were measured on another corpus.

The assumption is strong: the engine must be wrong as often there as here, which nothing in the two runs can show.

Source: Rogan and Gladen, "Estimating prevalence from the results of a screening test", 1978.
"""

from dataclasses import dataclass

import numpy as np

from reports.audit.cells import Flags
from reports.audit.estimates import PRIOR, Estimate

NUM_DRAWS = 4_000
MAX_SENSELESS = 0.025
"""Of the draws: with more, sensitivity and specificity may as well be those of a coin, and no interval is given."""


@dataclass(frozen=True)
class Errors:
    """Counts of labelled pictures of the other corpus."""

    num_found: int
    """With the subject, answered yes."""

    num_missed: int
    """With the subject, not answered yes."""

    num_false: int
    """Without the subject, answered yes."""

    num_right: int
    """Without the subject, not answered yes."""

    @property
    def sensitivity(self) -> Estimate:
        return _share(self.num_found, self.num_found + self.num_missed)

    @property
    def specificity(self) -> Estimate:
        return _share(self.num_right, self.num_right + self.num_false)


def errors_of(is_there: Flags, is_yes: Flags) -> Errors:
    """One entry a labelled picture."""
    pairs = (is_there & is_yes, is_there & ~is_yes, ~is_there & is_yes, ~is_there & ~is_yes)
    return Errors(*(int(pair.sum()) for pair in pairs))


def rogan_gladen(num_yes: int, num_images: int, errors: Errors, random: np.random.Generator) -> Estimate:
    """The rate behind `num_yes` answers for `num_images`. Without a value if the errors do not identify one: if
    sensitivity + specificity is at most 1, or the result lies outside of [0, 1].

    The interval is of Beta distributions of the three shares; one that is not identified is None too.
    """
    found, right = errors.sensitivity.value, errors.specificity.value
    if found is None or right is None or not num_images or found + right <= 1:
        return Estimate()
    value = (num_yes / num_images + right - 1) / (found + right - 1)
    if not 0 <= value <= 1:
        return Estimate()
    sensitivities = _draws(errors.num_found, errors.num_missed, random)
    specificities = _draws(errors.num_right, errors.num_false, random)
    raw = _draws(num_yes, num_images - num_yes, random)
    better = sensitivities + specificities - 1
    is_senseless = better <= 0
    if is_senseless.mean() > MAX_SENSELESS:
        return Estimate(value)
    drawn = np.clip((raw + specificities - 1) / np.where(is_senseless, np.nan, better), 0, 1)
    low, high = np.nanquantile(drawn, [0.025, 0.975], method="weibull")
    return Estimate(value, min(value, float(low)), max(value, float(high)))


def _share(part: int, whole: int) -> Estimate:
    if not whole:
        return Estimate()
    drawn = _draws(part, whole - part, np.random.default_rng(0))
    low, high = np.quantile(drawn, [0.025, 0.975], method="weibull")
    value = part / whole
    return Estimate(
        value, 0.0 if part == 0 else min(value, float(low)), 1.0 if part == whole else max(value, float(high))
    )


def _draws(part: int, rest: int, random: np.random.Generator) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    return random.beta(part + PRIOR, rest + PRIOR, size=NUM_DRAWS)
