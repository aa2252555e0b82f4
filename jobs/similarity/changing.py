"""Versions of a picture that `similarity compare --method` makes in memory, each at a strength."""

import hashlib
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ingest.errors import PrivsieveError, did_you_mean
from ingest.images.pixels import Pixels

Random = np.random.Generator


@dataclass(frozen=True)
class Method:
    """A way to change a picture."""

    name: str
    unit: str
    """What the strength is, in words."""

    low: float
    high: float
    """Range of the strength."""

    tried: tuple[float, ...]
    """Strengths of `--method all`, the weakest first."""

    change: Callable[[Pixels, float, Random], Pixels]

    is_everywhere: bool = True
    """Whether it changes the whole picture, so that the whole is compared."""


@dataclass(frozen=True)
class MadeSet:
    """One method at one strength."""

    method: Method
    strength: float

    @property
    def name(self) -> str:
        return f"{self.method.name}={self.strength:g}"

    def of(self, pixels: Pixels, key: str, seed: int) -> Pixels:
        """Return the changed picture, of the same shape. The same key and seed give the same picture."""
        digest = hashlib.sha256(f"{seed}/{self.name}/{key}".encode()).digest()
        return self.method.change(pixels, self.strength, np.random.default_rng(int.from_bytes(digest[:8])))


def _solid(pixels: Pixels, percent: float, random: Random) -> Pixels:
    result = pixels.copy()
    height, width = (round(side * percent / 100) for side in pixels.shape[:2])
    top, left = (pixels.shape[0] - height) // 2, (pixels.shape[1] - width) // 2
    result[top : top + height, left : left + width] = 0
    return result


def _through(pixels: Pixels, shorter_px: float, enlarge_smoothly: bool) -> Pixels:
    """Make it smaller, so that its shorter side has this many pixels, and as large as before again."""
    from PIL import Image

    image = Image.fromarray(pixels)
    factor = min(1.0, shorter_px / min(image.size))
    small = image.resize(
        (max(1, round(image.width * factor)), max(1, round(image.height * factor))), Image.Resampling.BOX
    )
    how = Image.Resampling.BICUBIC if enlarge_smoothly else Image.Resampling.NEAREST
    return np.asarray(small.resize(image.size, how))


def _blur(pixels: Pixels, percent: float, random: Random) -> Pixels:
    from PIL import Image, ImageFilter

    sigma_px = percent / 100 * min(pixels.shape[:2])
    return np.asarray(Image.fromarray(pixels).filter(ImageFilter.GaussianBlur(sigma_px)))


def _noise(pixels: Pixels, sigma: float, random: Random) -> Pixels:
    return _rounded(pixels + random.normal(0, sigma, pixels.shape))


def _jpeg(pixels: Pixels, quality: float, random: Random) -> Pixels:
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "JPEG", quality=round(quality))
    return np.asarray(Image.open(stream).convert("RGB"))


def _contrast(pixels: Pixels, percent: float, random: Random) -> Pixels:
    return _rounded((pixels.astype(np.float64) - 127.5) * percent / 100 + 127.5)


def _brightness(pixels: Pixels, percent: float, random: Random) -> Pixels:
    return _rounded(pixels.astype(np.float64) * percent / 100)


def _shift(pixels: Pixels, percent: float, random: Random) -> Pixels:
    return np.roll(pixels, [round(side * percent / 100) for side in pixels.shape[:2]], axis=(0, 1))


def _rounded(values: npt.NDArray[np.float64]) -> Pixels:
    return np.asarray(np.clip(np.rint(values), 0, 255), dtype=np.uint8)


_METHODS = (
    Method("solid", "% of each side that a black box in the middle covers", 1, 100, (25, 50, 75, 100), _solid, False),
    Method("pixelate", "squares along the shorter side", 1, 1000, (32, 16, 8), lambda p, s, r: _through(p, s, False)),
    Method("blur", "σ in % of the shorter side", 0.1, 100, (1, 3, 6), _blur),
    Method("downscale", "pixels of the shorter side", 1, 1000, (64, 24, 10), lambda p, s, r: _through(p, s, True)),
    Method("noise", "σ in steps of grey", 1, 1000, (25, 45, 100), _noise),
    Method("jpeg", "quality", 1, 95, (30, 10, 1), _jpeg),
    Method("contrast", "% of the contrast that stays", 1, 100, (35, 10), _contrast),
    Method("brightness", "% of the brightness", 1, 1000, (180, 30), _brightness),
    Method("invert", "1 for the negative", 1, 1, (1,), lambda p, s, r: 255 - p),
    Method("shift", "% of each side", 1, 99, (6,), _shift),
)
METHODS = {method.name: method for method in _METHODS}
"""The first five hide content, more or less; the others change many pixels, but a person still recognises it."""


def methods_of(texts: Sequence[str]) -> tuple[MadeSet, ...]:
    """Read `NAME=STRENGTH` or `all`; the same twice counts once. PrivsieveError names what is wrong."""
    made = dict[str, MadeSet]()
    for text in texts:
        name, equals, value = text.partition("=")
        if text == "all":
            wanted = [MadeSet(method, strength) for method in METHODS.values() for strength in method.tried]
        elif name not in METHODS:
            known = ", ".join(METHODS)
            raise PrivsieveError(
                f'--method "{text:.60}": there is no such method{did_you_mean(name, METHODS)}; {known}'
            )
        elif not equals:
            wanted = [MadeSet(METHODS[name], strength) for strength in METHODS[name].tried]
        else:
            wanted = [MadeSet(METHODS[name], _strength(METHODS[name], value))]
        made |= {each.name: each for each in wanted}
    return tuple(made.values())


def _strength(method: Method, text: str) -> float:
    try:
        strength = float(text)
    except ValueError:
        strength = float("nan")
    if not method.low <= strength <= method.high:
        raise PrivsieveError(
            f'--method {method.name}: "{text:.40}" is not from {method.low:g} to {method.high:g} ({method.unit})'
        )
    return strength
