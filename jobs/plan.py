"""`privsieve plan SOURCE --engine NAME`: what a scan would take, before anything is spent on it.

Some random shards are listed, a small random sample of their images is read, decoded and scored here; nothing is
written. Measuring (`measure`) and arithmetic (`plan_of`) are apart.

Ranges hold what chance may have done to the sample: 5th to 95th percentile of 2,000 bootstrap resamples of the listed
shards, the sampled images and the timed batches together. They hold nothing of another machine being faster.
"""

import io
import json
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

import click
import numpy as np
import numpy.typing as npt

from ingest.errors import EngineError, SourceError
from ingest.formats import Source, open_source
from ingest.images import DecodedImage, ImageLimits, Rejected, decode
from ingest.sample import Sample, printable
from ingest.storage import BLOCK_BYTES
from jobs.engine_options import engine_options, said
from jobs.selection import draw, selected
from scoring.assessment import Engine, EngineOptions
from scoring.engines import canned, engine_module

if TYPE_CHECKING:
    import pyarrow as pa

MAX_LISTED_SHARDS = 16
"""A corpus of no more shards is listed whole, and its images are counted, not estimated."""

BATCH_SAMPLES = 8
DECODE_THREADS = 2
"""As the actors of a scan have."""

NUM_RESAMPLES = 2_000
LOW_PERCENT, HIGH_PERCENT = 5, 95
SECONDS_PER_HOUR = 3600


@dataclass(frozen=True)
class Recorded:
    """A speed that was not measured here. images_per_s: of one GPU, for pictures downscaled to `max_side_px`.

    origin: what the figure is and is not.
    """

    images_per_s: float
    max_side_px: int
    origin: str


RECORDED: dict[str, Recorded] = {
    "vllm": Recorded(80.0, 512, "the target for an 8B model on one H200 with pictures of 512 px; not a measurement"),
}
"""Engine name -> the figure for where the engine cannot run."""


@dataclass(frozen=True)
class Measured:
    """What a sample told.

    listed: number of images of each listed shard. num_slices: of the listed shards. num_bytes, decode_s, megapixels:
    one value per sampled image that has bytes, and per image that could be decoded (seconds on one thread). formats:
    decoded images by format. batches: (images, seconds) of each scored batch, empty where the speed is `recorded`.
    row_bytes: of one more row in a result file. slice_bytes: of a result file beside its rows. num_reads: how often a
    scan reads the source.
    """

    num_shards: int
    listed: tuple[int, ...]
    num_slices: int
    num_sampled: int
    broken: dict[str, int]
    num_bytes: tuple[int, ...]
    decode_s: tuple[float, ...]
    megapixels: tuple[float, ...]
    formats: dict[str, int]
    batches: tuple[tuple[int, float], ...]
    recorded: Recorded | None
    row_bytes: float
    slice_bytes: float
    num_reads: int


@dataclass(frozen=True)
class Figure:
    """A figure and its range; low and high are the figure itself where it is exact."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Plan:
    """terabytes: encoded images, 10^12 bytes. read_terabytes: of them, what a scan asks the source's storage for.

    images_per_s: of one GPU or engine process. hours: with all of them.

    cost: in the unit of the price, None where no price is given. cpus_per_gpu: CPU cores that only decode for it.
    result_gigabytes: 10^9 bytes. broken_share, 0–1: of the sample. megapixels: mean, and 5 to 95 % of the images.
    """

    num_shards: int
    num_listed_shards: int
    num_sampled: int
    images_are_counted: bool
    images: Figure
    terabytes: Figure
    read_terabytes: Figure
    bytes_per_image: Figure
    megapixels: Figure
    formats: dict[str, int]
    broken: dict[str, int]
    broken_share: float
    decode_ms: Figure
    images_per_s: Figure
    speed_origin: str
    gpus: int
    hours: Figure
    cost: Figure | None
    cpus_per_gpu: float
    result_gigabytes: float


@click.command()
@click.argument("source")
@click.option("--engine", default="detectors", show_default=True, help="Who would answer.")
@engine_options
@click.option("--gpus", type=click.IntRange(min=1), default=1, show_default=True, help="GPUs, or engine processes.")
@click.option("--price-per-hour", type=click.FloatRange(min=0), help="Of one GPU or process, in any currency.")
@click.option("--sample-size", type=click.IntRange(min=1), default=64, show_default=True, help="Images to look at.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the sample.")
@click.option("--source-format", help="As --format of scan: webdataset, tree or parquet; recognised where not said.")
@click.option("--category", help="As of scan.")
@click.option("--format", "output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def plan(
    source: str,
    engine: str,
    gpus: int,
    price_per_hour: float | None,
    sample_size: int,
    seed: int,
    source_format: str | None,
    category: str | None,
    output: str,
) -> None:
    """Estimate images, hours, cost and storage of a scan of SOURCE from a small random sample. Writes nothing.

    Up to 16 shards are listed, which reads remote tars of small images whole.
    """
    answering, limits, recorded = _engine(engine, said())
    corpus = open_source(source, source_format, category)
    measured = measure(corpus, answering, limits, recorded, sample_size, seed)
    found = plan_of(measured, gpus, price_per_hour)
    if output == "json":
        click.echo(json.dumps(asdict(found), indent=1))
    else:
        _write_text(found)


def _engine(name: str, options: EngineOptions) -> tuple[Engine, ImageLimits, Recorded | None]:
    """The engine, or, where it cannot run here and a speed is recorded, canned answers and the record."""
    module = engine_module(name)
    try:
        description = module.describe(options)
        return module.load(options), ImageLimits(max_side_px=description.max_side_px), None
    except EngineError as error:
        if name not in RECORDED:
            raise
        recorded = replace(RECORDED[name], origin=f"{RECORDED[name].origin} ({error})")
        return canned.load(EngineOptions()), ImageLimits(max_side_px=recorded.max_side_px), recorded


# ---- measuring --------------------------------------------------------------------------------------------------


def measure(
    corpus: Source, engine: Engine, limits: ImageLimits, recorded: Recorded | None, sample_size: int, seed: int
) -> Measured:
    """Looks at the sample. SourceError where the listed shards hold no image."""
    shards = sorted(random.Random(seed).sample(corpus.shards, min(MAX_LISTED_SHARDS, len(corpus.shards))))
    lengths = [[len(piece.locators) for piece in corpus.slices(shard)] for shard in shards]
    listed = tuple(map(sum, lengths))
    if not sum(listed):
        raise SourceError(f"{len(shards)} random shards hold no image, {printable(shards[0])} first; nothing to plan")
    chosen = draw(shards, listed, min(sample_size, sum(listed)), seed)
    samples = [sample for shard, indices in chosen.items() for sample in _read(corpus, shard, indices)]
    timed = [_decoded(sample, limits) for sample in samples if sample.fault is None]
    good = [(seconds, image) for seconds, image in timed if not isinstance(image, Rejected)]
    broken = Counter(sample.fault[0] for sample in samples if sample.fault is not None)
    broken.update(image.reason for _, image in timed if isinstance(image, Rejected))
    tables, batches = _scored(samples, engine, limits)
    row_bytes, slice_bytes = _result_bytes(tables)
    num_bytes = tuple(len(sample.encoded) for sample in samples if sample.fault is None)
    # Of a remote tar the walk over the headers fetches whole blocks, in which small images lie with them.
    is_walked = corpus.format == "webdataset" and not corpus.root.is_local and _mean(num_bytes) <= BLOCK_BYTES
    return Measured(
        num_shards=len(corpus.shards),
        listed=listed,
        num_slices=sum(map(len, lengths)),
        num_sampled=len(samples),
        broken=dict(broken.most_common()),
        num_bytes=num_bytes,
        decode_s=tuple(seconds for seconds, _ in good),
        megapixels=tuple(image.width * image.height / 1e6 for _, image in good),
        formats=dict(Counter(image.format for _, image in good).most_common()),
        batches=() if recorded else batches,
        recorded=recorded,
        row_bytes=row_bytes,
        slice_bytes=slice_bytes,
        num_reads=2 if is_walked else 1,
    )


def _read(corpus: Source, shard: str, indices: Sequence[int]) -> Iterator[Sample]:
    for piece in selected(corpus.slices(shard), shard, list(indices)):
        yield from corpus.read(piece)


def _decoded(sample: Sample, limits: ImageLimits) -> tuple[float, DecodedImage | Rejected]:
    """Seconds on one thread, and what came out."""
    started = time.perf_counter()
    image = decode(sample.encoded, limits)
    return time.perf_counter() - started, image


def _scored(
    samples: Sequence[Sample], engine: Engine, limits: ImageLimits
) -> tuple["pa.Table", tuple[tuple[int, float], ...]]:
    """The rows, and (images, seconds) of each batch. The first batch is scored twice: models warm up."""
    import pyarrow as pa

    from jobs.batch import BatchScorer

    scorer = BatchScorer(engine, limits, DECODE_THREADS)
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


# ---- arithmetic -------------------------------------------------------------------------------------------------

_Draws = npt.NDArray[np.float64]
"""Shape (NUM_RESAMPLES,): the same figure from each resample."""


def plan_of(measured: Measured, gpus: int, price_per_hour: float | None) -> Plan:
    """Figures from measurements; the same measurements always give the same plan."""
    drawn = np.random.default_rng(0)
    is_counted = len(measured.listed) == measured.num_shards
    images = float(sum(measured.listed)) if is_counted else _mean(measured.listed) * measured.num_shards
    num_reads = measured.num_reads
    images_drawn = (
        np.full(NUM_RESAMPLES, images) if is_counted else _means(measured.listed, drawn) * measured.num_shards
    )
    num_bytes, bytes_drawn = _mean(measured.num_bytes), _means(measured.num_bytes, drawn)
    decode_s, decode_drawn = _mean(measured.decode_s), _means(measured.decode_s, drawn)
    speed, speed_drawn, origin = _speed(measured, drawn)
    hours = images / (speed * gpus) / SECONDS_PER_HOUR
    hours_drawn = images_drawn / (speed_drawn * gpus) / SECONDS_PER_HOUR
    price = None if price_per_hour is None else price_per_hour * gpus
    num_slices = measured.num_slices * measured.num_shards / len(measured.listed)
    megapixels = np.array(measured.megapixels or (0.0,))
    return Plan(
        num_shards=measured.num_shards,
        num_listed_shards=len(measured.listed),
        num_sampled=measured.num_sampled,
        images_are_counted=is_counted,
        images=_figure(images, images_drawn),
        terabytes=_figure(images * num_bytes / 1e12, images_drawn * bytes_drawn / 1e12),
        read_terabytes=_figure(images * num_bytes / 1e12 * num_reads, images_drawn * bytes_drawn / 1e12 * num_reads),
        bytes_per_image=_figure(num_bytes, bytes_drawn),
        megapixels=_figure(float(megapixels.mean()), megapixels),
        formats=measured.formats,
        broken=measured.broken,
        broken_share=sum(measured.broken.values()) / measured.num_sampled,
        decode_ms=_figure(decode_s * 1e3, decode_drawn * 1e3),
        images_per_s=_figure(speed, speed_drawn),
        speed_origin=origin,
        gpus=gpus,
        hours=_figure(hours, hours_drawn),
        cost=None if price is None else _figure(hours * price, hours_drawn * price),
        cpus_per_gpu=speed * decode_s,
        result_gigabytes=(images * measured.row_bytes + num_slices * measured.slice_bytes) / 1e9,
    )


def _speed(measured: Measured, drawn: np.random.Generator) -> tuple[float, _Draws, str]:
    """Images per second of one GPU or engine process."""
    if measured.recorded is not None:
        constant = measured.recorded.images_per_s
        return constant, np.full(NUM_RESAMPLES, constant), f"not measured here: {measured.recorded.origin}"
    batches = np.array(measured.batches, dtype=np.float64)
    resampled = batches[drawn.integers(0, len(batches), (NUM_RESAMPLES, len(batches)))].sum(axis=1)
    num_images, seconds = batches.sum(axis=0)
    origin = f"measured on this machine with one engine process, {num_images:.0f} images"
    return float(num_images / seconds), resampled[:, 0] / resampled[:, 1], origin


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _means(values: Sequence[float], drawn: np.random.Generator) -> _Draws:
    """Means of resamples of the values, each as large as they are."""
    given = np.array(values or (0.0,), dtype=np.float64)
    means: _Draws = given[drawn.integers(0, len(given), (NUM_RESAMPLES, len(given)))].mean(axis=1)
    return means


def _figure(value: float, drawn: _Draws) -> Figure:
    low, high = np.percentile(drawn, (LOW_PERCENT, HIGH_PERCENT))
    return Figure(value, float(low), float(high))


# ---- showing ----------------------------------------------------------------------------------------------------


def _write_text(found: Plan) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from jobs.sql import console

    counted = "counted" if found.images_are_counted else f"from {found.num_listed_shards} of the shards, at random"
    formats = ", ".join(f"{name} {count}" for name, count in found.formats.items()) or "none"
    broken = ", ".join(f"{reason} {count}" for reason, count in found.broken.items()) or "none"
    reads = "of remote tars twice: the walk over their headers comes in 4 MiB ranges"
    read_twice = found.read_terabytes.value > found.terabytes.value
    lines = [
        ("shards", f"{found.num_shards:,}", "", "listed"),
        ("images", *_shown(found.images, ",.0f"), counted),
        ("size", *_shown(found.terabytes, ",.6g", " TB"), f"from {found.num_sampled} sampled images"),
        *([("read", *_shown(found.read_terabytes, ",.6g", " TB"), reads)] if read_twice else []),
        ("bytes per image", *_shown(found.bytes_per_image, ",.0f"), "mean"),
        ("megapixels", *_shown(found.megapixels, ",.3g"), "mean, and 5 to 95 % of the images"),
        ("formats", formats, "", "by content, of the sample"),
        ("broken", f"{found.broken_share:.1%}", "", broken),
        ("decoding", *_shown(found.decode_ms, ",.3g", " ms/image"), "one thread of this machine"),
        ("speed", *_shown(found.images_per_s, ",.4g", " images/s"), found.speed_origin),
        ("hours", *_shown(found.hours, ",.3g"), f"with {found.gpus} GPUs or processes"),
        *([("cost", *_shown(found.cost, ",.2f"), "hours × GPUs × price")] if found.cost else []),
        ("CPUs per GPU", f"{found.cpus_per_gpu:.2g}", "", "speed × decoding time"),
        ("results", f"{found.result_gigabytes:,.3g} GB", "", "rows of the sample as zstd Parquet"),
    ]
    table = Table(box=box.SIMPLE)
    for head in ("", "estimate", "range 5–95 %", "how"):
        table.add_column(Text(head), justify="right" if head.startswith(("e", "r")) else "left", overflow="fold")
    for line in lines:
        table.add_row(*map(Text, line))
    console().print(table)


def _shown(figure: Figure, form: str, unit: str = "") -> tuple[str, str]:
    low, high = format(figure.low, form), format(figure.high, form)
    return f"{format(figure.value, form)}{unit}", "" if figure.low == figure.high else f"{low} – {high}"
