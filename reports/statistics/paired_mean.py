"""The mean of differences between pairs."""

import math


def interval_of_mean(num: int, mean: float, deviation: float, level: float = 0.95) -> tuple[float, float] | None:
    """Student's interval of a mean of independent values; None with fewer than two of them, or if all are the same.

    deviation: of the sample (n − 1).
    """
    from scipy.special import stdtrit

    if num < 2 or not deviation > 0:
        return None
    half = float(stdtrit(num - 1, (1 + level) / 2)) * deviation / math.sqrt(num)
    return mean - half, mean + half
