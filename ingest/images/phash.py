"""Perceptual hashes of pictures, and groups of pictures that are nearly the same.

The hash is the usual one of the discrete cosine transform (Zauner 2010, "Implementation and Benchmarking of Perceptual
Image Hash Functions", section 3.2.1): the picture as 32x32 greys, the 8x8 coefficients of lowest frequency, one bit for
each that is above their median. Copies that were resized or compressed again differ in few of the 64 bits; crops,
mirror images and rotations do not match.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations, combinations_with_replacement, pairwise

import numpy as np
import numpy.typing as npt

from ingest.images.pixels import Pixels

SIDE_PX = 32
NUM_FREQUENCIES = 8
NUM_BITS = NUM_FREQUENCIES**2

MAX_DISTANCE = 8
"""Largest number of differing bits of near duplicates."""

MIN_BITS_SET = 24
"""Half of the bits are set in the hash of an ordinary picture. A hash with fewer is of a plain picture, such as an
even colour or a smooth ramp, and says too little to call another picture its copy."""

ROUNDING = 1.0
"""Coefficients up to this size, in greys, come from rounding to whole greys and count as 0."""

SAMPLED_ROWS = 192
"""A higher picture is first reduced to this many rows, or less than twice as many: a hash needs no more."""

BLOCK = 512
"""Number of hashes compared with as many others at once: 2 MB, which fits into the cache of a core."""

MANY = 2**17
"""From this many hashes on, it is quicker to compare those that agree in two bands than those that agree in one."""

JOINED_AT_ONCE = 2**18
"""Near pairs that are joined at once: each time takes a pass over the groups of all hashes."""

MAX_BANDS = 16
"""With more and shorter bands, comparing all pairs is quicker."""

_GREY = np.array([0.299, 0.587, 0.114])
"""Weights of red, green and blue (ITU-R BT.601)."""

_angles = np.pi / SIDE_PX * np.outer(np.arange(NUM_FREQUENCIES), np.arange(SIDE_PX) + 0.5)
_DCT = np.cos(_angles) * np.sqrt(2 / SIDE_PX)
_DCT[0] /= np.sqrt(2)
"""The first rows of the orthonormal DCT-II."""

Hashes = npt.NDArray[np.uint64]
Indices = npt.NDArray[np.intp]
Groups = npt.NDArray[np.int64]


def phash(pixels: Pixels) -> str:
    """Return the 64-bit perceptual hash of a picture in displayed orientation, as 16 hex digits. pixels: RGB, shape
    (height, width, 3), uint8."""
    from PIL import Image

    rows = Image.fromarray(_fewer_rows(pixels))
    small = rows.resize((SIDE_PX, SIDE_PX), Image.Resampling.BILINEAR, reducing_gap=2.0)
    coefficients = _DCT @ (np.asarray(small) @ _GREY) @ _DCT.T
    coefficients[np.abs(coefficients) <= ROUNDING] = 0
    below, above = np.sort(coefficients, axis=None)[NUM_BITS // 2 - 1 : NUM_BITS // 2 + 1]
    return np.packbits(coefficients > (below + above) / 2).tobytes().hex()


def _fewer_rows(pixels: Pixels) -> Pixels:
    """Average two or four of the rows that become one, quicker than Pillow, in whole numbers, the same everywhere."""
    block = max(1, pixels.shape[0] // SAMPLED_ROWS)
    if block == 1:
        return np.ascontiguousarray(pixels)
    halvings = 1 if block < 4 else 2
    firsts = [(2 * number + 1) * block >> (halvings + 1) for number in range(2**halvings)]
    num_rows = pixels.shape[0] // block
    first, second, *more = (pixels[first::block][:num_rows] for first in firsts)
    total = np.add(first, second, dtype=np.uint16)
    for rows in more:
        total += rows
    total += halvings  # half of the rows that were added, for rounding
    total >>= halvings
    return total.astype(np.uint8)


def near_duplicate_groups(hashes: Sequence[str | None], max_distance: int = MAX_DISTANCE) -> Groups:
    """Return the group number of each picture, from 0 in the order of the first picture of each group; shape
    (len(hashes),).

    Pictures are in one group if a chain of them leads from one to the other in which neighbours differ in at most
    `max_distance` bits. Equal hashes are always in one group. Hashes of plain pictures (`MIN_BITS_SET`) are only
    compared for equality, since black, white and nearly even pictures would join groups that have nothing in common. A
    picture without a hash is a group of its own. ValueError if a text is not a hash.
    """
    known = [index for index, text in enumerate(hashes) if text is not None]
    values = np.array([_number(hashes[index] or "") for index in known], np.uint64)
    distinct, of_known = np.unique(values, return_inverse=True)
    parents = first_of_groups(distinct, max_distance)
    groups = np.arange(len(hashes)) + len(distinct)
    groups[known] = parents[of_known]
    _, first, number = np.unique(groups, return_index=True, return_inverse=True)
    ranks = np.empty(len(first), np.int64)
    ranks[np.argsort(first)] = np.arange(len(first))
    return ranks[number]


def first_of_groups(distinct: Hashes, max_distance: int = MAX_DISTANCE) -> Indices:
    """Return the index of the first hash of each hash's group, as `near_duplicate_groups` groups them; shape
    (hashes,).

    distinct: different hashes, shape (hashes,).
    """
    parents = np.arange(len(distinct))
    telling = np.flatnonzero(np.bitwise_count(distinct) >= MIN_BITS_SET)
    near, num_waiting = list[tuple[Indices, Indices]](), 0
    for ours, others in _candidates(distinct[telling], max_distance):
        mine, theirs = telling[ours], telling[others]
        if (parents[mine] != parents[mine[0]]).any() or (parents[theirs] != parents[mine[0]]).any():
            differing = np.bitwise_count(distinct[mine][:, None] ^ distinct[theirs][None, :])
            rows, columns = np.nonzero(differing <= max_distance)
            is_apart = parents[mine[rows]] != parents[theirs[columns]]
            near.append((mine[rows[is_apart]], theirs[columns[is_apart]]))
            num_waiting += len(near[-1][0])
            if num_waiting >= JOINED_AT_ONCE:
                _join_all(parents, near)
                near, num_waiting = [], 0
    _join_all(parents, near)
    return parents


def _number(text: str) -> int:
    if len(text) != NUM_BITS // 4:
        raise ValueError(f"a perceptual hash has {NUM_BITS // 4} hex digits, not {len(text)}")
    return int(text, 16)


def _candidates(hashes: Hashes, max_distance: int) -> Iterator[tuple[Indices, Indices]]:
    """Yield indices of hashes, and of others that may be near them: every near pair is in at least one block.

    Hashes that differ in at most d bits agree in at least n of d + n bands of bits, so only those that agree in n bands
    are compared.
    """
    for mask in _masks(max_distance, 2 if len(hashes) >= MANY else 1):
        band = hashes & mask
        order = np.argsort(band, kind="stable")
        ends = np.flatnonzero(np.diff(band[order])) + 1
        for members in np.split(order, ends):
            blocks = [members[first : first + BLOCK] for first in range(0, len(members), BLOCK)]
            yield from combinations_with_replacement(blocks, 2)


def _masks(max_distance: int, num_agreeing: int) -> list[np.uint64]:
    """Return the bits of each choice of `num_agreeing` bands; no bits where comparing all pairs is quicker."""
    num_bands = max_distance + num_agreeing
    if num_bands > MAX_BANDS:
        return [np.uint64(0)]
    edges = np.linspace(0, NUM_BITS, num_bands + 1).astype(int).tolist()
    bands = [(1 << high) - (1 << low) for low, high in pairwise(edges)]
    return [np.uint64(sum(chosen)) for chosen in combinations(bands, num_agreeing)]


def _join_all(parents: Indices, pairs: Sequence[tuple[Indices, Indices]]) -> None:
    if pairs:
        join(parents, np.concatenate([ours for ours, _ in pairs]), np.concatenate([others for _, others in pairs]))


def join(parents: Indices, ours: Indices, others: Indices) -> None:
    """Join the groups of each pair, in place; `parents` gives the first member of the group of each hash."""
    while True:
        low = np.minimum(parents[ours], parents[others])
        high = np.maximum(parents[ours], parents[others])
        apart = low != high
        if not apart.any():
            return
        np.minimum.at(parents, high[apart], low[apart])
        while (parents[parents] != parents).any():
            parents[:] = parents[parents]
