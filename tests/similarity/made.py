"""Pictures with faces drawn in them, covered and blurred."""

import io
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

FACE = (96, 64, 160, 144)
"""Where each scene has its face: left, upper, right, lower."""

SIZE = (320, 240)

Change = Callable[[Image.Image], Image.Image]


def scene(number: int) -> Image.Image:
    random = np.random.default_rng(number)
    coarse = random.integers(0, 256, (6, 8, 3), dtype=np.uint8)
    image = Image.fromarray(coarse).resize(SIZE, Image.Resampling.BICUBIC)
    draw = ImageDraw.Draw(image)
    left, upper, right, lower = FACE
    draw.ellipse(FACE, fill=tuple(random.integers(120, 256, 3).tolist()))
    for x in (left + 16, right - 24):
        draw.ellipse((x, upper + 24, x + 8, upper + 34), fill=(0, 0, 0))
    draw.arc((left + 16, upper + 40, right - 16, lower - 12), 20, 160, fill=(120, 0, 0), width=3 + number % 4)
    return image


def covered_face(image: Image.Image) -> Image.Image:
    image.paste((0, 0, 0), FACE)
    return image


def blurred(image: Image.Image) -> Image.Image:
    return image.filter(ImageFilter.GaussianBlur(1.5))


def unchanged(image: Image.Image) -> Image.Image:
    return image


def png(image: Image.Image) -> bytes:
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()


def folder(path: Path, num: int, change: Change = unchanged, others: Mapping[str, bytes] | None = None) -> Path:
    """Scenes 0 to num − 1 as `a/0.png` and so on, changed; and other files."""
    (path / "a").mkdir(parents=True)
    for number in range(num):
        (path / "a" / f"{number}.png").write_bytes(png(change(scene(number))))
    for name, content in (others or {}).items():
        (path / name).write_bytes(content)
    return path
