"""From measurements to figures with ranges.

Ranges hold what chance may have done to the sample: 5th to 95th percentile of 2,000 bootstrap resamples of the listed
shards, the sampled images and the timed batches together. They hold nothing of another machine being faster.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from jobs.planning.measuring import Measured

NUM_RESAMPLES = 2_000
LOW_PERCENT, HIGH_PERCENT = 5, 95
SECONDS_PER_HOUR = 3600


_Draws = npt.NDArray[np.float64]
"""Shape (NUM_RESAMPLES,): the same figure from each resample."""


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

    cost: in the unit of the price, None where no price is given. decode_ms, downscale_ms, host_ms: CPU time of an
    image, None where the engine has no such step. host_origin: where host_ms comes from. cpus_per_gpu: CPU cores that
    do these three for one GPU. result_gigabytes: 10^9 bytes. broken_share, 0–1: of the sample. megapixels: mean, and
    5 to 95 % of the images.
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
    downscale_ms: Figure | None
    host_ms: Figure | None
    host_origin: str
    images_per_s: Figure
    speed_origin: str
    gpus: int
    hours: Figure
    cost: Figure | None
    cpus_per_gpu: float
    result_gigabytes: float


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
    downscale_s, downscale_drawn = _mean(measured.downscale_s), _means(measured.downscale_s, drawn)
    host = measured.host_cost
    host_s = [] if host is None else [host.ms(seen) / 1e3 for seen in measured.seen_megapixels]
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
        downscale_ms=_figure(downscale_s * 1e3, downscale_drawn * 1e3) if measured.downscale_s else None,
        host_ms=_figure(_mean(host_s) * 1e3, _means(host_s, drawn) * 1e3) if host_s else None,
        host_origin="" if host is None else f"not measured here: {host.origin}",
        images_per_s=_figure(speed, speed_drawn),
        speed_origin=origin,
        gpus=gpus,
        hours=_figure(hours, hours_drawn),
        cost=None if price is None else _figure(hours * price, hours_drawn * price),
        cpus_per_gpu=speed * (decode_s + downscale_s + _mean(host_s)),
        result_gigabytes=(images * measured.row_bytes + num_slices * measured.slice_bytes) / 1e9,
    )


def _speed(measured: Measured, drawn: np.random.Generator) -> tuple[float, _Draws, str]:
    """Images per second of one GPU or engine process."""
    if measured.speed is not None:
        constant = measured.speed.images_per_s
        return constant, np.full(NUM_RESAMPLES, constant), f"not measured here: {measured.speed.origin}"
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
