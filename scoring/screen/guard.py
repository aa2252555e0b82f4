"""The drift guard: a small share of the screened pictures goes to the engine all the same, and its answers are counted.

Which pictures these are follows from their hashes, so that a scan that is continued, or repeated elsewhere, asks about
the same ones.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from scoring.table import FULL, GUARD, SCREENED, Col


def is_guarded(sha256: str, share: float) -> bool:
    """Return whether a screened picture goes to the engine. sha256: of the picture, in hex. share: 0–1."""
    digest = hashlib.sha256(f"guard/{sha256}".encode()).digest()
    return int.from_bytes(digest[:8], "big") < share * 2**64


@dataclass(frozen=True)
class GuardCounts:
    """What a screen did with the images of a slice, or of several."""

    num_seen: int = 0
    """Images to which the screen gave a probability."""

    num_screened: int = 0
    """How many of them are screened out, without those that the guard sent on."""

    num_guarded: int = 0
    """Those that would be screened out, but the guard sent them to the engine, which answered private or public."""

    num_missed: int = 0
    """How many of `num_guarded` the engine calls private."""

    num_private: int = 0
    """Images that passed the screen and that the engine calls private."""

    @property
    def text(self) -> str:
        """The counts in order, with commas between."""
        return ",".join(str(number) for number in astuple(self))

    @staticmethod
    def parsed(text: str) -> "GuardCounts":
        """Return the counts of a text; zeros if it is empty or damaged."""
        parts = text.split(",")
        return GuardCounts(*map(int, parts)) if len(parts) == 5 and all(map(str.isdecimal, parts)) else GuardCounts()

    def __add__(self, other: "GuardCounts") -> "GuardCounts":
        return GuardCounts(*map(sum, zip(astuple(self), astuple(other), strict=True)))


def left_out(rows: pa.Table) -> GuardCounts:
    """Count the images that a screen has seen, and those that it left out; the answers of the engine are not read."""
    num_screened = int((np.array(rows[Col.STATUS].to_pylist(), dtype=object) == SCREENED).sum())
    return GuardCounts(num_seen=rows.num_rows - rows[Col.PROB_SCREEN].null_count, num_screened=num_screened)


def guard_counts(rows: pa.Table, engine: Mapping[str, Any]) -> GuardCounts:
    """Count what a screen did with the images of these rows. engine: as run.json describes it."""
    from scoring.privacy import private_of_rows  # loads DuckDB

    private = private_of_rows(rows, engine)
    stages, statuses = (np.array(rows[name].to_pylist(), dtype=object) for name in (Col.STAGE, Col.STATUS))
    has_answer = (stages == GUARD) & ~np.isnan(private)
    return GuardCounts(
        num_seen=rows.num_rows - rows[Col.PROB_SCREEN].null_count,
        num_screened=int((statuses == SCREENED).sum()),
        num_guarded=int(has_answer.sum()),
        num_missed=int((has_answer & (private == 1)).sum()),
        num_private=int(((stages == FULL) & (private == 1)).sum()),
    )
