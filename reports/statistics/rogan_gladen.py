"""Rates corrected by sensitivity and specificity that were measured on another corpus.

The assumption is strong: the engine must be wrong as often there as here, which nothing in the two runs can show.

Source: Rogan and Gladen, "Estimating prevalence from the results of a screening test", 1978.
"""

from dataclasses import dataclass

import numpy as np

from reports.statistics.estimates import IS_YES, NUM_DRAWS, PRIOR, Estimate, Evidence, Flags, Numbers, share_in

MAX_SENSELESS = 0.025
"""Limit on the share of the draws: with more, sensitivity and specificity may as well be those of a coin, and no
interval is given."""


@dataclass(frozen=True)
class Errors:
    """How often the engine is right on the other corpus."""

    sensitivity: Estimate
    specificity: Estimate

    sensitivities: Numbers
    """Draws of the sensitivity that the labels leave possible, shape (NUM_DRAWS,)."""

    specificities: Numbers
    """The same of the specificity."""


def counted_errors(
    num_found: int, num_missed: int, num_false: int, num_right: int, random: np.random.Generator
) -> Errors:
    """Return the errors by labels that count once each.

    num_found, num_missed: labelled pictures with the subject that are answered yes, and that are not. num_false,
    num_right: those without it that are answered yes, and that are not.
    """
    sensitivities, specificities = _draws(num_found, num_missed, random), _draws(num_right, num_false, random)
    return Errors(
        _share(num_found, num_missed, sensitivities),
        _share(num_right, num_false, specificities),
        sensitivities,
        specificities,
    )


def errors_of(is_there: Flags, is_yes: Flags, random: np.random.Generator) -> Errors:
    """Return the errors by pictures that were drawn evenly. Arrays have one entry for each labelled picture."""
    pairs = (is_there & is_yes, is_there & ~is_yes, ~is_there & is_yes, ~is_there & ~is_yes)
    num_found, num_missed, num_false, num_right = (int(pair.sum()) for pair in pairs)
    return counted_errors(num_found, num_missed, num_false, num_right, random)


def weighted_errors(evidence: Evidence, random: np.random.Generator) -> Errors:
    """Return the errors by pictures that were drawn with unequal probabilities.

    The corpus itself counts as a sample here, since the errors must hold for another one: no label makes them certain,
    and the shares of the cells are drawn too.
    """
    chances = evidence.chances(random)
    shares = random.standard_gamma(evidence.num_images, size=chances.shape)
    with_, without = shares * chances, shares * (1 - chances)
    sensitivities = with_[:, IS_YES].sum(axis=1) / with_.sum(axis=1)
    specificities = without[:, ~IS_YES].sum(axis=1) / without.sum(axis=1)
    right = float(share_in(evidence.shares, evidence.rates[None], IS_YES)[0])
    right_of_others = float(share_in(evidence.shares, 1 - evidence.rates[None], ~IS_YES)[0])
    return Errors(
        _with_interval(None if np.isnan(right) else right, sensitivities),
        _with_interval(None if np.isnan(right_of_others) else right_of_others, specificities),
        sensitivities,
        specificities,
    )


def rogan_gladen(num_yes: int, num_images: int, errors: Errors, random: np.random.Generator) -> Estimate:
    """Return the true rate behind `num_yes` answers for `num_images`.

    There is no value if the errors do not identify one: if sensitivity + specificity is at most 1, or the result is
    outside [0, 1]. The interval comes from Beta distributions of the three shares; it is None if it is not identified.
    """
    sensitivity, specificity = errors.sensitivity.value, errors.specificity.value
    if sensitivity is None or specificity is None or not num_images or sensitivity + specificity <= 1:
        return Estimate()
    value = (num_yes / num_images + specificity - 1) / (sensitivity + specificity - 1)
    if not 0 <= value <= 1:
        return Estimate()
    raw = _draws(num_yes, num_images - num_yes, random)
    better = errors.sensitivities + errors.specificities - 1
    is_senseless = better <= 0
    if is_senseless.mean() > MAX_SENSELESS:
        return Estimate(value)
    drawn = np.clip((raw + errors.specificities - 1) / np.where(is_senseless, np.nan, better), 0, 1)
    low, high = np.nanquantile(drawn, [0.025, 0.975], method="weibull")
    return Estimate(value, min(value, float(low)), max(value, float(high)))


def _share(part: int, rest: int, drawn: Numbers) -> Estimate:
    share = _with_interval(part / (part + rest) if part + rest else None, drawn)
    return Estimate(share.value, 0.0 if share.value == 0 else share.low, 1.0 if share.value == 1 else share.high)


def _with_interval(value: float | None, drawn: Numbers) -> Estimate:
    if value is None:
        return Estimate()
    low, high = np.quantile(drawn, [0.025, 0.975], method="weibull")
    return Estimate(value, min(value, float(low)), max(value, float(high)))


def _draws(part: int, rest: int, random: np.random.Generator) -> Numbers:
    return random.beta(part + PRIOR, rest + PRIOR, size=NUM_DRAWS)
