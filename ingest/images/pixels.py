"""Types of pixels and areas, and limits of decoding: a module of its own, for settings and engines need no decoder."""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]
"""RGB, shape (height, width, 3), dtype uint8, in displayed orientation."""

CoverMethod = Literal["solid", "pixelate", "blur"]
"""`solid` fills an area with black. `pixelate` and `blur` look better and hide less: what they leave can be enough to
recognise a person or to read a number."""

TARGETS = ("faces", "text", "codes", "plates", "vehicles", "persons")
"""What can be covered wherever it is, besides the evidence of an attribute. text: every line, read or not. codes:
barcodes."""

Area = tuple[float, float, float, float]
"""x_min, y_min, x_max, y_max in fractions (0–1) of the displayed picture, y down."""


@dataclass(frozen=True)
class ImageLimits:
    """Limits on what is decoded of a file."""

    max_pixels: int = 178_000_000
    """Width x height of one frame; a file with a larger frame is rejected."""

    max_frames: int = 16
    """Number of frames or pages that are decoded, from the first."""

    max_side_px: int | None = None
    """Frames are downscaled to this longer side; None keeps the full size."""

    has_pdq: bool = False
    """Whether `DecodedImage.pdq` is computed."""
