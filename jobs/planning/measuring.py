"""A small random sample of a corpus, read, decoded and scored here; nothing is written."""

import io
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from ingest.errors import SourceError
from ingest.formats import Source
from ingest.images.decode import DecodedImage, ImageLimits, Rejected, decode
from ingest.sample import Sample, printable
from ingest.storage.place import BLOCK_BYTES
from jobs.planning.recorded import RecordedHostCost, RecordedSpeed
from jobs.scanning.selection import draw, selected
from scoring.assessment import Engine
from scoring.engines.picture import prepared

if TYPE_CHECKING:
    import pyarrow as pa

MAX_LISTED_SHARDS = 16
"""A corpus of no more shards is listed whole, and its images are counted, not estimated."""

BATCH_SAMPLES = 8
DECODE_THREADS = 2
"""As the actors of a scan have."""


@dataclass(frozen=True)
class EngineUnderTest:
    """Who answers while the sample is measured.

    max_pixels: what the engine downscales decoded pictures to; None where it takes them as they are. speed, host_cost:
    recorded, of the engine that is meant; None where the speed is measured, and where nothing lies between the
    decoded picture and the engine.
    """

    engine: Engine
    limits: ImageLimits
    max_pixels: int | None = None
    speed: RecordedSpeed | None = None
    host_cost: RecordedHostCost | None = None


@dataclass(frozen=True)
class Measured:
    """What a sample told.

    listed: number of images of each listed shard. num_slices: of the listed shards. num_bytes: of each sampled image
    that has bytes. decode_s, downscale_s, megapixels, seen_megapixels: of each image that could be decoded; seconds on
    one thread, size in the file and as the engine sees it, all its frames together. downscale_s is empty where the
    engine takes pictures as they are decoded. formats: decoded images by format. batches: (images, seconds) of each
    scored batch, empty where the speed is recorded. row_bytes: of one more row in a result file. slice_bytes: of a
    result file beside its rows. num_reads: how often a scan reads the source.
    """

    num_shards: int
    listed: tuple[int, ...]
    num_slices: int
    num_sampled: int
    broken: dict[str, int]
    num_bytes: tuple[int, ...]
    decode_s: tuple[float, ...]
    downscale_s: tuple[float, ...]
    megapixels: tuple[float, ...]
    seen_megapixels: tuple[float, ...]
    formats: dict[str, int]
    batches: tuple[tuple[int, float], ...]
    speed: RecordedSpeed | None
    host_cost: RecordedHostCost | None
    row_bytes: float
    slice_bytes: float
    num_reads: int


@dataclass(frozen=True)
class ImageTiming:
    """One sampled image; seconds on one thread. seen_megapixels: of all frames, as the engine sees them."""

    decode_s: float
    image: DecodedImage
    downscale_s: float
    seen_megapixels: float


def measure(corpus: Source, answering: EngineUnderTest, sample_size: int, seed: int) -> Measured:
    """Looks at the sample. SourceError where the listed shards hold no image."""
    shards = sorted(random.Random(seed).sample(corpus.shards, min(MAX_LISTED_SHARDS, len(corpus.shards))))
    lengths = [[len(piece.locators) for piece in corpus.slices(shard)] for shard in shards]
    listed = tuple(map(sum, lengths))
    if not sum(listed):
        raise SourceError(f"{len(shards)} random shards hold no image, {printable(shards[0])} first; nothing to plan")
    chosen = draw(shards, listed, min(sample_size, sum(listed)), seed)
    samples = [sample for shard, indices in chosen.items() for sample in _read(corpus, shard, indices)]
    looked = [_looked(sample, answering) for sample in samples if sample.fault is None]
    good = [one for one in looked if isinstance(one, ImageTiming)]
    broken = Counter(sample.fault[0] for sample in samples if sample.fault is not None)
    broken.update(one.reason for one in looked if isinstance(one, Rejected))
    tables, batches = _scored(samples, answering)
    row_bytes, slice_bytes = _result_bytes(tables)
    num_bytes = tuple(len(sample.encoded) for sample in samples if sample.fault is None)
    # Of a remote tar the walk over the headers fetches whole blocks, in which small images lie with them.
    has_small_images = sum(num_bytes) <= BLOCK_BYTES * len(num_bytes)
    is_walked = corpus.format == "webdataset" and not corpus.root.is_local and has_small_images
    return Measured(
        num_shards=len(corpus.shards),
        listed=listed,
        num_slices=sum(map(len, lengths)),
        num_sampled=len(samples),
        broken=dict(broken.most_common()),
        num_bytes=num_bytes,
        decode_s=tuple(one.decode_s for one in good),
        downscale_s=tuple(one.downscale_s for one in good) if answering.max_pixels else (),
        megapixels=tuple(one.image.width * one.image.height / 1e6 for one in good),
        seen_megapixels=tuple(one.seen_megapixels for one in good),
        formats=dict(Counter(one.image.format for one in good).most_common()),
        batches=() if answering.speed else batches,
        speed=answering.speed,
        host_cost=answering.host_cost,
        row_bytes=row_bytes,
        slice_bytes=slice_bytes,
        num_reads=2 if is_walked else 1,
    )


def _read(corpus: Source, shard: str, indices: Sequence[int]) -> Iterator[Sample]:
    for piece in selected(corpus.slices(shard), shard, list(indices)):
        yield from corpus.read(piece)


def _looked(sample: Sample, answering: EngineUnderTest) -> ImageTiming | Rejected:
    began = time.perf_counter()
    image = decode(sample.encoded, answering.limits)
    decode_s = time.perf_counter() - began
    if isinstance(image, Rejected):
        return image
    if answering.max_pixels is None:
        return ImageTiming(decode_s, image, 0.0, sum(view.shape[0] * view.shape[1] for view in image.views) / 1e6)
    began = time.perf_counter()
    pictures = [prepared(view, answering.max_pixels) for view in image.views]
    downscale_s = time.perf_counter() - began
    return ImageTiming(decode_s, image, downscale_s, sum(p.width * p.height for p in pictures) / 1e6)


def _scored(samples: Sequence[Sample], answering: EngineUnderTest) -> tuple["pa.Table", tuple[tuple[int, float], ...]]:
    """The rows, and (images, seconds) of each batch. The first batch is scored twice: models warm up."""
    import pyarrow as pa

    from jobs.scanning.batch import BatchScorer

    scorer = BatchScorer(answering.engine, answering.limits, DECODE_THREADS)
    tables, batches, left = list["pa.Table"](), list[tuple[int, float]](), iter(samples)
    scorer.rows(samples[:BATCH_SAMPLES])
    while batch := list(islice(left, BATCH_SAMPLES)):
        started = time.perf_counter()
        tables.append(scorer.rows(batch))
        batches.append((len(batch), time.perf_counter() - started))
    return pa.concat_tables(tables), tuple(batches)


def _result_bytes(rows: "pa.Table") -> tuple[float, float]:
    """Bytes of one more row, and of a file beside its rows, told from a file of all rows and one of half of them."""
    half = rows.num_rows // 2
    whole_size, half_size = _parquet_size(rows), _parquet_size(rows.slice(0, half))
    row_bytes = (whole_size - half_size) / (rows.num_rows - half)
    return row_bytes, whole_size - row_bytes * rows.num_rows


def _parquet_size(rows: "pa.Table") -> int:
    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    pq.write_table(rows, buffer, compression="zstd")
    return buffer.tell()
