"""Features: what a modality says of one picture, as numbers."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from scoring.assessment import View


@dataclass(frozen=True)
class Features:
    """A vector, in full or by its entries that are not 0."""

    values: npt.NDArray[np.float32]
    """Shape (d,), or (k,) if only k entries are given."""

    places: npt.NDArray[np.int64] | None = None
    """Shape (k,), rising: which entries these are; None if all are given."""


@dataclass(frozen=True)
class PictureView:
    """A view of a picture, and the size of the picture that it is of."""

    view: View
    width: int
    """Displayed width of the picture in pixels, before any downscaling."""

    height: int
    """Displayed height, as `width`."""


class Modality(Protocol):
    """One way to look at a picture, its models loaded."""

    @property
    def length(self) -> int:
        """Number of entries of a vector."""
        ...

    def features(self, seen: PictureView) -> Features | None:
        """Return None if the picture lacks what the modality looks at, such as a caption."""
        ...
