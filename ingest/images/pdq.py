"""PDQ hashes of pictures: 256 bits that change little if a picture is encoded again, made smaller or brighter.

PDQ filters a picture down to 64 x 64 greys and takes the 16 x 16 coefficients of lowest frequency, but for the constant
one, of the discrete cosine transform. A bit says whether a coefficient is above their median. `pdq_hashes` gives the
bits that the authors' program finds in all pixels, from fewer of them. Source: "The TMK+PDQF Video-Hashing Algorithm
and the PDQ Image-Hashing Algorithm" (Facebook, 2019), and its program in C++ (pdq/cpp in facebook/ThreatExchange).

`PdqSearch` finds the hashes near those of a list. Hashes that differ in at most 31 of 256 bits differ in at most one
bit of at least one of 16 bands of 16 bits, so only pairs that agree in a band but for one bit are compared. Source:
Norouzi, Punjani and Fleet, "Fast Search in Hamming Space with Multi-Index Hashing" (CVPR 2012).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ingest.images.phash import join
from ingest.images.pixels import Pixels

Hashes = npt.NDArray[np.uint64]
"""Shape (number of hashes, 4)."""

NUM_BITS = 256

NUM_HASHES = 5
"""Number of hashes of one picture, in the text that `pdq_of` returns."""

MAX_DISTANCE = 31
"""Bits in which two hashes of the same picture may differ, as PDQ's authors recommend."""

MIN_BITS_SET = 96
"""A hash with fewer bits is of a plain picture; half are set in that of another (`ingest.images.phash`)."""

_SIDE = 64
_NUM_FREQUENCIES = 16
_ENOUGH_PX = 512
"""A side of at least twice this is averaged first. On the demo corpus, the hash of such a picture then differs from
that of all pixels in 1 bit on average, and in 4 at most."""

_MAX_ROWS_AT_ONCE = 257
"""Most rows averaged at once: the sum of this many pixels fits into 16 bits."""

_LARGE_PX = 8192
"""From this side length on, PDQ's filters of whole pixels are as good as exact ones."""

_ROUNDING = 1e-3
"""Coefficients up to this size, in greys, are errors of rounding and count as 0: an even picture has no bit set."""

_GREY = np.array([0.299, 0.587, 0.114], np.float32)
"""Weights of red, green and blue."""

_frequencies = np.arange(1, _NUM_FREQUENCIES + 1)
_DCT = np.sqrt(2 / _SIDE) * np.cos(np.pi / (2 * _SIDE) * np.outer(_frequencies, 2 * np.arange(_SIDE) + 1))
_IS_ODD = _frequencies % 2 == 1
"""Frequencies whose coefficient changes its sign if the picture is mirrored."""

_Floats = npt.NDArray[np.float32]
_Doubles = npt.NDArray[np.float64]
_Indices = npt.NDArray[np.intp]


def pdq_of(pixels: Pixels, size: tuple[int, int]) -> str:
    """Return the hashes of a picture as one text of 320 hex digits, 64 each: those that PDQ gives for the picture at
    `size`, for the same mirrored, upside down, and both; and the one that it would give at a very large size.

    pixels: RGB, shape (height, width, 3), uint8. size: width and height in pixels before the picture was downscaled.

    PDQ's filters are whole pixels wide, which shifts the samples of a small picture to one side. So the hash of a copy
    with 256 pixels often differs in more than 31 bits from that of the original, and that of a mirrored copy from the
    one computed here. The last hash has no such shift, so that it matches one made of a large original.
    """
    rows_at_once, columns_at_once = (min(max(1, side // _ENOUGH_PX), _MAX_ROWS_AT_ONCE) for side in pixels.shape[:2])
    grey = _mean_greys(pixels, rows_at_once, columns_at_once)
    by_rows = _sampling(size[1], pixels.shape[0], rows_at_once).samples(grey)
    sampled = _sampling(size[0], pixels.shape[1], columns_at_once).samples(np.ascontiguousarray(by_rows.T)).T
    plain, mirrored, exact = (slice(first, first + _SIDE) for first in range(0, 3 * _SIDE, _SIDE))
    seen = ((plain, plain), (plain, mirrored), (mirrored, plain), (mirrored, mirrored), (exact, exact))
    return "".join(_hash_of(sampled[rows, columns]) for rows, columns in seen)


def _mean_greys(pixels: Pixels, rows_at_once: int, columns_at_once: int) -> _Floats:
    """Return the mean grey of each block of pixels; rows and columns that fill no block are left out."""
    num_rows, num_columns = pixels.shape[0] // rows_at_once, pixels.shape[1] // columns_at_once
    blocks = pixels[: num_rows * rows_at_once].reshape(num_rows, rows_at_once, -1)
    sums = blocks.sum(axis=1, dtype=np.uint16) if rows_at_once > 1 else blocks[:, 0]
    colours = sums.reshape(num_rows, -1, 3)[:, : num_columns * columns_at_once]
    greys, weighted = np.zeros((num_rows, num_columns), np.float32), np.empty((num_rows, num_columns), np.float32)
    for first in range(columns_at_once):
        for colour, weight in enumerate(_GREY / (rows_at_once * columns_at_once)):
            greys += np.multiply(colours[:, first::columns_at_once, colour], weight, out=weighted)
    return greys


@dataclass(frozen=True)
class _Sampling:
    """Which blocks of pixels along a side make up samples of it, and how much each of them counts."""

    blocks: _Indices
    """Shape (samples, most blocks of a sample)."""

    weights: _Floats
    """Shape as `blocks`."""

    def samples(self, values: _Floats) -> _Floats:
        """Return the samples of each column of `values`. A matrix product would use all cores, which engines need."""
        sums = np.zeros((len(self.blocks), values.shape[1]), np.float32)
        for blocks, weights in zip(self.blocks.T, self.weights.T, strict=True):
            sums += values[blocks] * weights[:, None]
        return sums


@lru_cache(256)
def _sampling(size: int, num_pixels: int, num_at_once: int) -> _Sampling:
    """Return the sampling of a side of `size` pixels, downscaled to `num_pixels`, averaged `num_at_once`.

    64 samples as PDQ takes them, 64 that it takes where the side is turned round, and 64 of a very large side.
    """
    num_blocks = num_pixels // num_at_once
    edges = np.append(np.arange(num_blocks) * num_at_once, num_pixels) * (size / num_pixels)
    exact = _ExactSamples(size)
    samples = exact if size >= _LARGE_PX else _OwnSamples.of(size)
    parts = [_blocks(edges, samples), _blocks((size - edges)[::-1], samples), _blocks(edges, exact)]
    parts[1] = num_blocks - 1 - parts[1][0], parts[1][1]
    most = max(blocks.shape[1] for blocks, _ in parts)
    padded = [[np.pad(array, ((0, 0), (0, most - array.shape[1]))) for array in part] for part in parts]
    blocks, weights = (np.concatenate(arrays) for arrays in zip(*padded, strict=True))
    return _Sampling(blocks, weights.astype(np.float32))


def _blocks(edges: _Doubles, samples: "_ExactSamples | _OwnSamples") -> tuple[_Indices, _Doubles]:
    """Return the blocks that each of 64 samples takes, and how much of each; both of shape (64, most blocks).

    edges: of the blocks, in pixels.
    """
    begin = np.maximum(np.searchsorted(edges, samples.first, "right") - 1, 0)
    end = np.searchsorted(edges, samples.last)
    indices = begin[:, None] + np.arange(int((end - begin).max()) + 1)
    shares = np.diff(samples.before(edges[np.minimum(indices, len(edges) - 1)]))
    return np.minimum(indices[:, :-1], len(edges) - 2), shares


@dataclass(frozen=True)
class _ExactSamples:
    """The weights that PDQ's two box filters and its decimation give to a side, for each of the 64 samples.

    Two box filters after each other make a tent.
    """

    size: int
    """Length of the side in pixels."""

    @property
    def first(self) -> _Doubles:
        """Where each sample begins, in pixels; shape (64,)."""
        return np.asarray(np.arange(_SIDE) * self.size / _SIDE, np.float64)

    @property
    def last(self) -> _Doubles:
        return np.asarray(np.arange(1, _SIDE + 1) * self.size / _SIDE, np.float64)

    def before(self, borders: _Doubles) -> _Doubles:
        """Return how much of each sample is before the borders of its row, in pixels; shape as `borders`, (64, any)."""
        inside = np.clip((borders - self.first[:, None]) * (_SIDE / self.size), 0, 1)
        return np.where(inside < 0.5, 2 * inside**2, 1 - 2 * (1 - inside) ** 2)


@dataclass(frozen=True)
class _OwnSamples:
    """The same as `_ExactSamples`, but in whole pixels, as in the authors' program."""

    first: _Indices
    """The first pixel that a sample may take, which may be before the picture; shape (64,)."""

    until: _Doubles
    """How much of a sample is before each pixel from there on; shape (64, pixels of a sample + 1)."""

    @property
    def last(self) -> _Indices:
        """Index after the last pixel that a sample may take; shape (64,)."""
        return np.asarray(self.first + self.until.shape[1] - 1)

    @staticmethod
    def of(size: int) -> "_OwnSamples":
        # The authors' `fullWindowSize` and `halfWindowSize`: a mean is over the pixels from num_before before it to
        # num_behind behind it, as far as they are in the picture.
        full_window = -(-size // (2 * _SIDE))
        half_window = (full_window + 2) // 2
        num_before, num_behind = full_window - half_window, half_window - 1
        samples = ((np.arange(_SIDE) + 0.5) * size / _SIDE).astype(np.intp)
        # The second filter takes a mean, around each sample, of means of the first filter; these are their middles.
        middles = samples[:, None] + np.arange(-num_before, num_behind + 1)
        is_inside = (middles >= 0) & (middles < size)
        starts, ends = np.maximum(middles - num_before, 0), np.minimum(middles + num_behind, size - 1) + 1
        shares = is_inside / (is_inside.sum(axis=1, keepdims=True) * np.maximum(ends - starts, 1))
        # A mean adds its share to the weight of each of its pixels: a step up at its start, a step down at its end.
        first = samples - 2 * num_before
        steps, rows, last = np.zeros((_SIDE, 2 * full_window)), np.arange(_SIDE)[:, None], 2 * full_window - 1
        np.add.at(steps, (rows, np.clip(starts - first[:, None], 0, last)), shares)
        np.add.at(steps, (rows, np.clip(ends - first[:, None], 0, last)), -shares)
        weights = np.cumsum(steps, axis=1)[:, :-1]
        return _OwnSamples(first, np.pad(np.cumsum(weights, axis=1), ((0, 0), (1, 0))))

    def before(self, borders: _Doubles) -> _Doubles:
        num_pixels = self.until.shape[1] - 1
        pixels = np.clip(borders - self.first[:, None], 0, num_pixels)
        whole = np.minimum(pixels.astype(np.intp), num_pixels - 1)
        left, right = (np.take_along_axis(self.until, whole + more, axis=1) for more in (0, 1))
        return np.asarray(left + (right - left) * (pixels - whole))


def _hash_of(greys: _Floats) -> str:
    """Hash 64 x 64 greys, shape (64, 64)."""
    coefficients = _DCT @ greys @ _DCT.T
    coefficients[np.abs(coefficients) <= _ROUNDING] = 0
    bits = coefficients > np.median(coefficients)
    return np.packbits(bits.ravel()[::-1]).tobytes().hex()  # the bit of the last coefficient comes first


def hashes_of(texts: Iterable[str], num_hashes: int = 1) -> npt.NDArray[np.uint64]:
    """Parse hashes for `PdqSearch`; shape (texts, num_hashes, 4). num_hashes: in each text.

    ValueError if a text is not such hashes.
    """
    encoded = [bytes.fromhex(text) for text in texts]
    if any(len(text_bytes) != num_hashes * NUM_BITS // 8 for text_bytes in encoded):
        raise ValueError(f"PDQ hashes have {NUM_BITS // 4} hex digits each")
    return np.frombuffer(b"".join(encoded), np.uint64).reshape(-1, num_hashes, 4)


def turned(hashes: Hashes, is_mirrored: bool) -> Hashes:
    """Return each hash and that of the transposed picture, whose rows are the columns: shape (2 * hashes, 4).

    is_mirrored: return both also mirrored, upside down, and turned by 180°: shape (8 * hashes, 4). A coefficient that
    changes its sign changes its bit; this misses the few that are near the median.
    """
    made = np.empty((8 if is_mirrored else 2, len(hashes), 4), np.uint64)
    for first in range(0, len(hashes), _TURNED_AT_ONCE):
        part = slice(first, first + _TURNED_AT_ONCE)
        made[:, part] = _turned(hashes[part], is_mirrored)
    return made.reshape(-1, 4)


def _turned(hashes: Hashes, is_mirrored: bool) -> npt.NDArray[np.uint64]:
    """Return the hashes of each way; shape (8 or 2, hashes, 4)."""
    bits = np.unpackbits(hashes.view(np.uint8), axis=1)[:, ::-1].reshape(-1, _NUM_FREQUENCIES, _NUM_FREQUENCIES)
    ways = (False, True) if is_mirrored else (False,)
    seen = [
        orientation_bits ^ (_IS_ODD & is_left_right) ^ (_IS_ODD & is_upside_down)[:, None]
        for orientation_bits in (bits, bits.transpose(0, 2, 1))
        for is_left_right in ways
        for is_upside_down in ways
    ]
    packed = np.packbits(np.concatenate(seen).reshape(-1, NUM_BITS)[:, ::-1], axis=1)
    return packed.view(np.uint64).reshape(len(seen), -1, 4)


_NUM_BANDS, _BAND_BITS = 16, 16
assert MAX_DISTANCE < 2 * _NUM_BANDS

_DIFFERENCES = np.append(0, 1 << np.arange(_BAND_BITS)).astype(np.uint16)
"""Differences of no bit or one bit of a band."""

_TURNED_AT_ONCE = 2**14
"""Hashes whose bits are in memory at once: 256 bytes for each hash and way."""

_COMPARED_AT_ONCE = 2**20
"""Pairs of hashes compared at once, on average: this many take 50 MB."""

_SHARE_COMPARED = len(_DIFFERENCES) / 2**_BAND_BITS
"""Share of all pairs that agree so in one band, if the bits are even."""

_Values = npt.NDArray[np.uint16]


class PdqSearch:
    """A list of PDQ hashes that is searched for hashes of the same pictures, turned or mirrored ones too."""

    def __init__(self, listed: Hashes):
        self._own = _Index(turned(listed, is_mirrored=False))
        self._exact = _Index(turned(listed, is_mirrored=True))

    def near(self, pictures: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        """Return whether a hash of each picture differs in at most 31 bits from one of the list; shape (pictures,).

        pictures: the hashes of `pdq_of`, shape (pictures, NUM_HASHES, 4).
        """
        is_near = self._own.near(pictures[:, :-1].reshape(-1, 4)).reshape(len(pictures), NUM_HASHES - 1).any(axis=1)
        return np.asarray(is_near | self._exact.near(pictures[:, -1]))


class _Index:
    def __init__(self, listed: Hashes):
        self._words = np.ascontiguousarray(listed.T)
        self._bands = [_Band(values) for values in _bands(listed)]
        most = _COMPARED_AT_ONCE / max(1.0, len(listed) * _SHARE_COMPARED)
        self._num_at_once = max(64, min(int(most), 2**14))

    def near(self, hashes: Hashes) -> npt.NDArray[np.bool_]:
        """Return whether each hash differs in at most 31 bits from one of the list; shape (hashes,)."""
        is_near = np.zeros(len(hashes), np.bool_)
        for asked, _ in self.near_pairs(hashes):
            is_near[asked] = True
        return is_near

    def near_pairs(self, hashes: Hashes) -> Iterator[tuple[_Indices, _Indices]]:
        """Yield indices of hashes and of those of the list that differ from them in at most 31 bits. A pair may come
        more than once."""
        for first in range(0, len(hashes), self._num_at_once):
            part = hashes[first : first + self._num_at_once]
            words = np.ascontiguousarray(part.T)
            for band, values in zip(self._bands, _bands(part), strict=True):
                asked, listed = band.pairs(values)
                differing = self._differing(words, asked, listed, (0, 1))  # settles almost every pair
                near = np.flatnonzero(differing <= MAX_DISTANCE)
                asked, listed = asked[near], listed[near]
                differing = differing[near] + self._differing(words, asked, listed, (2, 3))
                is_near = differing <= MAX_DISTANCE
                yield first + asked[is_near], listed[is_near]

    def _differing(
        self, words: Hashes, asked: _Indices, listed: _Indices, which: tuple[int, int]
    ) -> npt.NDArray[np.uint8]:
        """Count the bits in which pairs differ in two of their four words; shape (pairs,). words: shape (4, hashes)."""
        first, second = (np.bitwise_count(words[n][asked] ^ self._words[n][listed]) for n in which)
        return np.asarray(first + second)


class _Band:
    """The hashes of a list by the value of one band."""

    def __init__(self, values: _Values):
        self._order = np.argsort(values, kind="stable").astype(np.int32)
        self._starts = np.zeros(2**_BAND_BITS + 1, np.intp)
        np.cumsum(np.bincount(values, minlength=2**_BAND_BITS), out=self._starts[1:])

    def pairs(self, values: _Values) -> tuple[_Indices, _Indices]:
        """Return indices in `values` and in the list of every pair that differs in one bit at most."""
        wanted = (values[:, None] ^ _DIFFERENCES).ravel().astype(np.intp)
        starts = self._starts[wanted]
        counts = self._starts[wanted + 1] - starts
        met = np.flatnonzero(counts)
        starts, counts = starts[met], counts[met]
        ends = np.cumsum(counts)
        listed = np.repeat(starts - ends + counts, counts) + np.arange(counts.sum())
        return np.repeat(met // len(_DIFFERENCES), counts), self._order[listed].astype(np.intp)


def _bands(hashes: Hashes) -> _Values:
    """Return the values of the bands; shape (bands, hashes)."""
    return np.ascontiguousarray(np.ascontiguousarray(hashes).view(np.uint16).T)


def first_of_groups(pictures: npt.NDArray[np.uint64]) -> _Indices:
    """Return the index of the first picture of each picture's group; shape (pictures,).

    Pictures are in one group if a chain of near ones leads from one to the other: they differ in at most 31 bits, as
    they are, turned or mirrored. Hashes of plain pictures, with few bits set, are only near if they are equal.

    pictures: as in `PdqSearch.near`.
    """
    parents = np.arange(len(pictures))
    telling = np.flatnonzero(np.bitwise_count(pictures[:, 0]).sum(axis=1, dtype=np.uint16) >= MIN_BITS_SET)
    index = _Index(turned(pictures[telling, 0], is_mirrored=False))
    for number in range(NUM_HASHES - 1):
        for asked, listed in index.near_pairs(pictures[telling, number]):
            join(parents, telling[asked], telling[listed % len(telling)])
    return parents


def distances(listed: Hashes, pictures: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint16]:
    """Return in how many bits each picture differs from each hash of a list, as it is or turned or mirrored, whatever
    is nearest; shape (pictures, hashes). Every pair is compared, so this is for short lists.

    pictures: as in `PdqSearch.near`.
    """
    nearest = np.full((len(pictures), len(listed)), NUM_BITS, np.uint16)
    for number in range(NUM_HASHES):
        hashes = pictures[:, number, None]
        for way in turned(listed, is_mirrored=number == NUM_HASHES - 1).reshape(-1, len(listed), 4):
            np.minimum(nearest, np.bitwise_count(hashes ^ way).sum(axis=2, dtype=np.uint16), out=nearest)
    return nearest
