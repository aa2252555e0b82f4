"""Search for PDQ hashes that are near a hash of a list.

Hashes that differ in at most 31 of 256 bits differ in at most one bit of at least one of 16 bands of 16 bits. So only
those pairs are compared that agree in a band but for one bit. Source: Norouzi, Punjani and Fleet, "Fast Search in
Hamming Space with Multi-Index Hashing" (CVPR 2012).
"""

import numpy as np
import numpy.typing as npt

from ingest.images.pdq import MAX_DISTANCE, NUM_BITS, NUM_HASHES, Hashes, turned

_NUM_BANDS, _BAND_BITS = 16, 16
assert MAX_DISTANCE < 2 * _NUM_BANDS

_DIFFERENCES = np.append(0, 1 << np.arange(_BAND_BITS)).astype(np.uint16)
"""Differences of no bit or one bit of a band."""

_COMPARED_AT_ONCE = 2**20
"""Pairs of hashes compared at once, on average: this many take 50 MB."""

_SHARE_COMPARED = len(_DIFFERENCES) / 2**_BAND_BITS
"""Share of all pairs that agree so in one band, if the bits are even."""

_Values = npt.NDArray[np.uint16]
_Indices = npt.NDArray[np.intp]


class PdqSearch:
    """A list of PDQ hashes that is searched for hashes of the same pictures, turned or mirrored ones too."""

    def __init__(self, listed: Hashes):
        self._own = _Index(turned(listed, is_mirrored=False))
        self._exact = _Index(turned(listed, is_mirrored=True))

    def near(self, pictures: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        """Return whether a hash of each picture differs in at most 31 bits from one of the list; shape (pictures,).

        pictures: the hashes of `pdq_of`, shape (pictures, NUM_HASHES, 4).
        """
        own = self._own.near(pictures[:, :-1].reshape(-1, 4)).reshape(len(pictures), NUM_HASHES - 1).any(axis=1)
        return np.asarray(own | self._exact.near(pictures[:, -1]))


class _Index:
    def __init__(self, listed: Hashes):
        self._words = np.ascontiguousarray(listed.T)
        self._bands = [_Band(values) for values in _bands(listed)]
        most = _COMPARED_AT_ONCE / max(1.0, len(listed) * _SHARE_COMPARED)
        self._num_at_once = max(64, min(int(most), 2**14))

    def near(self, hashes: Hashes) -> npt.NDArray[np.bool_]:
        """Return whether each hash differs in at most 31 bits from one of the list; shape (hashes,)."""
        is_near = np.zeros(len(hashes), np.bool_)
        for first in range(0, len(hashes), self._num_at_once):
            part = hashes[first : first + self._num_at_once]
            words = np.ascontiguousarray(part.T)
            for band, values in zip(self._bands, _bands(part), strict=True):
                asked, listed = band.pairs(values)
                differing = self._differing(words, asked, listed, (0, 1))  # settles almost every pair
                left = np.flatnonzero(differing <= MAX_DISTANCE)
                asked, listed = asked[left], listed[left]
                differing = differing[left] + self._differing(words, asked, listed, (2, 3))
                is_near[first + asked[differing <= MAX_DISTANCE]] = True
        return is_near

    def _differing(
        self, words: Hashes, asked: _Indices, listed: _Indices, which: tuple[int, int]
    ) -> npt.NDArray[np.uint8]:
        """Count the bits in which pairs differ in two of their four words; shape (pairs,). words: shape (4, hashes)."""
        first, second = (np.bitwise_count(words[n][asked] ^ self._words[n][listed]) for n in which)
        return np.asarray(first + second)


class _Band:
    """The hashes of a list by the value of one band."""

    def __init__(self, values: _Values):
        self._order = np.argsort(values, kind="stable")
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
        return np.repeat(met // len(_DIFFERENCES), counts), self._order[listed]


def _bands(hashes: Hashes) -> _Values:
    """Return the values of the bands; shape (bands, hashes)."""
    return np.ascontiguousarray(np.ascontiguousarray(hashes).view(np.uint16).T)


def distances(listed: Hashes, pictures: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint16]:
    """Return in how many bits each picture differs from each hash of a list, as it is or turned or mirrored, whatever
    is nearest; shape (pictures, hashes). Every pair is compared, so this is for short lists.

    pictures: as of `PdqSearch.near`.
    """
    nearest = np.full((len(pictures), len(listed)), NUM_BITS, np.uint16)
    for number in range(NUM_HASHES):
        own = pictures[:, number, None]
        for way in turned(listed, is_mirrored=number == NUM_HASHES - 1).reshape(-1, len(listed), 4):
            np.minimum(nearest, np.bitwise_count(own ^ way).sum(axis=2, dtype=np.uint16), out=nearest)
    return nearest
