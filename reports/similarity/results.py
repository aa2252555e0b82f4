"""Results of comparing changed pictures with their originals: per pair, per set of them, and of all."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa

PairState = Literal["compared", "same", "no_original", "unreadable", "withheld"]
"""What became of a changed picture. same: no pixel differs. no_original: no original has its key, or several have it.
unreadable: one of the two cannot be decoded. withheld: one of the two is, or may be, on the hash list."""

PAIRS_SCHEMA = pa.schema(
    [
        pa.field("set", pa.string(), False),
        pa.field("key", pa.string()),
        pa.field("state", pa.string(), False),
        pa.field("mse", pa.float64()),
        pa.field("psnr", pa.float64()),
        pa.field("ssim", pa.float64()),
        pa.field("semsim", pa.float64()),
        pa.field("is_nearest", pa.bool_()),
        pa.field("num_areas", pa.int32()),
    ]
)
"""The rows of `similarity compare --out`, one for each changed picture. Null: not known, or not defined; `key` is null
if the picture is withheld. `is_nearest`: among the originals of its set, `MAX_NEAREST` at most, its own one is the
nearest."""

MAX_NEAREST = 1000
"""Number of pairs of a set for which the nearest original is looked for: the first ones."""

METRICS: Mapping[str, bool] = {"mse": False, "psnr": True, "ssim": True, "semsim": False}
"""Column -> whether a higher value means more alike."""


@dataclass(frozen=True)
class SetSimilarity:
    """The pairs of one corpus of changed pictures."""

    name: str
    counts: Mapping[PairState, int]
    num_originals_without: int
    """Originals to which no picture of the set belongs, such as those that a policy dropped."""

    means: Mapping[str, float | None]
    """Name of a metric -> its mean over the compared pairs for which it is defined; None if there are none."""

    num_nearest: int
    """Pairs whose changed picture is nearer to its own original than to those of all others."""

    num_nearest_of: int
    """Pairs of which that was asked: the compared ones, up to `MAX_NEAREST`."""

    nearest_low: float | None
    """Lower end of the 95 % interval of their share."""

    nearest_high: float | None

    num_other_size: int
    """Changed pictures that were resized to compare them."""

    @property
    def num_compared(self) -> int:
        return self.counts.get("compared", 0)


@dataclass(frozen=True)
class Similarity:
    """Result of `similarity compare`."""

    num_originals: int
    num_drawn: int
    """How many of them were to be compared."""

    part: Literal["areas", "whole"]
    encoder: str
    """Name of what made the features of SemSim and the nearest original."""

    sets: tuple[SetSimilarity, ...]
    seed: int
    version: str
