"""Why a sample has no pixels, or no scores. It ends as a quarantined row, never as an exception."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """Why one sample cannot be assessed."""

    reason: str
    """A short code, such as `truncated`."""

    message: str
    """One line, without content of the image, of its file or of an answer."""
