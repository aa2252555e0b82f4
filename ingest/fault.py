"""Why a sample has no pixels, or no scores. It ends as a quarantined row, never as an exception."""

from dataclasses import dataclass

TRUNCATED_SHARD = "truncated_shard"
CORRUPT_SHARD = "corrupt_shard"
NO_IMAGE_COLUMN = "no_image_column"
TOO_MANY_ROWS = "too_many_rows"

SHARD_REASONS = frozenset([TRUNCATED_SHARD, CORRUPT_SHARD, NO_IMAGE_COLUMN, TOO_MANY_ROWS])
"""Reasons of rows that describe a shard or a part of it, not a single image.

How many images the part held is not known, so such a row is counted as no image (`scoring.runs.damage`).
"""


@dataclass(frozen=True)
class Fault:
    """Why one sample cannot be assessed."""

    reason: str
    """A short code, such as `truncated`."""

    message: str
    """One line, without content of the image, of its file or of an answer."""
