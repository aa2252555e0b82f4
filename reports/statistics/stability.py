"""How much a metric moves: over parts of the pictures, and over several runs of the same pictures.

Sources: Samson et al., "Privacy-Aware Visual Language Models". Figure 7 draws parts of the benchmark without
replacement; a bootstrap would give larger deviations. Table 12 compares runs, such as one per wording of the question;
the deviation here is of a sample (n − 1), while the paper mixes both kinds.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from reports.statistics.binary import Numbers, rates

FRACTIONS = (0.5, 0.9)
NUM_SPLITS = 1000


@dataclass(frozen=True)
class Stability:
    """The MCC over random parts of the pictures."""

    fraction: float
    """Share of the pictures in each part, 0–1."""

    num_splits: int
    """Parts drawn in which the MCC is defined."""

    mcc_mean: float
    """Over these parts."""

    mcc_sd: float
    """Standard deviation over these parts (n − 1)."""


def stability(counts: Numbers, fraction: float, num_splits: int = NUM_SPLITS, seed: int = 0) -> Stability | None:
    """Return how much the MCC moves over random parts; None if fewer than two parts have an MCC.

    counts: confusion counts, shape (4,). Drawing pictures without replacement and counting them is drawing counts from
    the multivariate hypergeometric distribution, which needs no pictures.
    """
    whole = np.asarray(counts, dtype=np.int64)
    size = int(whole.sum() * fraction)
    drawn = np.random.default_rng(seed).multivariate_hypergeometric(whole, size, size=num_splits, method="marginals")
    mccs = rates(drawn.astype(np.float64))["mcc"]
    mccs = mccs[~np.isnan(mccs)]
    if len(mccs) < 2:
        return None
    return Stability(fraction, len(mccs), float(mccs.mean()), float(mccs.std(ddof=1)))


@dataclass(frozen=True)
class Spread:
    """One metric over several runs."""

    values: tuple[float | None, ...]
    """One per run, in order; None if it is not defined there."""

    mean: float | None
    """Mean of the runs in which it is defined; None if it is in none."""

    sd: float | None
    """Standard deviation (n − 1); None with fewer than two values."""


def spread(values: Sequence[float | None]) -> Spread:
    """Return the spread of a metric over runs; there must be at least one."""
    known = [value for value in values if value is not None]
    mean = float(np.mean(known)) if known else None
    sd = float(np.std(known, ddof=1)) if len(known) > 1 else None
    return Spread(tuple(values), mean, sd)
