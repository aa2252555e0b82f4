"""Modalities: ways to look at a picture for a screen, and what each says of it, as numbers.

- `thumbnail`, `frozen`, `detectors`: `detected.py`.
- `caption`: hashed words and pairs of words, and the kinds of evidence in the caption. Words are hashed, so a screen
  holds weights of places in a table and no word. The table can be asked for a word, though: who has the screen can see
  how it weighs a word that they name.
- `encoder`: `encoder.py`.
"""

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol
from zlib import crc32

import numpy as np
import numpy.typing as npt

from scoring.assessment import View
from scoring.captions import CAPTION_KINDS, caption_kinds


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

    def features(self, picture: PictureView) -> Features | None:
        """Return None if the picture lacks what the modality looks at, such as a caption. NoFeaturesError if looking at
        it fails."""
        ...


CAPTION_VERSION = "caption-1"
"""Changes with any of the features: a screen of another version is refused."""

NUM_PLACES = 2**16
"""Entries of the table of words and pairs of words."""

_WORD = re.compile(r"\w+")


class Caption:
    """Words and pairs of words, whatever their case, and `scoring.captions.CAPTION_KINDS`."""

    length = NUM_PLACES + len(CAPTION_KINDS)

    @staticmethod
    def identity() -> dict[str, str]:
        return {"features": CAPTION_VERSION}

    def features(self, picture: PictureView) -> Features | None:
        return None if picture.view.caption is None else caption_features(picture.view.caption)


def caption_features(caption: str) -> Features:
    """Return the places of its words, each with 1 / √(number of places), and a 1 for each kind of evidence."""
    words = _WORD.findall(caption.lower())
    grams = {*words, *(f"{first} {second}" for first, second in pairwise(words))}
    places = sorted({crc32(gram.encode()) % NUM_PLACES for gram in grams})
    present = set(caption_kinds(caption))
    kinds = [NUM_PLACES + number for number, kind in enumerate(CAPTION_KINDS) if kind in present]
    values = [1 / max(1, len(places)) ** 0.5] * len(places) + [1.0] * len(kinds)
    return Features(np.array(values, dtype=np.float32), np.array([*places, *kinds], dtype=np.int64))
