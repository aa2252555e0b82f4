r"""Change the pictures of a corpus in several ways, into a folder each, for `similarity compare`.

    python examples/papers/change.py ORIGINALS FOLDER blur=3 pixelate=8 --sample 500
    privsieve similarity compare ORIGINALS FOLDER/* --part whole

A way without a strength gets those of `tried`, and `all` is every way: 25 sets. The first frame of each picture is
decoded to at most 1,600 px, as `similarity compare` sees it, changed, and written as PNG below its shard and key. The
same seed makes the same noise. No hash list is asked: take listed pictures out of ORIGINALS before.

Source of comparing such versions: Sun et al., "Privacy Assessment on Reconstructed Images", which has 14 models.
"""

import argparse
import hashlib
import io
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageFilter

from ingest.errors import PrivsieveError
from ingest.images.pixels import Pixels
from jobs.runtime.hash_list import NOTHING
from jobs.similarity.comparing import Corpus, drawn, read_picture


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
    """Strengths without one given, the weakest first."""

    change: Callable[[Pixels, float, np.random.Generator], Pixels]

    def changed(self, strength: float, pixels: Pixels, key: str, seed: int) -> Pixels:
        """Return the changed picture, of the same shape. The same key and seed give the same picture."""
        digest = hashlib.sha256(f"{seed}/{self.name}={strength:g}/{key}".encode()).digest()
        return self.change(pixels, strength, np.random.default_rng(int.from_bytes(digest[:8])))


def _solid(pixels: Pixels, percent: float, random: np.random.Generator) -> Pixels:
    result = pixels.copy()
    height, width = (round(side * percent / 100) for side in pixels.shape[:2])
    top, left = (pixels.shape[0] - height) // 2, (pixels.shape[1] - width) // 2
    result[top : top + height, left : left + width] = 0
    return result


def _through(pixels: Pixels, shorter_px: float, enlarge_smoothly: bool) -> Pixels:
    """Make it smaller, so that its shorter side has this many pixels, and as large as before again."""
    image = Image.fromarray(pixels)
    factor = min(1.0, shorter_px / min(image.size))
    small = image.resize(
        (max(1, round(image.width * factor)), max(1, round(image.height * factor))), Image.Resampling.BOX
    )
    how = Image.Resampling.BICUBIC if enlarge_smoothly else Image.Resampling.NEAREST
    return np.asarray(small.resize(image.size, how))


def _blur(pixels: Pixels, percent: float, random: np.random.Generator) -> Pixels:
    sigma_px = percent / 100 * min(pixels.shape[:2])
    return np.asarray(Image.fromarray(pixels).filter(ImageFilter.GaussianBlur(sigma_px)))


def _noise(pixels: Pixels, sigma: float, random: np.random.Generator) -> Pixels:
    return _rounded(pixels + random.normal(0, sigma, pixels.shape))


def _jpeg(pixels: Pixels, quality: float, random: np.random.Generator) -> Pixels:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "JPEG", quality=round(quality))
    return np.asarray(Image.open(stream).convert("RGB"))


def _contrast(pixels: Pixels, percent: float, random: np.random.Generator) -> Pixels:
    return _rounded((pixels.astype(np.float64) - 127.5) * percent / 100 + 127.5)


def _brightness(pixels: Pixels, percent: float, random: np.random.Generator) -> Pixels:
    return _rounded(pixels.astype(np.float64) * percent / 100)


def _shift(pixels: Pixels, percent: float, random: np.random.Generator) -> Pixels:
    return np.roll(pixels, [round(side * percent / 100) for side in pixels.shape[:2]], axis=(0, 1))


def _rounded(values: npt.NDArray[np.float64]) -> Pixels:
    return np.asarray(np.clip(np.rint(values), 0, 255), dtype=np.uint8)


_METHODS = (
    Method("solid", "% of each side that a black box in the middle covers", 1, 100, (25, 50, 75, 100), _solid),
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


def methods_of(texts: Sequence[str]) -> dict[str, tuple[Method, float]]:
    """Read `NAME=STRENGTH`, `NAME` or `all`, and return name of the set -> way and strength."""
    made = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if text != "all" and name not in METHODS:
            sys.exit(f'there is no way "{text:.60}"; there are: {", ".join(METHODS)}')
        for method in METHODS.values() if text == "all" else [METHODS[name]]:
            strengths = (_number(value),) if equals else method.tried
            if not all(method.low <= strength <= method.high for strength in strengths):
                sys.exit(f"{text:.60}: give {method.low:g} to {method.high:g} ({method.unit})")
            made |= {f"{method.name}={strength:g}": (method, strength) for strength in strengths}
    return made


def _number(text: str) -> float:
    """NaN if it is none, which no way takes."""
    try:
        return float(text)
    except ValueError:
        return float("nan")


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("originals")
    parser.add_argument("folder", type=Path)
    parser.add_argument("ways", nargs="+", help=f"all, or of {', '.join(METHODS)}")
    parser.add_argument("--sample", type=int)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    if args.sample is not None and args.sample < 1:
        parser.error(f"--sample {args.sample}: give 1 or more")
    num_changed = num_unreadable = 0
    try:
        originals, ways = Corpus(args.originals), methods_of(args.ways)
        for place in drawn(originals.places, args.sample, args.seed):
            pixels = read_picture(originals, place, NOTHING).pixels
            num_changed, num_unreadable = num_changed + (pixels is not None), num_unreadable + (pixels is None)
            for name, (method, strength) in ways.items() if pixels is not None else ():
                file = args.folder / name / f"{place.path}.png"
                file.parent.mkdir(parents=True, exist_ok=True)
                with file.open("xb") as new:  # pictures of one stem, or of a run before, are not written over
                    Image.fromarray(method.changed(strength, pixels, place.path, args.seed)).save(new, "PNG")
    except (PrivsieveError, OSError) as error:
        sys.exit(f"{Path(__file__).name}: {error}")
    print(f"{num_changed} pictures changed in {len(ways)} ways; {num_unreadable} could not be read", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
