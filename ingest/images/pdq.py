"""PDQ hashes of pictures: 256 bits that change little where a picture is encoded again, made smaller or brighter.

PDQ filters a picture down to 64 x 64 greys and takes the 16 x 16 coefficients of lowest frequency, but for the constant
one, of the discrete cosine transform. A bit says whether a coefficient is above their median. `pdq_hashes` gives the
bits that the authors' program finds in all pixels, from fewer of them. Source: "The TMK+PDQF Video-Hashing Algorithm
and the PDQ Image-Hashing Algorithm" (Facebook, 2019), and its program in C++ (pdq/cpp in facebook/ThreatExchange).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

Pixels = npt.NDArray[np.uint8]
"""RGB, shape (height, width, 3), dtype uint8."""

Hashes = npt.NDArray[np.uint64]
"""Shape (number of hashes, 4)."""

NUM_BITS = 256

MAX_DISTANCE = 31
"""Bits in which two hashes of the same picture may differ, as PDQ's authors recommend."""

_SIDE = 64
_NUM_FREQUENCIES = 16
_ENOUGH_PX = 512
"""A side of at least twice this is averaged first. On the demo corpus, the hash of such a picture then differs from
that of all pixels in 1 bit on average, and in 4 at most."""

_MAX_ROWS_AT_ONCE = 257
"""The sum of this many pixels fits into 16 bits."""

_LARGE_PX = 8192
"""From this side on, PDQ's filters of whole pixels are as good as exact ones."""

_ROUNDING = 1e-3
"""Coefficients up to this size, in greys, are errors of rounding and count as 0: an even picture has no bit set."""

_GREY = np.array([0.299, 0.587, 0.114], np.float32)
"""Weights of red, green and blue."""

_frequencies = np.arange(1, _NUM_FREQUENCIES + 1)
_DCT = np.sqrt(2 / _SIDE) * np.cos(np.pi / (2 * _SIDE) * np.outer(_frequencies, 2 * np.arange(_SIDE) + 1))
_IS_ODD = _frequencies % 2 == 1
"""Frequencies whose coefficient changes its sign where the picture is mirrored."""

_Floats = npt.NDArray[np.float32]
_Doubles = npt.NDArray[np.float64]
_Places = npt.NDArray[np.intp]


def pdq_hashes(pixels: Pixels, size: tuple[int, int]) -> tuple[str, str]:
    """Two hashes of a picture, each as 64 hex digits: as PDQ gives it at `size`, and as it would at a very large size.

    pixels: RGB, shape (height, width, 3), uint8. size: width and height in pixels before the picture was downscaled.

    PDQ's filters are whole pixels wide, which shifts the samples of small pictures: the hash of a copy with 256 pixels
    often differs in more than 31 bits from that of the original. Nothing is shifted in the second hash, so that it
    matches a hash that was made of a large original.
    """
    rows_at_once, columns_at_once = (min(max(1, side // _ENOUGH_PX), _MAX_ROWS_AT_ONCE) for side in pixels.shape[:2])
    grey = _mean_greys(pixels, rows_at_once, columns_at_once)
    left = _sampling(size[1], pixels.shape[0], rows_at_once).samples(grey)
    sampled = _sampling(size[0], pixels.shape[1], columns_at_once).samples(np.ascontiguousarray(left.T)).T
    return _hash_of(sampled[:_SIDE, :_SIDE]), _hash_of(sampled[_SIDE:, _SIDE:])


def _mean_greys(pixels: Pixels, rows_at_once: int, columns_at_once: int) -> _Floats:
    """The mean grey of each block of pixels; rows and columns that fill no block are left out."""
    num_rows, num_columns = pixels.shape[0] // rows_at_once, pixels.shape[1] // columns_at_once
    blocks = pixels[: num_rows * rows_at_once].reshape(num_rows, rows_at_once, -1)
    sums = blocks.sum(axis=1, dtype=np.uint16) if rows_at_once > 1 else blocks[:, 0]
    colours = sums.reshape(num_rows, -1, 3)[:, : num_columns * columns_at_once]
    greys = np.zeros((num_rows, num_columns), np.float32)
    for first in range(columns_at_once):
        for colour, weight in enumerate(_GREY / (rows_at_once * columns_at_once)):
            greys += colours[:, first::columns_at_once, colour] * weight
    return greys


@dataclass(frozen=True)
class _Sampling:
    """Which blocks of pixels along a side make up its two times 64 samples, and how much each of them counts."""

    blocks: _Places
    """Shape (128, most blocks of a sample)."""

    weights: _Floats
    """Shape as `blocks`."""

    def samples(self, values: _Floats) -> _Floats:
        """Of each column of `values`. No matrix product: it would use all cores, and a scan has an engine on each."""
        found = np.zeros((len(self.blocks), values.shape[1]), np.float32)
        for blocks, weights in zip(self.blocks.T, self.weights.T, strict=True):
            found += values[blocks] * weights[:, None]
        return found


@lru_cache(256)
def _sampling(size: int, num_pixels: int, num_at_once: int) -> _Sampling:
    """Of a side that had `size` pixels, and has `num_pixels` after downscaling, which are averaged `num_at_once`.

    First the 64 samples that PDQ takes, then those that it would take if the side was very large.
    """
    num_blocks = num_pixels // num_at_once
    edges = np.append(np.arange(num_blocks) * num_at_once, num_pixels) * (size / num_pixels)
    cells = np.arange(_SIDE + 1) * (size / _SIDE)
    first, last = cells[:-1], cells[1:]
    own = None if size >= _LARGE_PX else _OwnSamples.of(size)
    if own is not None:
        first, last = np.minimum(first, own.first), np.maximum(last, own.first + own.num_pixels)
    begin = np.maximum(np.searchsorted(edges, first, "right") - 1, 0)
    end = np.searchsorted(edges, last)
    places = begin[:, None] + np.arange(int((end - begin).max()) + 1)
    borders = edges[np.minimum(places, num_blocks)]
    exact = np.diff(_part_of_tent((borders - cells[:-1, None]) * (_SIDE / size)))
    taken = exact if own is None else np.diff(own.before(borders))
    blocks = np.minimum(places[:, :-1], num_blocks - 1)
    return _Sampling(np.tile(blocks, (2, 1)), np.concatenate([taken, exact]).astype(np.float32))


def _part_of_tent(places: _Doubles) -> _Doubles:
    """How much of a tent from 0 to 1 is before each place: two box filters after each other make a tent."""
    inside = np.clip(places, 0, 1)
    return np.where(inside < 0.5, 2 * inside**2, 1 - 2 * (1 - inside) ** 2)


@dataclass(frozen=True)
class _OwnSamples:
    """What PDQ's two box filters and its decimation take of the pixels of a side, for each of the 64 samples."""

    first: _Places
    """The first pixel that a sample may take, which may be before the picture; shape (64,)."""

    until: _Doubles
    """How much of a sample is before each pixel from there on; shape (64, pixels of a sample + 1)."""

    @property
    def num_pixels(self) -> int:
        return int(self.until.shape[1]) - 1

    @staticmethod
    def of(size: int) -> "_OwnSamples":
        window = -(-size // (2 * _SIDE))
        num_before, num_behind = window - (window + 2) // 2, (window + 2) // 2 - 1
        samples = ((np.arange(_SIDE) + 0.5) * size / _SIDE).astype(np.intp)
        middles = samples[:, None] + np.arange(-num_before, num_behind + 1)
        is_inside = (middles >= 0) & (middles < size)
        starts, ends = np.maximum(middles - num_before, 0), np.minimum(middles + num_behind, size - 1) + 1
        shares = is_inside / (is_inside.sum(axis=1, keepdims=True) * np.maximum(ends - starts, 1))
        first = samples - 2 * num_before
        steps, rows, last = np.zeros((_SIDE, 2 * window)), np.arange(_SIDE)[:, None], 2 * window - 1
        np.add.at(steps, (rows, np.clip(starts - first[:, None], 0, last)), shares)
        np.add.at(steps, (rows, np.clip(ends - first[:, None], 0, last)), -shares)
        weights = np.cumsum(steps, axis=1)[:, :-1]
        return _OwnSamples(first, np.pad(np.cumsum(weights, axis=1), ((0, 0), (1, 0))))

    def before(self, borders: _Doubles) -> _Doubles:
        """How much of each sample is before places of its row, in pixels; shape as `borders`, (64, any)."""
        pixels = np.clip(borders - self.first[:, None], 0, self.num_pixels)
        whole = np.minimum(pixels.astype(np.intp), self.num_pixels - 1)
        left, right = (np.take_along_axis(self.until, whole + more, axis=1) for more in (0, 1))
        return left + (right - left) * (pixels - whole)


def _hash_of(greys: _Floats) -> str:
    """greys: shape (64, 64)."""
    coefficients = _DCT @ greys @ _DCT.T
    coefficients[np.abs(coefficients) <= _ROUNDING] = 0
    bits = coefficients > np.median(coefficients)
    return np.packbits(bits.ravel()[::-1]).tobytes().hex()  # the bit of the last coefficient comes first


def as_array(hashes: Iterable[str]) -> Hashes:
    """Of hashes as hex. ValueError if one of them is none."""
    encoded = [bytes.fromhex(one) for one in hashes]
    if any(len(one) != NUM_BITS // 8 for one in encoded):
        raise ValueError(f"a PDQ hash has {NUM_BITS // 4} hex digits")
    return np.frombuffer(b"".join(encoded), np.uint64).reshape(-1, 4)


def turned(hashes: Hashes) -> Hashes:
    """The hashes of the same pictures as they are, turned by right angles, and mirrored; shape (8 * hashes, 4).

    A coefficient that changes its sign changes its bit, but for those that are near the median.
    """
    bits = np.unpackbits(hashes.view(np.uint8), axis=1)[:, ::-1].reshape(-1, _NUM_FREQUENCIES, _NUM_FREQUENCIES)
    mirrored = [
        seen ^ (_IS_ODD & is_left_right) ^ (_IS_ODD & is_upside_down)[:, None]
        for seen in (bits, bits.transpose(0, 2, 1))
        for is_left_right in (False, True)
        for is_upside_down in (False, True)
    ]
    return np.packbits(np.concatenate(mirrored).reshape(-1, NUM_BITS)[:, ::-1], axis=1).view(np.uint64)
