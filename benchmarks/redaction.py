"""How many pictures a core covers in a second, beside decoding and encoding the same pictures.

    python -m benchmarks.redaction [--repeats 3] [--detectors]

The pictures are those of the demo that can be covered; the areas are three boxes of each, a twentieth of the picture
together. CPU time is measured, so other work on the machine counts little. "detectors" is the whole way of a rule with
`cover: [faces, text]`: a look, the cover, and the second look.
"""

import io
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import click
from PIL import Image

from ingest.formats import open_source
from ingest.images.pixels import CoverMethod
from ingest.images.rewriting import covered
from scoring.engines.detectors.covering import cover_targets

DEMO = Path(__file__).parents[1] / "jobs" / "demo" / "corpus"
METHODS: tuple[CoverMethod, ...] = ("solid", "pixelate", "blur")
AREAS = ((0.1, 0.1, 0.25, 0.2), (0.4, 0.3, 0.6, 0.4), (0.7, 0.7, 0.85, 0.8))
"""Sides as shares of the picture: left, top, right, bottom."""


def _again(encoded: bytes) -> None:
    """Decode and encode, with the same quantisation of a JPEG."""
    with Image.open(io.BytesIO(encoded)) as image:
        image.load()
        if image.format == "WEBP":
            image.save(io.BytesIO(), "WEBP", lossless=b"VP8L" in encoded[:64], quality=90)
        else:
            image.save(io.BytesIO(), image.format, **({"quality": "keep"} if image.format == "JPEG" else {}))


def _cover(method: CoverMethod, encoded: bytes) -> None:
    covered(encoded, AREAS, method)


def _whole_way(encoded: bytes) -> None:
    cover_targets(encoded, ["faces", "text"], (), "solid", falls_back=True)


def _per_second(pictures: Sequence[bytes], work: Callable[[bytes], None], repeats: int) -> float:
    """Return pictures per second of CPU time; the fastest of the repeats."""
    fastest = float("inf")
    for _ in range(repeats):
        before = time.process_time()
        for encoded in pictures:
            work(encoded)
        fastest = min(fastest, time.process_time() - before)
    return len(pictures) / fastest


@click.command()
@click.option("--repeats", default=3, show_default=True)
@click.option("--detectors", is_flag=True, help="Also with the detectors, once.")
def benchmark(repeats: int, detectors: bool) -> None:
    corpora = [open_source(str(folder), None, None) for folder in sorted(DEMO.iterdir())]
    files = [sample.encoded for corpus in corpora for sample in corpus.samples()]
    pictures = [encoded for encoded in files if covered(encoded, AREAS, "solid") is not None]
    plain = _per_second(pictures, _again, repeats)
    click.echo(f"{len(pictures)} pictures; decode and encode {plain:.1f}/s of CPU time")
    for method in METHODS:
        speed = _per_second(pictures, partial(_cover, method), repeats)
        click.echo(f"{method:10} {speed:7.1f}/s  {speed / plain:5.2f} x")
    if detectors:
        _whole_way(pictures[0])  # loads the models
        speed = _per_second(pictures, _whole_way, 1)
        click.echo(f"{'detectors':10} {speed:7.2f}/s  {speed / plain:5.3f} x")


if __name__ == "__main__":
    benchmark()
