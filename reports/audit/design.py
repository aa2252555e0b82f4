"""How likely each image is drawn: a Poisson sample with unequal probabilities for many subjects at once.

The labels are shared out: a part is drawn evenly, and each subject gets a part that is drawn as suits it best, from
each cell in proportion to the standard deviation of what is unknown there (Neyman's allocation). An image's inclusion
probability is the sum over all parts. None is 0, and no weight is more than 5 times that of an even sample.

Source: J. Neyman, "On the two different aspects of the representative method", 1934; Särndal, Swensson and Wretman,
"Model Assisted Survey Sampling", 1992, sections 3.5 and 12.2.
"""

from collections.abc import Mapping

import numpy as np

from reports.statistics.cells import Counts, Numbers, guesses
from scoring.runs.audit_sample import PRIVATE, Purpose
from scoring.taxonomy import KEYS

EVEN_SHARE = 0.2
"""Part of the labels that is drawn evenly: a guard against guesses that are wrong."""

PRIVATE_SHARE: Mapping[Purpose, float] = {"both": 0.4, "private": 0.7, "attributes": 0.1}
"""Part of the labels that is drawn for the private decision; the rest is shared among the 22 attributes."""


def densities(num_images: Mapping[str, Counts], purpose: Purpose) -> dict[str, Numbers]:
    """Subject -> how dense the sample is in each of its cells, shape (NUM_CELLS,).

    An image's density is `EVEN_SHARE` and what its cells of all subjects add; its mean over all images is 1.
    num_images: subject -> images in each cell.
    """
    of_private = PRIVATE_SHARE[purpose]
    shares = {PRIVATE: of_private, **dict.fromkeys(KEYS, (1 - EVEN_SHARE - of_private) / len(KEYS))}
    densities_ = {}
    for subject, counts in num_images.items():
        guess = guesses(counts)
        spread = np.sqrt(guess * (1 - guess))
        densities_[subject] = shares[subject] * spread * counts.sum() / max(1e-300, float(counts @ spread))
    return densities_


def largest_density(of_cells: Mapping[str, Numbers], num_images: Mapping[str, Counts]) -> float:
    """No image of the run can have more."""
    return EVEN_SHARE + sum(float(of_cells[subject][num_images[subject] > 0].max()) for subject in of_cells)


def scale_of(num_wanted: int, num_images: int, largest: float, histogram: Numbers) -> float:
    """The number by which a density becomes a probability, so that `num_wanted` images are expected.

    largest: density. histogram: number of images and sum of densities of buckets of like densities, shape (B, 2).
    Infinity if every image is to be drawn.
    """
    if num_wanted >= num_images:
        return np.inf
    plain = num_wanted / num_images
    if plain * largest <= 1:
        return plain
    count, total = histogram.T
    low, high = plain, num_images / EVEN_SHARE
    for _ in range(100):
        middle = (low * high) ** 0.5
        expected = (count * np.minimum(1, middle * total / count)).sum()
        low, high = (middle, high) if expected < num_wanted else (low, middle)
    return float(low)
