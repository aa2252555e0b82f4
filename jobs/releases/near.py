"""The PDQ hashes by which a picture is found in other sizes and encodings."""

import numpy as np
import numpy.typing as npt

from ingest.images.decode import DecodedImage, decode
from ingest.images.pdq import NUM_HASHES, hashes_of
from ingest.images.pixels import ImageLimits

LIMITS = ImageLimits(max_side_px=1024, has_pdq=True)


def pdq_texts(encoded: bytes) -> list[str]:
    """Return the hashes of all that a file shows, as `DecodedImage.pdq` has them; empty if nothing can be decoded.
    Content without a hash, such as a frame after the first 16, is left out."""
    decoded = decode(encoded, LIMITS)
    return [text for text in decoded.pdq or () if text is not None] if isinstance(decoded, DecodedImage) else []


def pdq_hashes(encoded: bytes) -> npt.NDArray[np.uint64] | None:
    """Return the same as numbers, shape (pictures, NUM_HASHES, 4); None if nothing can be decoded."""
    texts = pdq_texts(encoded)
    return hashes_of(texts, NUM_HASHES) if texts else None
