"""95 % intervals of a rate in the source, from how its images were chosen.

- A simple random sample: Wilson's interval at the effective size n / (1 - f), where f is the sampled share of the
  source. This is the finite population correction (Cochran, "Sampling Techniques", 3rd ed. 1977, section 2.6): the
  interval shrinks to the rate itself as f approaches 1. Without a known size of the source f counts as 0, which is
  never too narrow.
- A sample of each category: the overall rate weights each category with its size in the source (post-stratified,
  Cochran chapter 5), with Wilson's interval at the effective size that its variance gives.

Wilson's interval: E. B. Wilson, "Probable inference, the law of succession, and statistical inference", 1927.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

CONFIDENCE = 0.95

Interval = tuple[float, float]


def z_of(confidence: float) -> float:
    """The two-sided point of the normal distribution: 1.96 for 0.95."""
    return NormalDist().inv_cdf((1 + confidence) / 2)


def wilson(num_private: float, num_judged: float, z: float = z_of(CONFIDENCE)) -> Interval:
    """Wilson's score interval of num_private / num_judged. Both may be effective, not whole; num_judged > 0."""
    share = num_private / num_judged
    centre = share + z * z / (2 * num_judged)
    width = z * (share * (1 - share) / num_judged + (z / (2 * num_judged)) ** 2) ** 0.5
    scale = 1 + z * z / num_judged
    low = 0.0 if num_private <= 0 else (centre - width) / scale
    high = 1.0 if num_private >= num_judged else (centre + width) / scale
    return max(0.0, low), min(1.0, high)


def sampled(num_private: int, num_judged: int, fraction: float = 0.0, z: float = z_of(CONFIDENCE)) -> Interval:
    """Of a simple random sample. fraction: the sampled share of the source, 0–1; at 1 there is nothing left to draw."""
    if fraction >= 1:
        return num_private / num_judged, num_private / num_judged
    effective = 1 / (1 - fraction)
    return wilson(num_private * effective, num_judged * effective, z)


@dataclass(frozen=True)
class Stratum:
    """A category of which images were drawn at random."""

    num_in_source: int
    num_images: int
    """Drawn, quarantined and unknown ones included."""

    num_judged: int
    num_private: int


def post_stratified(strata: Sequence[Stratum]) -> tuple[float, float, float] | None:
    """Rate over all images of the source, and its 95 % interval; None if of some category nothing was judged.

    A category counts with the images of it that could be judged, which its sample estimates. The variance of a category
    is that of its rate with one private and one other image added, so that a rate of 0 is not taken as certain.
    """
    if not strata or any(not one.num_judged for one in strata):
        return None
    weights = [one.num_in_source * one.num_judged / one.num_images for one in strata]
    total = sum(weights)
    rate = sum(w * one.num_private / one.num_judged for w, one in zip(weights, strata, strict=True)) / total
    variance, expected = 0.0, 0.0
    for weight, one in zip(weights, strata, strict=True):
        smoothed = (one.num_private + 1) / (one.num_judged + 2)
        expected += weight / total * smoothed
        fraction = min(1.0, one.num_images / one.num_in_source)
        variance += (weight / total) ** 2 * (1 - fraction) * smoothed * (1 - smoothed) / one.num_judged
    if variance <= 0:
        return rate, rate, rate
    effective = expected * (1 - expected) / variance  # smoothed as the variance is: a rate near 0 would leave nothing
    low, high = wilson(rate * effective, effective)
    return rate, low, high
