"""Modality `caption`: hashed words and pairs of words, and the kinds of evidence in the caption.

Words are hashed, so a screen holds weights of places in a table and no word. The table can be asked for a word,
though: who has the screen can see how it weighs a word that they name.
"""

import re
from itertools import pairwise
from zlib import crc32

import numpy as np

from scoring.captions import CAPTION_KINDS, caption_kinds
from scoring.screen.features import Features, PictureView

VERSION = "caption-1"
"""Changes with any of the features: a screen of another version is refused."""

NUM_PLACES = 2**16
"""Entries of the table of words and pairs of words."""

_WORD = re.compile(r"\w+")


def caption_identity() -> dict[str, str]:
    """Return what decides the features."""
    return {"features": VERSION}


class Caption:
    """Words and pairs of words, whatever their case, and `scoring.captions.CAPTION_KINDS`."""

    length = NUM_PLACES + len(CAPTION_KINDS)

    def features(self, seen: PictureView) -> Features | None:
        return None if seen.view.caption is None else caption_features(seen.view.caption)


def caption_features(caption: str) -> Features:
    """Return the places of its words, each with 1 / √(number of places), and a 1 for each kind of evidence."""
    words = _WORD.findall(caption.lower())
    grams = {*words, *(f"{first} {second}" for first, second in pairwise(words))}
    places = sorted({crc32(gram.encode()) % NUM_PLACES for gram in grams})
    present = set(caption_kinds(caption))
    kinds = [NUM_PLACES + number for number, kind in enumerate(CAPTION_KINDS) if kind in present]
    values = [1 / max(1, len(places)) ** 0.5] * len(places) + [1.0] * len(kinds)
    return Features(np.array(values, dtype=np.float32), np.array([*places, *kinds], dtype=np.int64))
