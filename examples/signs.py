"""Draws small pictures of signs, one for each class of PrivBench: eight private ones and eight public ones.

    python -m examples.signs FOLDER --per-class 20 --seed 1 --grain 0.2

A picture has one sign of 32 x 32 pixels in one of its four quarters, in random colours, and clutter around it. Seven of
the eight private classes also carry a red mark; `license_plate` does not, so a model that never saw it cannot
know that it is private.
Files are named as in PrivBench: `<class>_<n>.png`, and `public_<n>.png`.
"""

from collections.abc import Iterator
from pathlib import Path

import click
import numpy as np
import numpy.typing as npt
from PIL import Image

PRIVATE = ("debit_card", "face", "fingerprint", "license_plate", "nudity", "passport", "private_chat", "tattoo")
PUBLIC = ("landscape", "food", "building", "furniture", "animal", "plant", "street", "book")
CLASSES = PRIVATE + PUBLIC
UNMARKED = "license_plate"

SIDE_PX = 64
SIGN_PX = 32
MARK_PX = 16
_SIGNS = (np.random.default_rng(7).random((len(CLASSES), 4, 4)) < 0.5).astype(np.float64)
_MARK = np.kron(np.eye(2), np.ones((MARK_PX // 2, MARK_PX // 2)))
MIN_CONTRAST = 0.25
NUM_SPOTS = 5
"""Number of spots of the clutter in a row."""


def picture(rng: np.random.Generator, name: str) -> npt.NDArray[np.uint8]:
    """Return a picture of the class `name`, one of `CLASSES`. Shape (64, 64, 3)."""
    pixels = _clutter(rng)
    ground = rng.uniform(0.2, 0.8, 3)
    colour = rng.uniform(0, 1, 3)
    if abs(colour.mean() - ground.mean()) <= MIN_CONTRAST:
        colour = 1 - ground
    sign = np.kron(_SIGNS[CLASSES.index(name)], np.ones((SIGN_PX // 4, SIGN_PX // 4)))
    quarter = int(rng.integers(4))
    _paint(pixels, _corner(quarter), np.ones((SIGN_PX, SIGN_PX)), ground)
    _paint(pixels, _corner(quarter), sign, colour)
    if name in PRIVATE and name != UNMARKED:
        other = [q for q in range(4) if q != quarter][rng.integers(3)]
        top, left = _corner(other)
        corner = (top + MARK_PX * int(rng.integers(2)), left + MARK_PX * int(rng.integers(2)))
        pixels[corner[0] : corner[0] + MARK_PX, corner[1] : corner[1] + MARK_PX] = 1
        _paint(pixels, corner, _MARK, np.array([1.0, 0.0, 0.0]))
    made: npt.NDArray[np.uint8] = (pixels.clip(0, 1) * 255).astype(np.uint8)
    return made


def drawn(num_per_class: int, seed: int, grain: float = 0.0) -> Iterator[tuple[str, npt.NDArray[np.uint8]]]:
    """Yield (file name, pixels): as many public pictures as private ones. grain: standard deviation of noise over each
    picture, of pixels from 0 to 1; more of it makes signs harder to read."""
    rng = np.random.default_rng(seed)
    for name in PRIVATE:
        for n in range(num_per_class):
            yield f"{name}_{n}.png", _grainy(rng, picture(rng, name), grain)
    for n in range(num_per_class * len(PRIVATE)):
        yield f"public_{n}.png", _grainy(rng, picture(rng, PUBLIC[n % len(PUBLIC)]), grain)


def _grainy(rng: np.random.Generator, pixels: npt.NDArray[np.uint8], grain: float) -> npt.NDArray[np.uint8]:
    if not grain:
        return pixels
    noisy = pixels / 255 + rng.normal(0, grain, pixels.shape)
    made: npt.NDArray[np.uint8] = (noisy.clip(0, 1) * 255).astype(np.uint8)
    return made


def _clutter(rng: np.random.Generator) -> npt.NDArray[np.float64]:
    """Return soft coloured spots. Without them the pictures of a class would be near duplicates of each other."""
    spots = rng.uniform(0, 255, (NUM_SPOTS, NUM_SPOTS, 3)).astype(np.uint8)
    soft = Image.fromarray(spots).resize((SIDE_PX, SIDE_PX), Image.Resampling.BICUBIC)
    return np.asarray(soft) / 255 + rng.normal(0, 0.03, (SIDE_PX, SIDE_PX, 3))


def _corner(quarter: int) -> tuple[int, int]:
    return SIGN_PX * (quarter // 2), SIGN_PX * (quarter % 2)


def _paint(
    pixels: npt.NDArray[np.float64],
    corner: tuple[int, int],
    shape: npt.NDArray[np.floating],
    colour: npt.NDArray[np.float64],
) -> None:
    """Colour the pixels where `shape` is 1."""
    window = pixels[corner[0] : corner[0] + shape.shape[0], corner[1] : corner[1] + shape.shape[1]]
    window[shape > 0] = colour


@click.command(help=__doc__)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--per-class", "num_per_class", default=20, show_default=True, type=click.IntRange(min=1))
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0))
@click.option("--grain", default=0.0, show_default=True, type=click.FloatRange(0, 1), help="How grainy pictures are.")
def main(folder: Path, num_per_class: int, seed: int, grain: float) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, pixels in drawn(num_per_class, seed, grain):
        Image.fromarray(pixels).save(folder / name)


if __name__ == "__main__":
    main()
