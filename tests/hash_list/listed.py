"""Pictures that show a listed one, clear ones, files that cannot be compared, and what a run has of them."""

import tarfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pdqhash
from PIL import Image

from privsieve import open_run
from tests.ingest.crafted import HIDING, exif, frames, jpeg, mpo
from tests.nasty import encoded

SECRET = "secret"
"""In the name of every file that shows the listed picture, in that of its folder, and in what lies beside it."""


def picture(seed: int) -> Image.Image:
    noise = np.random.default_rng(seed).integers(0, 255, (11, 13, 3), np.uint8)
    return Image.fromarray(noise).resize((320, 270), Image.Resampling.BICUBIC)


LISTED = 1
"""The seed of the listed picture."""


def second_frame(format_name: str, **options: object) -> bytes:
    return encoded(picture(2), format_name, save_all=True, append_images=[picture(LISTED)], **options)


def smaller_and_mirrored() -> bytes:
    copy = picture(LISTED).resize((240, 200)).transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return encoded(copy, "JPEG", quality=70)


def made_once(makers: dict[str, Callable[[], bytes]]) -> dict[str, Callable[[], bytes]]:
    """Encoding them takes a second, and many tests ask for their hashes."""
    return {name: cache(make) for name, make in makers.items()}


SHOWING = made_once(
    {
        "plain.png": lambda: encoded(picture(LISTED), "PNG"),
        "smaller.jpg": smaller_and_mirrored,
        "frames.gif": lambda: second_frame("GIF"),
        "frames.png": lambda: second_frame("PNG"),
        "frames.webp": lambda: second_frame("WEBP", quality=90),
        "frames.avif": lambda: second_frame("AVIF", quality=90),
        "pages.tiff": lambda: second_frame("TIFF"),
        "two.jpg": lambda: mpo(picture(2), picture(LISTED)),
        "thumbnail.jpg": lambda: jpeg(exif=b"Exif\0\0" + exif(encoded(picture(LISTED).resize((160, 135)), "JPEG"))),
        "behind.jpg": lambda: jpeg() + encoded(picture(LISTED), "PNG"),
    }
)
"""Every file shows the listed picture somewhere."""

CLEAR = made_once(
    {
        "other.png": lambda: encoded(picture(3), "PNG"),
        "other.gif": lambda: encoded(picture(2), "GIF", save_all=True, append_images=[picture(3)]),
        "other.jpg": lambda: jpeg(exif=b"Exif\0\0" + exif(encoded(picture(4).resize((160, 135)), "JPEG"))),
    }
)
UNKNOWN = made_once(
    {
        "long.gif": lambda: frames(17, "GIF"),
        "inner.jpg": HIDING["jxl_in_comment.jpg"][0],
        "broken.png": lambda: encoded(picture(5), "PNG")[:400],
    }
)
"""What cannot be compared: a frame after the first 16, an inner picture of another format, damage."""


def pdq(image: Image.Image) -> str:
    """By the authors' program, as operators have it."""
    return np.packbits(np.asarray(pdqhash.compute(np.asarray(image))[0], np.uint8)).tobytes().hex()


def rows_of(run: Path) -> list[dict[str, Any]]:
    with open_run(run) as opened:
        rows: list[dict[str, Any]] = opened.rows().to_pylist()
    return rows


def released(out: Path) -> set[str]:
    """The names of the released pictures, without their endings."""
    with tarfile.open(out / "00000.tar") as shard:
        return {name.rpartition(".")[0] for name in shard.getnames()}
