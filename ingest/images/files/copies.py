"""Whether a picture is only a smaller copy of what was scanned, such as the thumbnail that a camera makes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageFilter

Pixels = npt.NDArray[np.uint8]
"""RGB, shape (height, width, 3), dtype uint8."""
Box = tuple[float, float, float, float]
"""left, upper, right, lower, as shares of a picture, 0–1."""

_COMPARED_SIDE_PX = 512
_COARSE_SIDE_PX = 16
_COARSE_TOLERANCE = 40
_TOLERANCE = 28
_BLUR = ImageFilter.BoxBlur(2)
_BLOCK_PX = 8
_MAX_DIFFERENT = 0.2
"""Share of the pixels of one block that may differ by more than the tolerance, of 255."""
_MAX_MEAN_DIFFERENCE = 4.5
"""Allowed mean difference of a block, of 255, added to `_CONTRAST_SHARE` of its contrast: programs differ."""
_CONTRAST_SHARE = 0.2
_CONTRAST_REACH_PX = 3
"""The contrast at a pixel is that of the square which reaches this far from it."""
_BORDER_PX = 3
_ROUNDING_PX = 1.5
_ROUNDING = 1.03
_WHOLE: Box = (0, 0, 1, 1)
_QUARTER_TURNS = frozenset(
    [Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_270, Image.Transpose.TRANSPOSE, Image.Transpose.TRANSVERSE]
)


@dataclass(frozen=True)
class Scanned:
    """The views of an image that an engine sees."""

    views: Sequence[Pixels]
    width: int
    height: int
    """Pixels of the first frame as displayed, before the views were downscaled."""

    @cached_property
    def _small_views(self) -> list[Image.Image]:
        return [_small(Image.fromarray(view)) for view in self.views]

    def is_larger_than(self, size: tuple[int, int]) -> bool:
        """Return whether the image is at least as large as another one, allowing for rounding and rotation."""
        sides, other = sorted((self.width, self.height)), sorted(size)
        return all(b <= a * _ROUNDING + 2 * _ROUNDING_PX for a, b in zip(sides, other, strict=True))

    def holds(self, picture: Image.Image) -> bool:
        """Return whether the picture is one of the views, perhaps turned, with bars, or cropped, and shows nothing
        else.

        A picture as large as the scanned one is not a thumbnail and must have the same pixels.
        """
        size = picture.size
        if size[0] * size[1] >= self.width * self.height:
            return any(np.array_equal(np.asarray(picture.convert("RGB")), view) for view in self.views)
        # Compare at low resolution: the picture may be turned in eight ways, and each part is compared with each view.
        picture.draft("RGB", (_COMPARED_SIDE_PX, _COMPARED_SIDE_PX))
        small = _small(picture.convert("RGB"))
        for transposition in (None, *Image.Transpose):
            turned = small if transposition is None else small.transpose(transposition)
            width, height = size[::-1] if transposition in _QUARTER_TURNS else size
            for inner, shown in self._fits(width, height):
                if _has_plain_bars(turned, inner) and any(_is_same(turned, inner, v, shown) for v in self._small_views):
                    return True
        return False

    def _fits(self, width: int, height: int) -> Iterator[tuple[Box, Box]]:
        """Yield parts of a picture of this size, and of the views, that may show the same without more detail."""
        scale = max(width / self.width, height / self.height)
        if abs(width - self.width * scale) <= _ROUNDING_PX and abs(height - self.height * scale) <= _ROUNDING_PX:
            candidates = [(_WHOLE, _WHOLE)]
        else:
            inner = min(width / self.width, height / self.height)
            candidates = [
                _in_bars(self.width * inner / width, self.height * inner / height, width, height),
                (_WHOLE, _middle(width / scale / self.width, height / scale / self.height)),
            ]
        for inside, shown in candidates:
            is_larger = (inside[2] - inside[0]) * width > (shown[2] - shown[0]) * self.width * _ROUNDING + _ROUNDING_PX
            if not is_larger:
                yield inside, shown


def _in_bars(share_x: float, share_y: float, width: int, height: int) -> tuple[Box, Box]:
    """Return the part between bars, and its part of the view, less some pixels into which the bars' colour runs."""
    less_x = _BORDER_PX / width if share_x < 1 else 0
    less_y = _BORDER_PX / height if share_y < 1 else 0
    inner = max(share_x - 2 * less_x, 1 / width), max(share_y - 2 * less_y, 1 / height)
    return _middle(*inner), _middle(inner[0] / share_x, inner[1] / share_y)


def _middle(width: float, height: float) -> Box:
    return (1 - width) / 2, (1 - height) / 2, (1 + width) / 2, (1 + height) / 2


def _small(image: Image.Image) -> Image.Image:
    copy = image.copy()
    copy.thumbnail((_COMPARED_SIDE_PX, _COMPARED_SIDE_PX), Image.Resampling.BOX, reducing_gap=2.0)
    return copy


def _has_plain_bars(picture: Image.Image, inner: Box) -> bool:
    """Return whether everything outside the inner part, except for some pixels at its border, is plain."""
    left, upper, right, lower = (round(part * side) for part, side in zip(inner, picture.size * 2, strict=True))
    width, height = picture.size
    above, below = (0, 0, width, upper - 2 * _BORDER_PX), (0, lower + 2 * _BORDER_PX, width, height)
    before, behind = (0, 0, left - 2 * _BORDER_PX, height), (right + 2 * _BORDER_PX, 0, width, height)
    for bar in (above, below, before, behind):
        if bar[2] > bar[0] and bar[3] > bar[1]:
            values = np.asarray(picture.crop(bar))
            if int(values.max()) - int(values.min()) > 2 * _TOLERANCE:
                return False
    return True


def _is_same(picture: Image.Image, inner: Box, view: Image.Image, shown: Box) -> bool:
    first, second = (_part(image, box) for image, box in ((picture, inner), (view, shown)))
    # A coarse comparison first: it rejects almost every other picture before the costly one below.
    coarse = [np.asarray(_resized(part, (_COARSE_SIDE_PX, _COARSE_SIDE_PX)), np.int16) for part in (first, second)]
    if np.abs(coarse[0] - coarse[1]).mean() > _COARSE_TOLERANCE:
        return False
    size = min(first.width, second.width), min(first.height, second.height)
    seen, other = _resized(first, size), _resized(second, size)
    values, around = np.asarray(seen, np.int16), np.asarray(other, np.int16)
    lowest, highest = _nearby(np.minimum, around), _nearby(np.maximum, around)
    # Thumbnails are often sharpened, which shows where there is contrast already.
    beyond = np.maximum(lowest - values, values - highest) - (highest - lowest) // 2
    blurred, blurred_around = (np.asarray(part.filter(_BLUR), np.int16) for part in (seen, other))
    differs = np.any((beyond > _TOLERANCE) | (np.abs(blurred - blurred_around) > _TOLERANCE), axis=2)
    if _mean_by_block(np.asarray(differs)).max() > _MAX_DIFFERENT:
        return False
    return _has_same_detail(seen, other)


def _has_same_detail(seen: Image.Image, other: Image.Image) -> bool:
    """Return whether no block differs by more than its contrast allows: faint writing on a flat ground counts."""
    first, second = (np.asarray(part.convert("L").filter(_BLUR), np.float64) for part in (seen, other))
    differs = first - second
    differs -= np.median(differs)
    lightest = darkest = np.asarray(other.convert("L"), np.int16)
    for _ in range(_CONTRAST_REACH_PX):  # one pixel farther each time: much faster than filters of this size
        lightest, darkest = _nearby(np.maximum, lightest), _nearby(np.minimum, darkest)
    beyond = np.abs(differs) - _CONTRAST_SHARE * (lightest - darkest)
    return bool(_mean_by_block(beyond).max() <= _MAX_MEAN_DIFFERENCE)


def _nearby(smaller_or_larger: np.ufunc, values: npt.NDArray[np.int16]) -> npt.NDArray[np.int16]:
    """Return the extreme of each pixel and the eight around it, since programs downscale differently."""
    padded = np.pad(values, ((1, 1), (1, 1), (0, 0))[: values.ndim], mode="edge")
    rows = smaller_or_larger(smaller_or_larger(padded[:-2], padded[1:-1]), padded[2:])
    return np.asarray(smaller_or_larger(smaller_or_larger(rows[:, :-2], rows[:, 1:-1]), rows[:, 2:]))


def _mean_by_block(values: npt.NDArray[np.bool_] | npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the mean of each block; blocks that the border cuts are divided by the size of whole ones."""
    starts = [np.arange(0, side, _BLOCK_PX) for side in values.shape]
    sums = np.add.reduceat(np.add.reduceat(values.astype(np.float64), starts[0], axis=0), starts[1], axis=1)
    return np.asarray(sums / np.prod(np.minimum(values.shape, _BLOCK_PX)))


def _part(image: Image.Image, box: Box) -> Image.Image:
    left, upper, right, lower = (part * side for part, side in zip(box, image.size * 2, strict=True))
    crop = round(left), round(upper), max(round(left) + 1, round(right)), max(round(upper) + 1, round(lower))
    return image if box == _WHOLE else image.crop(crop)


def _resized(image: Image.Image, size: tuple[int, int]) -> Image.Image:
    return image if image.size == size else image.resize(size, Image.Resampling.BOX)
