"""How sure a share is if shards were drawn first and images of these afterwards (`scan --sample N --shards M`).

Images of one shard are often alike, so that such a sample says less than as many images drawn from everywhere. How much
it says is given as an effective size: a simple random sample of so many images would be as sure. Of a group with k of
n images in m shards, with k_i of n_i in shard i and R = k / n:

    variance = (1 - f1) m / (m - 1) sum (k_i - R n_i)^2 / n^2 + f1 (1 - f2) R (1 - R) / n
    effective size = R (1 - R) / variance

f1: the drawn share of the shards. f2: the drawn share of the images of the drawn shards. R is a ratio of two estimates,
since no one knows how many images the other shards hold; the first term is its linearised variance between shards,
which has that of the second stage in it, but for the part f1 that the second term adds. It is not taken to be below
R (1 - R) / n, where chance alone made shards look alike. If none or all of the k images have what is counted, nothing
shows how shards differ; each shard then counts as one image. Of images in a single shard there is no effective size.

Intervals take the t distribution with m - 1 degrees of freedom, as a smaller effective size (Korn and Graubard).

Sources: Cochran, "Sampling Techniques", 3rd ed. 1977, sections 11.3 to 11.8; Särndal, Swensson and Wretman, "Model
Assisted Survey Sampling", 1992, sections 4.3 and 5.6 to 5.8; Korn and Graubard, "Confidence intervals for proportions
with small expected number of positive counts estimated from survey data", Survey Methodology 24 (1998).
"""

import math
from functools import cache

from reports.report.intervals import CONFIDENCE, z_of
from scoring.runs.record import ShardDraw

NUM_TABULATED = 200
"""Degrees of freedom with a value of their own in SQL; more count as so many, which is hardly too careful."""


def effective_size_sql(draw: ShardDraw, suffix: str = "") -> str:
    """SQL of the effective size, null without one; of any draw that leaves shards out.

    It is over the columns n, nn and num_shards, and with the suffix k, kk and kn: kk, kn and nn are sums over the shards
    of k_i², k_i n_i and n_i². All but num_shards are floating-point numbers.
    """
    f1, f2 = draw.num_shards / draw.num_source_shards, draw.num_images / draw.num_in_shards
    k, kk, kn = (f"{name}{suffix}" for name in ("k", "kk", "kn"))
    spread = f"greatest(0, {kk} - 2 * ({k} / n) * {kn} + pow({k} / n, 2) * nn)"
    between = f"num_shards / (num_shards - 1) * {spread} / ({k} * (1 - {k} / n) * n)"
    per_image = f"CASE WHEN {k} IN (0, n) THEN 1 / num_shards ELSE greatest({between}, 1 / n) END"
    return f"CASE WHEN num_shards > 1 THEN 1 / ({1 - f1!r} * ({per_image}) + {f1 * (1 - f2)!r} / n) END"


@cache
def of_t_sql(num_shards: str) -> str:
    """SQL of the factor by which the t distribution makes an effective size smaller. num_shards: SQL, 2 or more."""
    factors = ", ".join(repr(of_t(number + 2)) for number in range(NUM_TABULATED))
    return f"([{factors}])[least({num_shards} - 1, {NUM_TABULATED})]"


def of_t(num_shards: int, confidence: float = CONFIDENCE) -> float:
    """The factor by which the t distribution makes an effective size smaller. num_shards: with images, 2 or more."""
    from scipy.special import stdtrit

    return float((z_of(confidence) / stdtrit(num_shards - 1, (1 + confidence) / 2)) ** 2)


def fraction_of(
    num_images: float, effective_size: float | None, num_shards: int, confidence: float = CONFIDENCE
) -> float:
    """What takes the place of the drawn share of the source in `reports.report.intervals`, where the size of a sample
    is n / (1 - fraction): mostly below 0; minus infinity where nothing is known."""
    if effective_size is None:
        return -math.inf
    return 1 - num_images / (effective_size * of_t(num_shards, confidence))
