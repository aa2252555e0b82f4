"""Content of a picture that its view hides: colour or shape under transparency, steps of a wide scale, and a pattern in
equal colours of a palette.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
from PIL import Image

from ingest.images.files.copies import Pixels

Plane = npt.NDArray[np.uint8]
"""Shape (height, width), dtype uint8."""

_BLOCK_PX = 16
_MIN_BLOCKS = 2
_MIN_DEVIATION = 6
"""Deviation at which a block has structure: about that of faint writing."""
_MIN_CORRELATION = 0.25
_MIN_SLOPE = 0.1
"""Share of the contrast that a view must keep: below it, writing becomes as faint as grey 229 on white."""

_TILE_PX = 2**20
_MAX_SAMPLES = 2**22
_MAX_STEPS = 256
_VALUES = np.arange(256)


def tiles(shape: Sequence[int]) -> Iterator[tuple[slice, slice]]:
    """Yield rows and columns of parts of a plane, each of whole blocks: copies of a part take little memory. shape:
    height and width."""
    across = min(max(1, shape[1]), _TILE_PX // _BLOCK_PX)
    down = _TILE_PX // across // _BLOCK_PX * _BLOCK_PX
    for top in range(0, shape[0], down):
        for left in range(0, shape[1], across):
            yield slice(top, min(top + down, shape[0])), slice(left, min(left + across, shape[1]))


def tiles_of(image: Image.Image) -> Iterator[tuple[slice, slice, Image.Image]]:
    """Yield rows and columns of parts of a picture, and each part."""
    for rows, columns in tiles((image.height, image.width)):
        yield rows, columns, image.crop((columns.start, rows.start, columns.stop, rows.stop))


def has_structure(colour: Pixels, opacity: Plane) -> bool:
    """Return whether the colours under transparency are more than one flat fill, such as encoders often leave there."""
    counts = np.zeros((3, 256), np.int64)
    for tile in tiles(opacity.shape):
        under = colour[tile][opacity[tile] < 128]
        counts += [np.bincount(channel, minlength=256) for channel in under.T]
    num_covered = int(counts[0].sum())
    if num_covered == opacity.size:
        means = counts @ _VALUES / num_covered
        return int(np.sqrt(np.maximum(counts @ _VALUES**2 / num_covered - means**2, 0)).max()) > 3
    if num_covered < 1e-4 * opacity.size:
        return False
    around_middle = (num_covered + 1) // 2, num_covered // 2 + 1
    fill = np.array([np.searchsorted(sums, around_middle).mean() for sums in counts.cumsum(axis=1)])  # the median
    num_other = num_edges = num_contrasts = 0
    for tile in tiles(opacity.shape):
        values, covered = colour[tile].astype(np.int16), opacity[tile] < 128
        num_other += int((np.abs(values[covered] - fill).max(axis=1) > 24).sum())
        # One hidden colour can still be writing: then it is scattered among pixels of another colour.
        shares_edge = covered[:, 1:] != covered[:, :-1]
        contrast = np.abs(values[:, 1:] - values[:, :-1]).max(axis=2) > 24
        num_edges += int(shares_edge.sum())
        num_contrasts += int((contrast & shares_edge).sum())
    return num_other > 1e-3 * num_covered or num_contrasts > 0.5 * num_edges


def shows_more(plane: Plane, views: Sequence[Pixels]) -> bool:
    """Return whether any part of the plane has structure that no view follows."""
    num_new = 0
    for tile in tiles(plane.shape):
        num_new += _num_new_blocks(plane[tile], [view[tile] for view in views])
    return num_new >= _MIN_BLOCKS


def _num_new_blocks(plane: Plane, views: Sequence[Pixels]) -> int:
    values = plane.astype(np.float32)
    mean = _block_means(values)
    variance = _block_means(values * values) - mean * mean
    is_new = variance > _MIN_DEVIATION**2
    if not is_new.any():
        return 0
    variance = np.maximum(variance, 1)
    for view in views:
        for channel in range(3):
            shown = view[:, :, channel].astype(np.float32)
            shown_mean = _block_means(shown)
            shown_variance = np.maximum(_block_means(shown * shown) - shown_mean * shown_mean, 1)
            common = np.abs(_block_means(values * shown) - mean * shown_mean)
            follows = common > _MIN_CORRELATION * np.sqrt(variance * shown_variance)
            is_new &= ~(follows & (common > _MIN_SLOPE * variance))
    return int(is_new.sum())


def _block_means(values: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    starts = [np.arange(0, side, _BLOCK_PX) for side in values.shape]
    rows = np.add.reduceat(values, starts[0], axis=0, dtype=np.float64)
    sums = np.add.reduceat(rows, starts[1], axis=1)
    heights, widths = (np.diff(np.append(first, side)) for first, side in zip(starts, values.shape, strict=True))
    return np.asarray(sums / np.outer(heights, widths))


def steps_of(image: Image.Image) -> npt.NDArray[np.float32]:
    """Return distinct values of a picture, sorted, so that neither a flat ground nor one extreme pixel dominates."""
    every = max(1, image.width * image.height // _MAX_SAMPLES)
    sampled = []
    for _, _, tile in tiles_of(image):
        values = np.asarray(tile).reshape(-1)[::every].astype(np.float32)
        sampled.append(np.unique(values[np.isfinite(values)]))
    distinct = np.unique(np.concatenate(sampled))
    chosen = np.unique(np.linspace(0, max(0, len(distinct) - 1), _MAX_STEPS).round().astype(int))
    return distinct[chosen] if len(distinct) else np.zeros(1, np.float32)


def has_pattern(indices: Image.Image, colours: npt.NDArray[np.uint8]) -> bool:
    """Return whether pixels of equal colours differ in their index, and show something by that. indices: of mode P.
    colours: shape (256, channels), of each index."""
    used = np.flatnonzero(indices.histogram())
    _, colour, counts = np.unique(colours[used], axis=0, return_inverse=True, return_counts=True)
    if counts.max() == 1:
        return False
    shades = np.zeros(256, np.uint8)
    for number in np.flatnonzero(counts > 1):
        same = used[colour.reshape(-1) == number]
        shades[same] = np.linspace(0, 255, len(same))
    return shows_more(np.asarray(indices.point(shades.tolist(), "L")), [])


def has_pattern_in_palette(image: Image.Image) -> bool:
    """Return the same of a picture with a palette; False of any other."""
    if image.mode != "P":
        return False
    palette = np.array(image.getpalette("RGB") or [], np.uint8).reshape(-1, 3)[:256]
    colours, transparency = np.zeros((256, 4), np.uint8), image.info.get("transparency")
    colours[: len(palette), :3] = palette
    if isinstance(transparency, bytes):
        colours[:, 3] = np.frombuffer(transparency.ljust(256, b"\xff")[:256], np.uint8)
    elif isinstance(transparency, int):
        colours[transparency, 3] = 1
    return has_pattern(image, colours)
