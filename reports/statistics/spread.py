"""How much a metric moves over several runs of the same pictures, such as one per wording of the question.

Source: Samson et al., "Privacy-Aware Visual Language Models", Table 12. The deviation is of a sample (n − 1); the paper
mixes both kinds.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


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
    """Return the spread of at least one run."""
    known = [value for value in values if value is not None]
    mean = float(np.mean(known)) if known else None
    sd = float(np.std(known, ddof=1)) if len(known) > 1 else None
    return Spread(tuple(values), mean, sd)
