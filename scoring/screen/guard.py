"""The drift guard: a small share of the screened pictures goes to the engine all the same, and its answers are counted.

Which pictures these are follows from their hashes, so that a scan that is continued, or repeated elsewhere, asks about
the same ones.
"""

import hashlib
from dataclasses import dataclass


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

    def __add__(self, other: "GuardCounts") -> "GuardCounts":
        return GuardCounts(
            self.num_seen + other.num_seen,
            self.num_screened + other.num_screened,
            self.num_guarded + other.num_guarded,
            self.num_missed + other.num_missed,
            self.num_private + other.num_private,
        )
