"""PDQ hashes of pictures: 256 bits that change little if a picture is encoded again, made smaller or brighter.

PDQ takes 64 x 64 greys of a picture and the 16 x 16 coefficients of lowest frequency, but for the constant one, of
their discrete cosine transform. A bit says whether a coefficient is above their median. Source: "The TMK+PDQF
Video-Hashing Algorithm and the PDQ Image-Hashing Algorithm" (Facebook, 2019).

The authors' program makes the 64 x 64 greys by filters that are whole pixels wide, which shifts the samples of a small
picture to one side. Here Pillow makes them, so that a smaller or mirrored picture has the same hash. `python -m
benchmarks.pdq` says in how many bits this differs from the authors' hash.
"""

from collections.abc import Iterable
from itertools import product

import numpy as np
import numpy.typing as npt

from ingest.images.pixels import Pixels

Hashes = npt.NDArray[np.uint64]
"""Shape (number of hashes, 4)."""

NUM_BITS = 256
_NUM_BYTES = NUM_BITS // 8

MAX_DISTANCE = 31
"""Bits in which two hashes of the same picture may differ, as PDQ's authors recommend."""

_SIDE_PX, _NUM_FREQUENCIES = 64, 16
_ROUNDING = 1e-3
"""Coefficients up to this size, in greys, are errors of rounding and count as 0: an even picture has no bit set."""
_GREY = np.array([0.299, 0.587, 0.114])
"""Weights of red, green and blue."""
_PAIRS_AT_ONCE = 2**16
"""Hashes compared at once: they fit into the cache of a core."""

_frequencies = np.arange(1, _NUM_FREQUENCIES + 1)
_DCT = np.sqrt(2 / _SIDE_PX) * np.cos(np.pi / (2 * _SIDE_PX) * np.outer(_frequencies, 2 * np.arange(_SIDE_PX) + 1))


def pdq_of(pixels: Pixels) -> str:
    """Return the hash of a picture, 64 hex digits. pixels: RGB, shape (height, width, 3), uint8."""
    from PIL import Image  # whoever only compares hashes does without

    small = Image.fromarray(pixels).resize((_SIDE_PX, _SIDE_PX), Image.Resampling.HAMMING, reducing_gap=4.0)
    coefficients = _DCT @ (np.asarray(small) @ _GREY) @ _DCT.T
    coefficients[np.abs(coefficients) <= _ROUNDING] = 0
    return _packed(coefficients > np.median(coefficients)).tobytes().hex()


def hashes_of(texts: Iterable[str]) -> Hashes:
    """Parse hashes; shape (texts, 4). ValueError if a text is none.

    Early files of format 1 have five hashes of a picture in one text. The last one counts: on 50 photographs it differs
    from ours in 6 bits in the median, and in 16 at most.
    """
    encoded = [bytes.fromhex(text) for text in texts]
    if any(len(text_bytes) not in (_NUM_BYTES, 5 * _NUM_BYTES) for text_bytes in encoded):
        raise ValueError(f"a PDQ hash has {NUM_BITS // 4} hex digits")
    return np.frombuffer(b"".join(text_bytes[-_NUM_BYTES:] for text_bytes in encoded), np.uint64).reshape(-1, 4)


def turned(hashes: Hashes) -> npt.NDArray[np.uint64]:
    """Return the hashes of each picture as it is, mirrored, and turned by each quarter; shape (8, hashes, 4). A
    coefficient that changes its sign changes its bit; this misses the few that are near the median."""
    bits = np.unpackbits(hashes.view(np.uint8), axis=1)[:, ::-1].reshape(-1, _NUM_FREQUENCIES, _NUM_FREQUENCIES)
    both = np.stack([hashes, _packed(bits.transpose(0, 2, 1))])
    return (both[:, None] ^ _MIRRORING[:, None]).reshape(8, -1, 4)


def _packed(bits: npt.NDArray[np.bool_] | npt.NDArray[np.uint8]) -> Hashes:
    """Return hashes of bits, shape (..., 16, 16): the bit of the last coefficient comes first."""
    return np.packbits(bits.reshape(-1, NUM_BITS)[:, ::-1], axis=1).view(np.uint64)


_is_odd = _frequencies % 2 == 1
_MIRRORING = _packed(np.array([_is_odd & x ^ (_is_odd & y)[:, None] for x, y in product((False, True), repeat=2)]))
"""Coefficients that change their sign if a picture stays, is upside down, mirrored, or both; shape (4, 4)."""


def distances(listed: Hashes, pictures: Hashes) -> npt.NDArray[np.uint16]:
    """Return in how many bits each picture differs from each hash of a list, as it is or turned or mirrored, whatever
    is nearest; shape (pictures, hashes)."""
    return np.asarray(np.min([_differing(way, pictures) for way in turned(listed)], axis=0))


def near(ways: Hashes, pictures: Hashes) -> npt.NDArray[np.bool_]:
    """Return whether each picture differs in at most 31 bits from a hash; shape (pictures,). ways: those of `turned`,
    as one list. Every pair is compared: 1,000 hashes with a million pictures take about half a minute of CPU time."""
    num_at_once = max(1, _PAIRS_AT_ONCE // max(1, len(ways)))
    parts = [pictures[first : first + num_at_once] for first in range(0, len(pictures), num_at_once)]
    nearest = [_differing(ways, part).min(axis=1, initial=NUM_BITS) for part in parts]
    return np.asarray(np.concatenate([np.zeros(0, np.uint16), *nearest]) <= MAX_DISTANCE)


def _differing(listed: Hashes, pictures: Hashes) -> npt.NDArray[np.uint16]:
    differing = np.zeros((len(pictures), len(listed)), np.uint16)
    for word in range(4):
        differing += np.bitwise_count(pictures[:, word, None] ^ listed[:, word])
    return differing
