"""Draws a small random sample of a corpus, and reads, decodes and scores it here; nothing is written."""

import io
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.errors import SourceError, number_of
from ingest.formats import Source, stated_counts
from ingest.images.decode import DecodedImage, Rejected, decode
from ingest.images.pixels import ImageLimits
from ingest.sample import Sample, printable
from ingest.storage.place import BLOCK_BYTES
from jobs.runtime.progress import Meter
from jobs.scanning.batch import BatchScorer, picture_views
from jobs.scanning.chosen import draw, selected
from scoring.assessment import Engine
from scoring.engine_facts import RecordedHostCost, RecordedSpeed
from scoring.engines.picture import prepared
from scoring.screen.model import FittedScreen, Screener
from scoring.screen.record import ScreenRecord

MAX_LISTED_SHARDS = 16
"""In a corpus with at most this many shards, the images are counted; in a larger one they are estimated."""

BATCH_SAMPLES = 8
DECODE_THREADS = 2
"""As the actors of a scan have."""


@dataclass(frozen=True, kw_only=True)
class EngineFacts:
    """What is known of the planned engine without asking it."""

    speed: RecordedSpeed | None = None
    """Its speed if it cannot run here; None if the speed is measured."""

    host_cost: RecordedHostCost | None = None
    """None if nothing happens between the decoded picture and the engine."""

    has_gpu: bool = False
    """Whether the engine works on a GPU, so that a screen works next to it and not in its time."""


@dataclass(frozen=True)
class EngineUnderTest(EngineFacts):
    """The engine that scores the sample: the planned one, or a placeholder if that cannot run here."""

    engine: Engine

    limits: ImageLimits

    max_pixels: int | None = None
    """The engine downscales decoded pictures to this; None if it takes them as they are."""

    screen: FittedScreen | None = None
    """A screen that is timed on the sample, too; None for a plan without one."""


@dataclass(frozen=True)
class Measured(EngineFacts):
    """What the sample showed. Times are seconds on one thread; an image counts with all its frames together."""

    num_shards: int

    listed: tuple[int, ...]
    """Number of images in each listed shard."""

    num_stated: int | None
    """Images of the whole source, as stated next to its shards; None if nothing is stated, or if a listed shard holds
    another number."""

    difference: str | None
    """One line about listed shards that hold another number than the stated one; None if there is none."""

    num_slices: int
    """In the listed shards."""

    num_sampled: int

    broken: dict[str, int]
    """Reason -> images that would be quarantined."""

    num_bytes: tuple[int, ...]
    """Size of each sampled image that has bytes."""

    decode_s: tuple[float, ...]
    """Time for each image that could be decoded."""

    downscale_s: tuple[float, ...]
    """The same; empty if the engine takes pictures as they are decoded."""

    megapixels: tuple[float, ...]
    """Size in the file, of each image that could be decoded."""

    seen_megapixels: tuple[float, ...]
    """Size as the engine sees it, of the same images."""

    formats: dict[str, int]
    """Format -> decoded images."""

    batches: tuple[tuple[int, float], ...]
    """(images, seconds) of each scored batch; empty if the speed is recorded."""

    row_bytes: float
    """What one more row adds to a result file."""

    slice_bytes: float
    """Size of a result file without its rows."""

    num_reads: int
    screen: ScreenRecord | None = None
    screen_s: tuple[float, ...] = ()
    """Time of the screen for each image that could be decoded."""


@dataclass(frozen=True)
class ImageTiming:
    """One sampled image; times are seconds on one thread."""

    decode_s: float

    image: DecodedImage

    downscale_s: float

    seen_megapixels: float
    """Sum of all frames, as the engine sees them."""


def measure(
    corpus: Source, tested: EngineUnderTest, sample_size: int, seed: int, progress: Meter | None = None
) -> Measured:
    """Read, decode and score the sample. SourceError if the listed shards hold no image."""
    progress = progress or Meter("", None, time.monotonic)
    shards = sorted(random.Random(seed).sample(corpus.shards, min(MAX_LISTED_SHARDS, len(corpus.shards))))
    progress.phase(f"counting images of {len(shards)} of {number_of(len(corpus.shards), 'shard')}")
    lengths = [[len(slice_.locators) for slice_ in corpus.slices(shard)] for shard in shards]
    listed = tuple(map(sum, lengths))
    if not sum(listed):
        raise SourceError(f"{len(shards)} random shards hold no image, {printable(shards[0])} first; nothing to plan")
    stated = stated_counts(corpus)
    difference = stated.difference(dict(zip(shards, listed, strict=True)))
    progress.phase(f"reading {number_of(min(sample_size, sum(listed)), 'image')}")
    chosen = draw(shards, listed, min(sample_size, sum(listed)), seed)
    slices = [
        each for shard, indices in chosen.items() for each in selected(corpus.slices(shard), shard, list(indices))
    ]
    samples = [sample for slice_ in slices for sample in corpus.read(slice_)]
    timings = [_timed(sample, tested) for sample in samples if sample.fault is None]
    decoded = [timing for timing in timings if isinstance(timing, ImageTiming)]
    broken = Counter(sample.fault.reason for sample in samples if sample.fault is not None)
    broken.update(timing.reason for timing in timings if isinstance(timing, Rejected))
    progress.resume(0, len(samples))
    tables, batches = _scored(samples, tested, progress)
    row_bytes, slice_bytes = _result_bytes(tables)
    num_bytes = tuple(len(sample.encoded) for sample in samples if sample.fault is None)
    # Listing a remote tar fetches whole blocks around its headers, which also hold the small images.
    has_small_images = sum(num_bytes) <= BLOCK_BYTES * len(num_bytes)
    is_walked = corpus.format == "webdataset" and not corpus.root.is_local and has_small_images
    return Measured(
        num_shards=len(corpus.shards),
        listed=listed,
        num_stated=stated.num_images if difference is None else None,
        difference=difference,
        num_slices=sum(map(len, lengths)),
        num_sampled=len(samples),
        broken=dict(broken.most_common()),
        num_bytes=num_bytes,
        decode_s=tuple(image.decode_s for image in decoded),
        downscale_s=tuple(image.downscale_s for image in decoded) if tested.max_pixels else (),
        megapixels=tuple(image.image.width * image.image.height / 1e6 for image in decoded),
        seen_megapixels=tuple(image.seen_megapixels for image in decoded),
        formats=dict(Counter(image.image.format for image in decoded).most_common()),
        batches=() if tested.speed else batches,
        speed=tested.speed,
        host_cost=tested.host_cost,
        row_bytes=row_bytes,
        slice_bytes=slice_bytes,
        num_reads=2 if is_walked else 1,
        has_gpu=tested.has_gpu,
        screen=None if tested.screen is None else tested.screen.record,
        screen_s=() if tested.screen is None else tuple(_screen_times(samples, tested.limits, tested.screen)),
    )


def _timed(sample: Sample, tested: EngineUnderTest) -> ImageTiming | Rejected:
    began = time.perf_counter()
    image = decode(sample.encoded, tested.limits)
    decode_s = time.perf_counter() - began
    if isinstance(image, Rejected):
        return image
    if tested.max_pixels is None:
        return ImageTiming(decode_s, image, 0.0, sum(view.shape[0] * view.shape[1] for view in image.views) / 1e6)
    began = time.perf_counter()
    pictures = [prepared(view, tested.max_pixels) for view in image.views]
    downscale_s = time.perf_counter() - began
    return ImageTiming(decode_s, image, downscale_s, sum(p.width * p.height for p in pictures) / 1e6)


def _screen_times(samples: Sequence[Sample], limits: ImageLimits, screen: FittedScreen) -> Iterator[float]:
    """Yield the seconds of the screen for each image, on one thread. The first one is seen twice, as a warm-up."""
    screener, is_warm = Screener(screen), False
    for sample in samples:
        image = decode(sample.encoded, limits) if sample.fault is None else None
        if not isinstance(image, DecodedImage):
            continue
        views = picture_views(image, "", sample.caption)
        if not is_warm:
            screener.probability(views)
            is_warm = True
        began = time.perf_counter()
        screener.probability(views)
        yield time.perf_counter() - began


def _scored(
    samples: Sequence[Sample], tested: EngineUnderTest, progress: Meter
) -> tuple[pa.Table, tuple[tuple[int, float], ...]]:
    """Return the rows, and (images, seconds) of each batch. The first batch is scored twice, as a warm-up."""
    scorer = BatchScorer(tested.engine, tested.limits, DECODE_THREADS)
    tables, batches, left = list[pa.Table](), list[tuple[int, float]](), iter(samples)
    scorer.rows(samples[:BATCH_SAMPLES])
    progress.under_way(0)
    while batch := list(islice(left, BATCH_SAMPLES)):
        started = time.perf_counter()
        tables.append(scorer.rows(batch))
        batches.append((len(batch), time.perf_counter() - started))
        progress.advance(len(batch))
    return pa.concat_tables(tables), tuple(batches)


def _result_bytes(rows: pa.Table) -> tuple[float, float]:
    """Return bytes of one more row, and of a file without rows: from a file of all rows and one of half of them."""
    half = rows.num_rows // 2
    whole_size, half_size = _parquet_size(rows), _parquet_size(rows.slice(0, half))
    row_bytes = (whole_size - half_size) / (rows.num_rows - half)
    return row_bytes, whole_size - row_bytes * rows.num_rows


def _parquet_size(rows: pa.Table) -> int:
    buffer = io.BytesIO()
    pq.write_table(rows, buffer, compression="zstd")
    return buffer.tell()
