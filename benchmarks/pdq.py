"""What PDQ hashes cost in a scan, and whether they find copies. python -m benchmarks.pdq [FOLDER]

On the pictures of a folder, by default those of the demo. Times are ratios of the same pictures in the same process.
"""

import io
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pdqhash
from PIL import Image

from ingest.images.decode import DecodedImage, decode
from ingest.images.pdq import MAX_DISTANCE, Hashes, distances, hashes_of, near, turned
from ingest.images.pixels import ImageLimits

DEMO = Path(__file__).parents[1] / "jobs" / "demo" / "corpus" / "tree"
MAX_SIDE_PX = 1280
REPEATS = 5
NUM_LISTED, NUM_SEARCHED = 1_000, 100_000

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


def by_the_authors(image: Image.Image) -> str:
    bits = pdqhash.compute(np.asarray(image.convert("RGB")))[0]
    return np.packbits(np.asarray(bits, np.uint8)).tobytes().hex()


def hashes(files: list[bytes]) -> Hashes:
    """Of the first frames, as a scan has them."""
    return hashes_of(decoded(content, True).pdq[0] or "" for content in files)  # type: ignore[union-attr, index]


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
    listed = hashes_of(by_the_authors(Image.open(io.BytesIO(content))) for content in files)
    own = hashes(files)
    differing = np.diagonal(distances(listed, own))
    print(f"beside pdqhash of all pixels: {np.median(differing):.0f} bits in the median, at most {differing.max()}")
    for name, copy in COPIES.items():
        copies = hashes([as_jpeg(copy(Image.open(io.BytesIO(content)))) for content in files])
        nearest = np.diagonal(distances(listed, copies))
        num_found = (nearest <= MAX_DISTANCE).sum()
        print(f"{name:<20} found {num_found} of {len(files)}, most bits {nearest.max()}")
    apart = distances(listed, own)[np.triu_indices(len(files), 1)]
    num_alike = (apart <= MAX_DISTANCE).sum()
    print(f"different pictures: {num_alike} of {len(apart)} pairs match, nearest {apart.min()} bits")
    random = np.random.default_rng(0)
    many = random.integers(0, 2**64, (NUM_SEARCHED, 4), np.uint64)
    ways = turned(random.integers(0, 2**64, (NUM_LISTED, 4), np.uint64)).reshape(-1, 4)
    start = time.process_time()
    near(ways, many)
    print(f"{NUM_LISTED:,} hashes, {NUM_SEARCHED:,} pictures: {time.process_time() - start:.1f} s of CPU time")


if __name__ == "__main__":
    main()
