"""How sure a share is if shards were drawn first and images of these afterwards (`scan --sample N --shards M`).

Images of one shard are often alike, so such a sample says less than the same number of images drawn from everywhere.
The effective size measures this: a simple random sample of this size would be as sure. For a group with k of n images
in m shards, with k_i of n_i in shard i and R = k / n:

    e_i = (k_i - R n_i) / (1 - n_i / n)
    variance = (1 - f1) (m - 1) / m sum e_i^2 / n^2 + f1 (1 - f2) R (1 - R) / n
    effective size = R (1 - R) / variance

f1: the drawn share of the shards. f2: the drawn share of the images of the drawn shards. R is a ratio of two estimates,
since the number of images in the other shards is unknown. The first term is its jackknife variance between shards. It
includes the variance of the second stage, except for the part f1, which the second term adds. The first term without
its factor (1 - f1) is at least R (1 - R) / n, since chance alone can make shards look alike. If none or all of the n
images have what is counted, nothing shows how shards differ; each shard then counts as one image. Images of a single
shard have no effective size.

Intervals use the t distribution, in the form of a smaller effective size (Korn and Graubard). Its degrees of freedom
are m - 1, or fewer if a few shards make up most of the variance: 2 (sum e_i^2)^2 / (sum e_i^4 - (sum e_i^2)^2 / m).
This follows from the variance of the estimated variance (Satterthwaite). Two sources with very different shards and
0.5 % private were simulated, with 500 draws each. With m - 1 alone the intervals held the rate in 76 and 87 % of the
draws, with this formula in 96 and 99 %. Other settings: `python -m benchmarks.statistics --only sources`.

Sources: Cochran, "Sampling Techniques", 3rd ed. 1977, sections 11.3 to 11.8; Särndal, Swensson and Wretman, "Model
Assisted Survey Sampling", 1992, sections 4.3, 5.6 to 5.8 and 11.5; Satterthwaite, "An approximate distribution of
estimates of variance components", Biometrics Bulletin 2 (1946); Korn and Graubard, "Confidence intervals for
proportions with small expected number of positive counts estimated from survey data", Survey Methodology 24 (1998).
"""

import math
from functools import cache

import numpy as np
import numpy.typing as npt

from reports.statistics.shares import CONFIDENCE, z_of
from scoring.runs.record import ShardDraw

NUM_TABULATED = 200
"""Degrees of freedom with a value of their own in SQL; more use the last value, which is hardly too careful."""


def residual_sql(k: str, n: str, k_of_all: str, n_of_all: str) -> str:
    """Return the SQL of e_i; null for a shard that holds all images. The arguments are names of columns."""
    return f"({k} - {k_of_all} / {n_of_all} * {n}) / nullif(1 - {n} / {n_of_all}, 0)"


def effective_size_sql(draw: ShardDraw) -> str:
    """Return the SQL of the effective size, null without one; for any draw that leaves shards out.

    It reads the columns n, num_shards, k, and squares, the sum of e_i² over the shards. All but num_shards are
    floating-point numbers.
    """
    f1, f2 = draw.num_shards / draw.num_source_shards, draw.num_images / draw.num_in_shards
    between = "(num_shards - 1) / num_shards * squares / (k * (1 - k / n) * n)"
    per_image = f"CASE WHEN k IN (0, n) THEN 1 / num_shards ELSE greatest({between}, 1 / n) END"
    return f"CASE WHEN num_shards > 1 THEN 1 / ({1 - f1!r} * ({per_image}) + {f1 * (1 - f2)!r} / n) END"


def degrees_sql() -> str:
    """Return the SQL of the degrees of freedom, a whole number; null for a single shard.

    It reads the columns num_shards, squares and fourths, the sum of e_i⁴.
    """
    estimated = "2 * pow(squares, 2) / nullif(greatest(0, fourths - pow(squares, 2) / num_shards), 0)"
    return (
        "CASE WHEN num_shards > 1 THEN "
        f"greatest(1, least(num_shards - 1, floor(coalesce({estimated}, num_shards))))::BIGINT END"
    )


@cache
def of_t_sql(degrees: str) -> str:
    """Return the SQL of the factor by which the t distribution makes an effective size smaller.

    degrees: SQL, a whole number.
    """
    factors = ", ".join(repr(of_t(number + 1)) for number in range(NUM_TABULATED))
    return f"([{factors}])[least({degrees}, {NUM_TABULATED})]"


@cache
def of_t(degrees: int, confidence: float = CONFIDENCE) -> float:
    """Return the factor by which the t distribution makes an effective size smaller."""
    from scipy.special import stdtrit

    return float((z_of(confidence) / stdtrit(float(degrees), (1 + confidence) / 2)) ** 2)


def size_of_ratio(
    draw: ShardDraw, tops: npt.NDArray[np.float64], bottoms: npt.NDArray[np.float64], of_labels: float = 0.0
) -> float | None:
    """Return the effective size of the ratio Σ top / Σ bottom, made smaller by the t distribution; None of one shard.

    tops, bottoms: estimates for each of the m drawn shards, shape (m,). of_labels: variance of the ratio by the labels
    alone, which the variance between shards has in it but for the part f1.
    """
    num, total = len(tops), float(bottoms.sum())
    if num < 2:
        return None
    share = float(tops.sum()) / total
    f1, f2 = draw.num_shards / draw.num_source_shards, draw.num_images / draw.num_in_shards
    errors = (tops - share * bottoms) / np.maximum(1 - bottoms / total, 1e-9) / total
    squares, fourths, per_image = float((errors**2).sum()), float((errors**4).sum()), share * (1 - share)
    if per_image > 0:
        between = max((num - 1) / num * squares / per_image, 1 / total)
        inside = (1 - f2) / total + of_labels / per_image
    else:
        between, inside = 1 / num, (1 - f2) / total
    excess = fourths - squares**2 / num
    degrees = min(num - 1, int(2 * squares**2 / excess)) if excess > 0 else num - 1
    return of_t(max(1, degrees)) / ((1 - f1) * between + f1 * inside)


def fraction_of(
    num_images: float, effective_size: float | None, degrees: int | None, confidence: float = CONFIDENCE
) -> float:
    """Return the number that replaces the drawn share of the source in `reports.statistics.shares`.

    There the size of a sample is n / (1 - fraction). The number is mostly below 0; minus infinity if nothing is known.
    """
    if effective_size is None or degrees is None:
        return -math.inf
    return 1 - num_images / (effective_size * of_t(degrees, confidence))
