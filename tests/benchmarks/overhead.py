"""What the scan on Ray Data costs beside plain loops that do the same work with the canned engine.

    python -m tests.benchmarks.overhead [--num-shards 4] [--num-images 500] [--repeats 3]

Three ways take turns over the same tars of JPEGs: one process, two processes, and the scan with two engine actors.
All scan slice by slice with two threads that decode. "Once running" is the speed while every process is at work,
pauses between slices included; "first to last" is from the first slice's begin until the last result is in place,
so the tail in which one process has run out of slices counts too. Starting Python, Ray and the actors is in
neither; the scan's start-up is shown apart. Only ratios within one run mean anything.
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
import ray.data
from PIL import Image

from ingest.formats import Source, open_source
from ingest.images.decode import DecodedImage, decode
from ingest.images.pixels import ImageLimits
from ingest.sample import Sample
from ingest.slices import Slice
from ingest.storage.place import place
from jobs.runtime.cluster import ray_session
from jobs.scanning.inline import scan_slices as scan_inline
from jobs.scanning.on_ray import EnginePool, scan_slices
from jobs.scanning.settings import ScanSettings
from scoring.assessment import EngineOptions
from scoring.runs.layout import SCORES
from scoring.runs.ledger import Ledger, file_name

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


def _jpegs(rng: random.Random) -> Iterator[bytes]:
    pictures = _pictures()
    qualities = [90] * len(pictures)
    while True:
        number = rng.randrange(len(pictures))
        picture = pictures[number]
        side = rng.randint(min(picture.size) * 2 // 3, min(picture.size))
        left, top = rng.randint(0, picture.width - side), rng.randint(0, picture.height - side)
        crop = picture.resize((SIDE_PX, SIDE_PX), Image.Resampling.LANCZOS, (left, top, left + side, top + side))
        quality = min(98, max(60, qualities[number] + rng.randint(-2, 2)))
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
    samples = (s for shard in corpus.shards for slice_ in corpus.slices(shard) for s in corpus.read(slice_))
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

    def read(self, slice_: Slice) -> Iterator[Sample]:
        with open(self.notes, "a") as file:
            file.write(f"{time.time()} {os.getpid()} {file_name(slice_.shard, slice_.number, slice_.is_last)}\n")
        return super().read(slice_)


def single(settings: ScanSettings) -> None:
    scan_shards(settings, settings.source.shards)


def scan_shards(settings: ScanSettings, shards: tuple[str, ...], barrier: Any = None) -> None:
    if barrier is not None:
        barrier.wait()
    for counts in scan_inline(settings, list(shards), None, Ledger({}, {})):
        if counts.failure:
            raise RuntimeError(counts.failure)


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
    """Seconds. ray: until Ray is up. actors: from there to the first slice. whole: first slice to last result.

    running: images/s while every process was at work. share: of the slices, what the busiest process did.
    """

    ray: float
    actors: float
    whole: float
    running: float
    share: float


def on_ray(settings: ScanSettings) -> None:
    engines = EnginePool(NUM_PROCESSES, NUM_PROCESSES)
    shards, shown = list(settings.source.shards), list[int]()  # with the progress that users see
    for counts in scan_slices(settings, shards, None, Ledger({}, {}), shown.append, engines=engines):
        if counts.failure:
            raise RuntimeError(counts.failure)


def timed(way: Callable[[ScanSettings], None], source: Source, folder: Path, num_images: int) -> Times:
    folder.mkdir()
    notes = folder / "notes"
    timed_source = TimedSource(source.root, source.format, source.shards, source.category, str(notes))
    scores = folder / SCORES
    settings = ScanSettings(timed_source, place(str(folder)), "canned", EngineOptions(), ImageLimits(), "benchmark", "")
    began = ready = time.time()
    if way is on_ray:
        with ray_session("local"):
            ready = time.time()
            # As the barrier of the plain loop: "once running" begins when both have started.
            ray.data.DataContext.get_current().wait_for_min_actors_s = 120
            way(settings)
    else:
        way(settings)
    work = [_work(line, scores) for line in notes.read_text().splitlines()]
    if sum(w.num_images for w in work) != num_images or len(work) != len(list(scores.iterdir())):
        raise RuntimeError(f"{len(work)} slices with {sum(w.num_images for w in work)} rows of {num_images} images")
    first, last = min(w.began for w in work), max(w.ended for w in work)
    shares = [sum(w.process == process for w in work) / len(work) for process in {w.process for w in work}]
    return Times(ready - began, first - ready, last - first, _speed(work), max(shares))


@dataclass(frozen=True)
class Work:
    """One slice: when and in which process it was scanned (Unix time in seconds)."""

    process: str
    began: float
    ended: float
    num_images: int


def _work(note: str, scores: Path) -> Work:
    moment, process, name = note.split()
    result = scores / name
    # A rename sets st_ctime: the file is in place.
    return Work(process, float(moment), result.stat().st_ctime, pq.read_metadata(result).num_rows)


def _speed(work: list[Work]) -> float:
    """Images/s from when the last process has begun until the first one has nothing left."""
    by_process = [[w for w in work if w.process == process] for process in {w.process for w in work}]
    start = max(min(w.began for w in own) for own in by_process)
    end = min(max(w.ended for w in own) for own in by_process)
    inside = ((w, min(w.ended, end) - max(w.began, start)) for w in work)
    done = sum(w.num_images * overlap / (w.ended - w.began) for w, overlap in inside if overlap > 0)
    return done / (end - start)


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
    one, two, scan = (times[name] for name in WAYS)
    loop = median(t.whole for t in two)
    yield f"{os.cpu_count()} cores; medians of {len(one)} turns (each turn's ratio)"
    yield f"once running:   scan / two processes         {_ratio([t.running for t in scan], [t.running for t in two])}"
    yield f"                two processes / one process  {_ratio([t.running for t in two], [t.running for t in one])}"
    yield f"first to last:  scan / two processes         {_ratio([t.whole for t in two], [t.whole for t in scan])}"
    ray, actors = median(t.ray for t in scan) / loop, median(t.actors for t in scan) / loop
    yield f"start-up of the scan: Ray {ray:.2f}, actors {actors:.2f} × the two-process loop's time from first to last"
    yield f"busiest actor: {median(t.share for t in scan):.0%} of the slices"


def _ratio(above: list[float], below: list[float]) -> str:
    turns = ", ".join(f"{a / b:.2f}" for a, b in zip(above, below, strict=True))
    return f"{median(above) / median(below):.2f} ({turns})"


if __name__ == "__main__":
    main()
