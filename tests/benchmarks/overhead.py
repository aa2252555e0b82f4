"""What the scan on Ray Data costs beside plain loops that do the same work with the canned engine.

    python -m tests.benchmarks.overhead [--num-shards 4] [--num-images 500] [--repeats 3]

Three ways take turns over the same tars of JPEGs: one process, two processes, and the scan with two engine actors.
All call `SliceScanner.scan`, whose two threads decode. A way is timed from the moment when its first slice begins
to be read ("once running") until its last result is in place, so starting Python, Ray and the actors is left out;
the scan's start-up is shown apart. Only ratios within one run mean anything.
"""

import io
import multiprocessing
import os
import random
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import click
import pyarrow.parquet as pq
from PIL import Image

from ingest.formats import Source, open_source
from ingest.images import DecodedImage, ImageLimits, decode
from ingest.sample import Sample
from ingest.slices import Slice
from ingest.storage import place
from jobs.cluster import ray_session
from jobs.scan import _scan
from jobs.scanner import ScanSettings, SliceScanner

PICTURES = Path(__file__).parents[2] / "jobs" / "demo" / "corpus" / "shards"
NUM_PROCESSES = 2
SIDE_PX = 512
MIN_BYTES, MAX_BYTES = 60_000, 100_000


# ---- the corpus -------------------------------------------------------------------------------------------------


def make_corpus(folder: Path, num_shards: int, num_images: int) -> int:
    """Writes tars of different crops of the demo pictures; returns their size in bytes."""
    folder.mkdir()
    jpegs = _jpegs(random.Random(0))
    for shard in range(num_shards):
        with tarfile.open(folder / f"{shard:05d}.tar", "w") as tar:
            for number in range(num_images):
                encoded = next(jpegs)
                member = tarfile.TarInfo(f"{shard:05d}{number:04d}.jpg")
                member.size = len(encoded)
                tar.addfile(member, io.BytesIO(encoded))
    return sum(path.stat().st_size for path in folder.iterdir())


def _jpegs(drawn: random.Random) -> Iterator[bytes]:
    pictures = _pictures()
    qualities = [90] * len(pictures)
    while True:
        number = drawn.randrange(len(pictures))
        picture = pictures[number]
        side = drawn.randint(min(picture.size) * 2 // 3, min(picture.size))
        left, top = drawn.randint(0, picture.width - side), drawn.randint(0, picture.height - side)
        crop = picture.resize((SIDE_PX, SIDE_PX), Image.Resampling.LANCZOS, (left, top, left + side, top + side))
        quality = min(98, max(60, qualities[number] + drawn.randint(-2, 2)))
        encoded = _encoded(crop, quality)
        for _ in range(8):  # what is too small or too large for a photo of the web is encoded anew
            if MIN_BYTES <= len(encoded) <= MAX_BYTES:
                break
            quality = min(98, max(60, quality + (3 if len(encoded) < MIN_BYTES else -3)))
            encoded = _encoded(crop, quality)
        qualities[number] = quality
        yield encoded


def _pictures() -> list[Image.Image]:
    corpus = open_source(str(PICTURES), None, None)
    samples = (s for shard in corpus.shards for piece in corpus.slices(shard) for s in corpus.read(piece))
    decoded = [decode(s.encoded, ImageLimits()) for s in samples]
    return [Image.fromarray(d.views[0]) for d in decoded if isinstance(d, DecodedImage)]


def _encoded(picture: Image.Image, quality: int) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, "JPEG", quality=quality)
    return buffer.getvalue()


# ---- the three ways ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TimedSource(Source):
    """A source that notes in a file when and in which process a slice begins to be read."""

    notes: str

    def read(self, piece: Slice) -> Iterator[Sample]:
        with open(self.notes, "a") as file:
            file.write(f"{time.time()} {os.getpid()}\n")
        return super().read(piece)


def single(settings: ScanSettings) -> None:
    scan_shards(settings, settings.source.shards)


def scan_shards(settings: ScanSettings, shards: tuple[str, ...], barrier: Any = None) -> None:
    scanner = SliceScanner(settings)
    if barrier is not None:
        barrier.wait()
    for shard in shards:
        for piece in settings.source.slices(shard):
            scanner.scan(piece)


def two_processes(settings: ScanSettings) -> None:
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(NUM_PROCESSES)
    parts = [settings.source.shards[n::NUM_PROCESSES] for n in range(NUM_PROCESSES)]
    processes = [context.Process(target=scan_shards, args=(settings, part, barrier)) for part in parts]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        if process.exitcode != 0:
            raise RuntimeError(f"a process of the plain loop ended with {process.exitcode}")


@dataclass(frozen=True)
class Times:
    """Seconds. ray: until Ray is up. actors: from there to the first slice. running: first slice to last result.

    share: of the slices, what the busiest process did.
    """

    ray: float
    actors: float
    running: float
    share: float


def on_ray(settings: ScanSettings) -> None:
    _scan(settings, None, NUM_PROCESSES, True)


def timed(way: Callable[[ScanSettings], None], source: Source, folder: Path, num_images: int) -> Times:
    folder.mkdir()
    notes = folder / "notes"
    timed_source = TimedSource(source.root, source.format, source.shards, source.category, str(notes))
    scores = folder / "scores"
    settings = ScanSettings(timed_source, place(str(scores)), "canned", ImageLimits(), "benchmark")
    began = ready = time.time()
    if way is on_ray:
        with ray_session("local"):
            ready = time.time()
            way(settings)
    else:
        way(settings)
    read = [line.split() for line in notes.read_text().splitlines()]
    results = list(scores.iterdir())
    found = sum(pq.read_metadata(path).num_rows for path in results)
    if found != num_images or len(read) != len(results):
        raise RuntimeError(f"{found} rows of {num_images} images, {len(read)} reads of {len(results)} slices")
    first = min(float(moment) for moment, _ in read)
    last = max(path.stat().st_ctime for path in results)  # a rename sets it: the file is in place
    processes = [process for _, process in read]
    busiest = max(processes.count(process) for process in processes)
    return Times(ready - began, first - ready, last - first, busiest / len(read))


WAYS = {"one process": single, "two processes": two_processes, "scan": on_ray}


@click.command()
@click.option("--num-shards", type=click.IntRange(min=1), default=4, show_default=True)
@click.option("--num-images", type=click.IntRange(min=1), default=500, show_default=True, help="Images per shard.")
@click.option("--repeats", type=click.IntRange(min=1), default=3, show_default=True)
def main(num_shards: int, num_images: int, repeats: int) -> None:
    total = num_shards * num_images
    times: dict[str, list[Times]] = {name: [] for name in WAYS}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        num_bytes = make_corpus(folder / "corpus", num_shards, num_images)
        click.echo(f"{num_shards} tars of {num_images} JPEGs, {num_bytes / total / 1000:.0f} KB on average")
        source = open_source(str(folder / "corpus"), None, None)
        for turn in range(repeats):
            for name, way in WAYS.items():
                times[name].append(timed(way, source, folder / f"{turn} {name}", total))
    for line in report(times):
        click.echo(line)


def report(times: dict[str, list[Times]]) -> Iterator[str]:
    one, two, scan = ([t.running for t in times[name]] for name in WAYS)
    loop = median(two)
    of_scan = times["scan"]
    ray, actors = median(t.ray for t in of_scan), median(t.actors for t in of_scan)
    yield f"{os.cpu_count()} cores; images/s once running, medians of {len(one)} turns (each turn's ratio)"
    yield f"scan / two processes         {_ratio(two, scan)}"
    yield f"two processes / one process  {_ratio(one, two)}"
    yield f"start-up of the scan: Ray {ray / loop:.2f}, actors {actors / loop:.2f} × the two-process loop's whole time"
    yield f"busiest actor: {median(t.share for t in of_scan):.0%} of the slices"


def _ratio(base: list[float], other: list[float]) -> str:
    """Speed of `other` as a multiple of `base`, from their seconds."""
    turns = ", ".join(f"{b / o:.2f}" for b, o in zip(base, other, strict=True))
    return f"{median(base) / median(other):.2f} ({turns})"


if __name__ == "__main__":
    main()
