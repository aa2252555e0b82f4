"""Rates of categories: by their own labels alone where these are enough, else by a model of all categories.

- With `MIN_LABELS` labels, or one for each image, the difference estimator inside the category, which assumes nothing.
- With fewer, Fay and Herriot's model of areas. For category k the difference estimator d_k, with the cell shares r_c of
  the whole sample as the claims of its images, has the error variance ψ_k of the draw. The true rates scatter around a
  line over the run's own rates x_k with variance σ²: d_k = β₀ + β₁ x_k + v_k + e_k. The rate is γ_k d_k + (1 - γ_k) (β₀
  + β₁ x_k) with γ_k = σ² / (σ² + ψ_k), so a category without labels takes the line. σ² maximises the residual
  likelihood times σ² (Li and Lahiri): it is above 0 also if few labels show no scatter, and no category that is far
  surer than the others decides it alone. The interval follows from the mean squared error of Prasad and Rao with
  Student's t for K - 2 categories.

It assumes that the true rates scatter around the line alike in all categories, not that the engine errs alike in them.
A category in which it errs in another way only has a longer interval if it has few labels.

Sources: R. Fay and R. Herriot, "Estimates of income for small places", JASA 74 (1979); H. Li and P. Lahiri, Journal of
Multivariate Analysis 101 (2010); J. N. K. Rao and I. Molina, "Small Area Estimation", 2nd ed. 2015, 6.1 and 6.2.
"""

from dataclasses import replace

import numpy as np

from reports.statistics.estimates import IS_YES, Estimate, Evidence, Labels, Numbers, Rates, evidence, rates_of
from reports.statistics.shares import SMALL_GROUP

MIN_LABELS = 30
"""Number of labels with which a category needs no model, and the rate of a run no mark."""

MIN_CATEGORIES = 5
"""Number of categories that the model needs, each with `SMALL_GROUP` images: the answers for fewer scatter more than
their true rates do."""

_LEAST_VARIANCE = 1e-12


def category_rates(whole: Evidence, num_images: Numbers, labels: Labels) -> list[Rates | None]:
    """Return the rates of each of K categories; None if it has too few labels, and there are too few categories.

    The sensitivity is by its own labels, and unknown without `MIN_LABELS` of them; the specificity is unknown. whole:
    evidence of all labels. num_images: of each category in each cell, shape (K, NUM_CELLS), at least one in each.
    """
    num_labels = np.bincount(labels.categories, minlength=len(num_images)).tolist()
    modelled = by_model(whole, num_images, labels)
    estimates: list[Rates | None] = []
    for index, num in enumerate(num_labels):
        is_complete = num == num_images[index].sum()
        if num and (num >= MIN_LABELS or is_complete):
            chosen = labels.categories == index
            of_category = Labels(labels.cells[chosen], labels.is_there[chosen], labels.probabilities[chosen])
            known = evidence(num_images[index], of_category)
            rates = rates_of(replace(known, openness=known.openness * (not is_complete)))
            if rates.prevalence.value is not None:
                estimates.append(replace(rates, specificity=Estimate(), num_labels=num))
                continue
        by_others = modelled.get(index)
        estimates.append(Rates(by_others, method="fay-herriot", num_labels=num) if by_others else None)
    return estimates


def by_model(whole: Evidence, num_images: Numbers, labels: Labels) -> dict[int, Estimate]:
    """Return the rates of the categories by the model, by their numbers.

    Without those with fewer than `SMALL_GROUP` images; empty with fewer than `MIN_CATEGORIES` others. Arguments as in
    `category_rates`.
    """
    num_categories, sizes = len(num_images), num_images.sum(axis=1)
    is_large = sizes >= SMALL_GROUP
    if is_large.sum() < MIN_CATEGORIES:
        return {}
    rates, smoothed, weights = whole.rates, whole.smoothed_rates, 1 / labels.probabilities
    errors = np.bincount(labels.categories, weights * (labels.is_there - rates[labels.cells]), num_categories)
    direct = (num_images @ rates + errors) / sizes
    # The variance by the design, not by the labels that were drawn: a category whose few labels agree is not certain.
    # Openness: the mean of 1 / probability - 1 over the images of a cell, estimated from its labels.
    totals, squares = (np.bincount(labels.cells, part, len(IS_YES)) for part in (weights, weights * (weights - 1)))
    shares = (squares / np.where(totals > 0, totals, 1))[whole.donors]
    spread, openness = smoothed * (1 - smoothed), np.where(whole.is_known, shares, squares.sum() / totals.sum())
    of_draw = np.maximum(num_images @ (spread * openness) / sizes**2, _LEAST_VARIANCE)
    of_images = num_images @ spread / sizes**2
    lines = np.column_stack([np.ones(num_categories), num_images[:, IS_YES].sum(axis=1) / sizes])
    values, variances = _fay_herriot(*(part[is_large] for part in (direct, of_draw, of_images, lines)))
    from scipy.special import stdtrit

    reach = float(stdtrit(len(values) - 2, 0.975)) * np.sqrt(variances)
    ends = zip(*(np.clip(end, 0, 1).tolist() for end in (values, values - reach, values + reach)), strict=True)
    return {int(number): Estimate(*three) for number, three in zip(np.flatnonzero(is_large), ends, strict=True)}


def _fay_herriot(direct: Numbers, of_draw: Numbers, of_images: Numbers, lines: Numbers) -> tuple[Numbers, Numbers]:
    """Return the best linear predictors and their mean squared errors. Shape (K,) each.

    direct: estimates. of_draw: their variances, above 0. of_images: variances of the true rates in as few images.
    lines: what the model explains the rates by, shape (K, 2).
    """
    from scipy.optimize import minimize_scalar

    def fit(between: float) -> tuple[Numbers, Numbers, Numbers]:
        """Return the variances, the coefficients by generalised least squares, and their covariance."""
        total = between + of_draw + of_images
        scaled = lines / total[:, None]
        # Not inv: the run may say yes equally often in all categories.
        covariance = np.asarray(np.linalg.pinv(scaled.T @ lines), dtype=np.float64)
        return total, covariance @ (scaled.T @ direct), covariance

    def loss(logarithm: float) -> float:
        """Return -2 times the adjusted residual log-likelihood of σ²."""
        total, coefficients, covariance = fit(np.exp(logarithm))
        squares = (direct - lines @ coefficients) ** 2 / total
        seen = np.linalg.eigvalsh(covariance)
        return float(np.sum(np.log(total) + squares) - np.log(seen[seen > 1e-15 * seen.max()]).sum() - 2 * logarithm)

    steps = np.linspace(np.log(_LEAST_VARIANCE), np.log(4), 60)
    best = int(np.argmin([loss(step) for step in steps]))
    around = float(steps[max(0, best - 1)]), float(steps[min(len(steps) - 1, best + 1)])
    between = float(np.exp(minimize_scalar(loss, bounds=around, method="bounded").x))
    total, coefficients, covariance = fit(between)
    weight = (between + of_images) / total
    explained = (1 - weight) ** 2 * np.einsum("ij,jk,ik->i", lines, covariance, lines)
    errors = weight * of_draw + explained + 4 * of_draw**2 / total**3 / (1 / total**2).sum()
    return weight * direct + (1 - weight) * (lines @ coefficients), errors
