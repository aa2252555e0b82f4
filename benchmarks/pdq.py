"""What PDQ hashes cost in a scan, and whether they find copies. python -m benchmarks.pdq [FOLDER]

On the pictures of a folder, by default those of the demo. Times are ratios of the same pictures in the same process.
"""

import io
import sys
import time
from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import numpy as np
import pdqhash
from PIL import Image

from ingest.images.decode import DecodedImage, decode
from ingest.images.pdq import MAX_DISTANCE
from ingest.images.pixels import ImageLimits

DEMO = Path(__file__).parents[1] / "jobs" / "demo" / "corpus" / "tree"
MAX_SIDE_PX = 1280
HASH_DIGITS = 64
REPEATS = 5

COPIES: dict[str, Callable[[Image.Image], Image.Image]] = {
    "the same size": lambda image: image,
    "half the size": lambda image: image.resize((max(1, image.width // 2), max(1, image.height // 2))),
    "256 pixels": lambda image: image.resize((256, max(1, 256 * image.height // image.width))),
    "mirrored": lambda image: image.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
    "turned by 90°": lambda image: image.transpose(Image.Transpose.ROTATE_90),
    "cropped by a tenth": lambda image: image.crop((image.width // 10, 0, image.width, image.height)),
}


def decoded(content: bytes, has_pdq: bool, max_side_px: int | None = MAX_SIDE_PX) -> DecodedImage | None:
    found = decode(content, ImageLimits(max_side_px=max_side_px, has_pdq=has_pdq))
    return found if isinstance(found, DecodedImage) else None


def seconds(work: Callable[[bytes], object], files: list[bytes]) -> float:
    """The least of several rounds."""
    rounds = []
    for _ in range(REPEATS):
        start = time.process_time()
        for content in files:
            work(content)
        rounds.append(time.process_time() - start)
    return min(rounds)


def hashes(text: str) -> list[int]:
    return [int(text[first : first + HASH_DIGITS], 16) for first in range(0, len(text), HASH_DIGITS)]


def by_the_authors(image: Image.Image) -> int:
    bits = pdqhash.compute(np.asarray(image.convert("RGB")))[0]
    return int.from_bytes(np.packbits(np.asarray(bits, np.uint8)).tobytes(), "big")


def turned_by_the_authors(image: Image.Image) -> list[int]:
    """As an operator lists a picture, and as the search turns it."""
    turns = (image, *(image.transpose(turn) for turn in Image.Transpose))
    return [by_the_authors(one) for one in turns]


def as_jpeg(image: Image.Image) -> bytes:
    file = io.BytesIO()
    image.convert("RGB").save(file, "JPEG", quality=70)
    return file.getvalue()


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DEMO
    files = [path.read_bytes() for path in sorted(folder.rglob("*")) if path.suffix in (".jpg", ".jpeg", ".png")]
    files = [content for content in files if decoded(content, has_pdq=False)]
    plain = seconds(lambda content: decoded(content, has_pdq=False), files)
    hashed = seconds(lambda content: decoded(content, has_pdq=True), files)
    full = seconds(lambda content: by_the_authors(Image.open(io.BytesIO(content))), files)
    print(f"{len(files)} pictures, {plain / len(files) * 1000:.1f} ms to decode one")
    print(f"decode and hash: {hashed / plain:.2f} of decoding alone")
    print(f"decode in full and hash with pdqhash: {full / plain:.2f} of decoding alone")
    listed = [turned_by_the_authors(Image.open(io.BytesIO(content))) for content in files]
    for name, copy in COPIES.items():
        found = [hashes(decoded(as_jpeg(copy(Image.open(io.BytesIO(one)))), True).pdq[0] or "") for one in files]  # type: ignore[union-attr, index]
        near = [
            min((a ^ b).bit_count() for a in of_copy for b in own) for of_copy, own in zip(found, listed, strict=True)
        ]
        print(f"{name:<20} found {sum(one <= MAX_DISTANCE for one in near)} of {len(near)}, most bits {max(near)}")
    own = [hashes(decoded(content, True).pdq[0] or "") for content in files]  # type: ignore[union-attr, index]
    apart = [min((a ^ b).bit_count() for a in own[i] for b in listed[j]) for i, j in combinations(range(len(files)), 2)]
    num_alike = sum(one <= MAX_DISTANCE for one in apart)
    print(f"different pictures: {num_alike} of {len(apart)} pairs match, nearest {min(apart)} bits")


if __name__ == "__main__":
    main()
