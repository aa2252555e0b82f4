"""What a scan sees in the file of a picture, and the files that cleaning and covering make of it."""

import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from ingest.images import rewriting
from ingest.images.decode import DecodedImage, Rejected, decode
from ingest.images.pixels import Area, CoverMethod, ImageLimits, Pixels

LIMITS = ImageLimits()
DEMO = Path(__file__).parents[2] / "jobs" / "demo" / "corpus"


def decoded(content: bytes, limits: ImageLimits = LIMITS) -> DecodedImage:
    image = decode(content, limits)
    assert isinstance(image, DecodedImage), image
    return image


def refused(content: bytes, limits: ImageLimits = LIMITS) -> Rejected:
    rejected = decode(content, limits)
    assert isinstance(rejected, Rejected)
    return rejected


def demo_pictures() -> list[Pixels]:
    """The first view of each picture of the demo corpus that can be decoded."""
    images = [decode(content, ImageLimits(max_frames=1)) for content in _demo_files()]
    return [image.views[0] for image in images if isinstance(image, DecodedImage)]


def _demo_files() -> Iterator[bytes]:
    yield from (path.read_bytes() for path in sorted(DEMO.glob("tree/*/*")))
    for path in sorted(DEMO.glob("shards/*.tar")):
        with tarfile.open(path) as shard:
            yield from (shard.extractfile(member).read() for member in shard.getmembers())  # type: ignore[union-attr]


def cleaned(content: bytes, num_frames: int) -> bytes | None:
    """None if it cannot be cleaned."""
    made = rewriting.cleaned(content, num_frames)
    return None if made is None else made.content


def covered(content: bytes, areas: Sequence[Area], method: CoverMethod) -> bytes | None:
    """None if it cannot be covered."""
    made = rewriting.covered(content, areas, method)
    return None if made is None else made.content
