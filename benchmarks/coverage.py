"""A line of `python -m benchmarks.statistics`."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One figure in one setting."""

    setting: str
    figure: str

    coverage: float
    """Share of the samples whose interval holds the true value."""

    said: str = ""
    """What the commands say where the interval does not hold the truth, or is wider than it has to be."""
