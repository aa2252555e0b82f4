"""From measurements to figures with ranges.

A range covers chance in the sample only: 5th to 95th percentile of 2,000 bootstrap resamples of the listed shards, the
sampled images and the timed batches together. It does not cover that another machine may be faster or slower.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ingest.errors import number_of
from jobs.plan.measuring import Measured
from reports.statistics.shares import clopper_pearson
from scoring.screen.record import ScreenRecord

NUM_RESAMPLES = 2_000
LOW_PERCENT, HIGH_PERCENT = 5, 95
SECONDS_PER_HOUR = 3600


_Draws = npt.NDArray[np.float64]
"""Shape (NUM_RESAMPLES,): the same figure from each resample."""


@dataclass(frozen=True)
class Figure:
    """A figure and its range; where it is exact, low and high are the figure itself."""

    value: float

    low: float
    """5th percentile."""

    high: float
    """95th percentile."""


@dataclass(frozen=True)
class ScreenPlan:
    """What the same scan takes with a screen in front of the engine."""

    screen_ms: Figure
    """CPU time per image."""

    seen_share: Figure
    """Share of the images that the engine sees: the guarded ones, and those that pass, by the labels of the screen. The
    range is the exact 90 % interval of these labels."""

    hours: Figure
    """With all GPUs or processes."""

    cost: Figure | None
    cpus_per_gpu: float

    pays: bool
    """Whether it takes less time than the same scan without the screen, at both ends of the range."""


@dataclass(frozen=True)
class PlanResult:
    num_shards: int

    num_listed_shards: int
    """Shards whose images were counted."""

    num_sampled: int
    """Images that were read."""

    images_are_counted: bool
    """Whether all shards were listed."""

    images_are_stated: bool
    """Whether the number is stated next to the shards, and right for those that were listed."""

    images: Figure

    terabytes: Figure
    """Encoded images, 10^12 bytes."""

    read_terabytes: Figure
    """What a scan reads from the source's storage, 10^12 bytes."""

    bytes_per_image: Figure

    megapixels: Figure
    """The mean; its range is that of the images, 5 to 95 %."""

    formats: dict[str, int]
    """Image format, by content -> images of the sample."""

    broken: dict[str, int]
    """Reason -> images of the sample that would be quarantined."""

    broken_share: float
    """Share of the sample, 0–1."""

    decode_ms: Figure
    """CPU time per image."""

    downscale_ms: Figure | None
    """CPU time per image; None if the engine takes pictures as they are decoded."""

    host_ms: Figure | None
    """CPU time per image from the downscaled picture to the model; None if there is no such step."""

    host_origin: str
    """Where `host_ms` comes from."""

    images_per_s: Figure
    """Speed of one GPU or engine process."""

    speed_origin: str
    """Where `images_per_s` comes from."""

    speed_is_measured: bool
    """Whether an engine was timed; else the speed is a recorded one."""

    gpus: int
    """GPUs or engine processes."""

    hours: Figure
    """With all GPUs or processes."""

    cost: Figure | None
    """In the currency of the price; None if no price was given."""

    cpus_per_gpu: float
    """CPU cores that decode, downscale and prepare pictures for one GPU."""

    result_gigabytes: float
    """10^9 bytes."""

    screen: ScreenPlan | None = None
    """None for a plan without a screen."""


def plan_of(measured: Measured, gpus: int, price_per_hour: float | None) -> PlanResult:
    """Work out the plan. The same measurements always give the same plan."""
    rng = np.random.default_rng(0)
    is_counted = len(measured.listed) == measured.num_shards
    is_stated = not is_counted and measured.num_stated is not None
    images = float(sum(measured.listed)) if is_counted else _mean(measured.listed) * measured.num_shards
    num_reads = measured.num_reads
    images_drawn = np.full(NUM_RESAMPLES, images) if is_counted else _means(measured.listed, rng) * measured.num_shards
    if is_stated:
        images = float(measured.num_stated or 0)
        images_drawn = np.full(NUM_RESAMPLES, images)
    num_bytes, bytes_drawn = _mean(measured.num_bytes), _means(measured.num_bytes, rng)
    decode_s, decode_drawn = _mean(measured.decode_s), _means(measured.decode_s, rng)
    downscale_s, downscale_drawn = _mean(measured.downscale_s), _means(measured.downscale_s, rng)
    host = measured.host_cost
    host_s = [] if host is None else [host.ms(seen) / 1e3 for seen in measured.seen_megapixels]
    speed, speed_drawn, origin = _speed(measured, rng)
    hours = images / (speed * gpus) / SECONDS_PER_HOUR
    hours_drawn = images_drawn / (speed_drawn * gpus) / SECONDS_PER_HOUR
    price = None if price_per_hour is None else price_per_hour * gpus
    num_slices = measured.num_slices * measured.num_shards / len(measured.listed)
    megapixels = np.array(measured.megapixels or (0.0,))
    return PlanResult(
        num_shards=measured.num_shards,
        num_listed_shards=len(measured.listed),
        num_sampled=measured.num_sampled,
        images_are_counted=is_counted,
        images_are_stated=is_stated,
        images=_figure(images, images_drawn),
        terabytes=_figure(images * num_bytes / 1e12, images_drawn * bytes_drawn / 1e12),
        read_terabytes=_figure(images * num_bytes / 1e12 * num_reads, images_drawn * bytes_drawn / 1e12 * num_reads),
        bytes_per_image=_figure(num_bytes, bytes_drawn),
        megapixels=_figure(float(megapixels.mean()), megapixels),
        formats=measured.formats,
        broken=measured.broken,
        broken_share=sum(measured.broken.values()) / measured.num_sampled,
        decode_ms=_figure(decode_s * 1e3, decode_drawn * 1e3),
        downscale_ms=_figure(downscale_s * 1e3, downscale_drawn * 1e3) if measured.downscale_s else None,
        host_ms=_figure(_mean(host_s) * 1e3, _means(host_s, rng) * 1e3) if host_s else None,
        host_origin="" if host is None else f"not measured here: {host.origin}",
        images_per_s=_figure(speed, speed_drawn),
        speed_origin=origin,
        speed_is_measured=measured.speed is None,
        gpus=gpus,
        hours=_figure(hours, hours_drawn),
        cost=None if price is None else _figure(hours * price, hours_drawn * price),
        cpus_per_gpu=speed * (decode_s + downscale_s + _mean(host_s)),
        result_gigabytes=(images * measured.row_bytes + num_slices * measured.slice_bytes) / 1e9,
        screen=None
        if measured.screen is None
        else _screened(measured, measured.screen, images, speed, gpus, price, (decode_s, downscale_s + _mean(host_s))),
    )


def _screened(
    measured: Measured,
    screen: ScreenRecord,
    images: float,
    speed: float,
    gpus: int,
    price: float | None,
    cpu_s: tuple[float, float],
) -> ScreenPlan:
    """Return the plan with a screen.

    speed: images/s of one engine that sees all. price: of all GPUs for an hour. cpu_s: seconds of decoding, for every
    image; and of preparing, for images that the engine sees. If the engine uses no GPU, the screen shares its process
    and takes its time; next to a GPU it takes CPUs.
    """
    labelled, screen_s = screen.labelled, _mean(measured.screen_s)
    num_seen = labelled.num_pictures - labelled.num_screened
    ends = clopper_pearson(num_seen, labelled.num_pictures, (HIGH_PERCENT - LOW_PERCENT) / 100)
    shares = [num_seen / labelled.num_pictures, *(float(end) for end in ends)]
    seen = Figure(*(share + screen.guard_share * (1 - share) for share in shares))

    def seconds(share: float) -> float:
        """Return seconds per image of an engine that sees this share of the images; all of them are decoded."""
        own_s = 0.0 if measured.has_gpu else screen_s + (1 - share) * cpu_s[0]
        return own_s + share / speed

    def hours(share: float) -> float:
        return images * seconds(share) / gpus / SECONDS_PER_HOUR

    taken = Figure(hours(seen.value), hours(seen.low), hours(seen.high))
    return ScreenPlan(
        screen_ms=_figure(screen_s * 1e3, _means(measured.screen_s, np.random.default_rng(0)) * 1e3),
        seen_share=seen,
        hours=taken,
        cost=None if price is None else Figure(taken.value * price, taken.low * price, taken.high * price),
        cpus_per_gpu=speed * ((cpu_s[0] + screen_s) / seen.value + cpu_s[1]),
        pays=seconds(seen.high) < 1 / speed,
    )


def _speed(measured: Measured, rng: np.random.Generator) -> tuple[float, _Draws, str]:
    """Return images per second of one GPU or engine process."""
    if measured.speed is not None:
        constant = measured.speed.images_per_s
        return constant, np.full(NUM_RESAMPLES, constant), f"not measured here: {measured.speed.origin}"
    batches = np.array(measured.batches, dtype=np.float64)
    resampled = batches[rng.integers(0, len(batches), (NUM_RESAMPLES, len(batches)))].sum(axis=1)
    num_images, seconds = batches.sum(axis=0)
    origin = f"measured on this machine with one engine process, {number_of(int(num_images), 'image')}"
    return float(num_images / seconds), resampled[:, 0] / resampled[:, 1], origin


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def _means(values: Sequence[float], rng: np.random.Generator) -> _Draws:
    """Return the means of resamples, each with as many values as were given."""
    given = np.array(values or (0.0,), dtype=np.float64)
    means: _Draws = given[rng.integers(0, len(given), (NUM_RESAMPLES, len(given)))].mean(axis=1)
    return means


def _figure(value: float, draws: _Draws) -> Figure:
    low, high = np.percentile(draws, (LOW_PERCENT, HIGH_PERCENT))
    return Figure(value, float(low), float(high))
