"""From measurements to figures with ranges.

A range covers chance in the sample only: 90 % of samples as large give a figure within it. It follows from the spread
of the listed shards, the sampled images and the timed batches. Relative errors of independent factors add as squares.
It does not cover that another machine may be faster or slower.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ingest.errors import number_of
from jobs.planning.measuring import Measured
from reports.statistics.shares import clopper_pearson
from scoring.screen.record import ScreenRecord

CONFIDENCE = 0.9
Z = 1.645
"""Standard errors on each side of a figure in a range of this confidence."""

SECONDS_PER_HOUR = 3600


@dataclass(frozen=True)
class Figure:
    """A figure and its range; where it is exact, low and high are the figure itself."""

    value: float
    low: float
    high: float

    def times(self, factor: float) -> "Figure":
        return Figure(self.value * factor, self.low * factor, self.high * factor)


@dataclass(frozen=True)
class _Rough:
    """A number, and how far chance can move it."""

    value: float

    error: float = 0.0
    """Relative standard error."""

    def __mul__(self, other: "_Rough | float") -> "_Rough":
        factor = other if isinstance(other, _Rough) else _Rough(other)
        return _Rough(self.value * factor.value, math.hypot(self.error, factor.error))

    def __truediv__(self, other: "_Rough") -> "_Rough":
        return _Rough(self.value / other.value, math.hypot(self.error, other.error))

    def figure(self) -> Figure:
        reach = Z * self.error * self.value
        return Figure(self.value, max(0.0, self.value - reach), self.value + reach)


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
    decode_ms: Figure
    """CPU time per image."""

    downscale_ms: Figure | None
    """CPU time per image; None if the engine takes pictures as they are decoded."""

    host_ms: Figure | None
    """CPU time per image from the downscaled picture to the model; None if there is no such step."""

    host_origin: str
    images_per_s: Figure
    """Speed of one GPU or engine process."""

    speed_origin: str
    speed_is_measured: bool
    """Whether an engine was timed; else the speed is a recorded one."""

    gpus: int
    hours: Figure
    """With all GPUs or processes."""

    cost: Figure | None
    """In the currency of the price; None if no price was given."""

    cpus_per_gpu: float
    """CPU cores that decode, downscale and prepare pictures for one GPU."""

    result_gigabytes: float
    """10^9 bytes."""

    screen: ScreenPlan | None = None


def plan_of(measured: Measured, gpus: int, price_per_hour: float | None) -> PlanResult:
    """Work out the plan. The same measurements always give the same plan."""
    is_counted = len(measured.listed) == measured.num_shards
    is_stated = not is_counted and measured.num_stated is not None
    if is_counted or is_stated:
        images = _Rough(float(sum(measured.listed) if is_counted else measured.num_stated or 0))
    else:
        images = _mean(measured.listed) * measured.num_shards
    num_bytes, decode_s, downscale_s = map(_mean, (measured.num_bytes, measured.decode_s, measured.downscale_s))
    terabytes = images * num_bytes * 1e-12
    host = measured.host_cost
    host_s = _mean([] if host is None else [host.ms(megapixels) / 1e3 for megapixels in measured.seen_megapixels])
    speed, origin = _speed(measured)
    hours = images / (speed * (gpus * SECONDS_PER_HOUR))
    price = None if price_per_hour is None else price_per_hour * gpus
    num_slices = measured.num_slices * measured.num_shards / len(measured.listed)
    megapixels = np.array(measured.megapixels or (0.0,))
    cpu_s = (decode_s.value, downscale_s.value + host_s.value)
    return PlanResult(
        num_shards=measured.num_shards,
        num_listed_shards=len(measured.listed),
        num_sampled=measured.num_sampled,
        images_are_counted=is_counted,
        images_are_stated=is_stated,
        images=images.figure(),
        terabytes=terabytes.figure(),
        read_terabytes=(terabytes * measured.num_reads).figure(),
        bytes_per_image=num_bytes.figure(),
        megapixels=Figure(float(megapixels.mean()), *map(float, np.percentile(megapixels, (5, 95)))),
        formats=measured.formats,
        broken=measured.broken,
        broken_share=sum(measured.broken.values()) / measured.num_sampled,
        decode_ms=(decode_s * 1e3).figure(),
        downscale_ms=(downscale_s * 1e3).figure() if measured.downscale_s else None,
        host_ms=(host_s * 1e3).figure() if host is not None and measured.seen_megapixels else None,
        host_origin="" if host is None else f"not measured here: {host.origin}",
        images_per_s=speed.figure(),
        speed_origin=origin,
        speed_is_measured=measured.speed is None,
        gpus=gpus,
        hours=hours.figure(),
        cost=None if price is None else (hours * price).figure(),
        cpus_per_gpu=speed.value * sum(cpu_s),
        result_gigabytes=(images.value * measured.row_bytes + num_slices * measured.slice_bytes) / 1e9,
        screen=None
        if measured.screen is None
        else _screened(measured, measured.screen, images.value, speed.value, gpus, price, cpu_s),
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
    labelled, measured_s = screen.labelled, _mean(measured.screen_s)
    screen_s = measured_s.value
    num_seen = labelled.num_pictures - labelled.num_screened
    ends = clopper_pearson(num_seen, labelled.num_pictures, CONFIDENCE)
    shares = [num_seen / labelled.num_pictures, *(float(end) for end in ends)]
    share_seen = Figure(*(share + screen.guard_share * (1 - share) for share in shares))

    def seconds(share: float) -> float:
        """Return seconds per image of an engine that sees this share of the images; all of them are decoded."""
        own_s = 0.0 if measured.has_gpu else screen_s + (1 - share) * cpu_s[0]
        return own_s + share / speed

    def hours(share: float) -> float:
        return images * seconds(share) / gpus / SECONDS_PER_HOUR

    taken = Figure(hours(share_seen.value), hours(share_seen.low), hours(share_seen.high))
    return ScreenPlan(
        screen_ms=(measured_s * 1e3).figure(),
        seen_share=share_seen,
        hours=taken,
        cost=None if price is None else taken.times(price),
        cpus_per_gpu=speed * ((cpu_s[0] + screen_s) / share_seen.value + cpu_s[1]),
        pays=seconds(share_seen.high) < 1 / speed,
    )


def _speed(measured: Measured) -> tuple[_Rough, str]:
    """Return images per second of one GPU or engine process, and where the number comes from."""
    if measured.speed is not None:
        return _Rough(measured.speed.images_per_s), f"not measured here: {measured.speed.origin}"
    counts, seconds = zip(*measured.batches, strict=True)
    origin = f"measured on this machine with one engine process, {number_of(sum(counts), 'image')}"
    return _Rough(1.0) / _mean(seconds, counts), origin


def _mean(values: Sequence[float], sizes: Sequence[float] | None = None) -> _Rough:
    """Return the mean of values, or the sum of values for each unit of their sizes; 0 without values.

    The error is that of a ratio of two sums (Cochran, "Sampling Techniques", 3rd ed. 1977, section 2.11).
    """
    if not values:
        return _Rough(0.0)
    amounts, units = np.array(values, np.float64), np.array(sizes or [1.0] * len(values), np.float64)
    rate, num = float(amounts.sum() / units.sum()), len(amounts)
    if num < 2 or not rate:
        return _Rough(rate)
    deviation = math.sqrt(float(((amounts - rate * units) ** 2).sum()) / (num - 1))
    return _Rough(rate, deviation / math.sqrt(num) / (float(units.mean()) * rate))
