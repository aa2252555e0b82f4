"""What pixels are, and what is decoded of a picture; by itself, since settings and engines need it and no decoder."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]
"""RGB, shape (height, width, 3), dtype uint8, in displayed orientation."""


@dataclass(frozen=True)
class ImageLimits:
    """What is decoded of a file."""

    max_pixels: int = 178_000_000
    """Width x height of one frame; a file with a larger frame is rejected."""

    max_frames: int = 16
    """Frames or pages that are decoded, from the first."""

    max_side_px: int | None = None
    """Frames are downscaled to this longer side; None keeps the full size."""

    has_pdq: bool = False
    """Whether `DecodedImage.pdq` is computed."""
