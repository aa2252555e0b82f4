"""`privsieve plan SOURCE --run RUN`: begins a scan, and says what the rest of it will take.

A range covers chance only: 90 % of samples as large give a figure within it. It follows from the spread of the listed
shards and of the times between batches. Relative errors of independent factors add as squares. It does not cover that
another machine may be faster or slower.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
from pydantic import Field

from ingest.formats import refuse_without_pictures
from jobs.console.requests import Option, checked_request
from jobs.planning.measuring import begun_scan, listed_shards, num_images, rows_of
from jobs.runtime.progress import SILENT, Feedback
from jobs.scanning.prepared import Prepared, prepare
from jobs.scanning.request import ScanRequest, ScanResources
from reports.statistics.shares import wilson

Z = 1.645
"""Standard errors on each side of a figure in a range of 90 %."""

START_SHARE = 1 / 3
"""Share of the measured time that counts as the start, in which further processes load their engines."""

MIN_STEPS = 3
"""Batches from which on their spread says something."""

SECONDS_PER_HOUR = 3600


@checked_request
class PlanRequest:
    price_per_hour: Annotated[
        Annotated[float, Field(ge=0, allow_inf_nan=False)] | None, Option(heading="What it costs")
    ] = None
    """Price of an hour of all that the scan runs on, in any currency."""


@dataclass(frozen=True)
class Figure:
    """A figure, and how far chance can move it."""

    value: float

    error: float = 0.0
    """Relative standard error; 0 if it is exact."""

    low: float = field(init=False)
    high: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", self.value * max(0.0, 1 - Z * self.error))
        object.__setattr__(self, "high", self.value * (1 + Z * self.error))

    def times(self, factor: float) -> "Figure":
        return Figure(self.value * factor, self.error)

    def __truediv__(self, other: "Figure") -> "Figure":
        return Figure(self.value / other.value, math.hypot(self.error, other.error))


ALL_SCANNED = "all scanned"
"""`images_origin` of a scan that came to its end."""


@dataclass(frozen=True)
class PlanResult:
    num_shards: int

    images: Figure
    """Images of the whole scan."""

    images_origin: str

    num_done: int
    """Images that the run has rows of."""

    quarantined_share: float | None
    """Share of the images that could not be judged; None without rows."""

    quarantined_range: tuple[float, float] | None
    """95 % interval of that share of all images; None without rows, and if all were scanned."""

    images_per_s: Figure
    """Speed of the scan."""

    speed_origin: str

    hours: Figure | None
    """For the whole scan; None if no image was scanned."""

    hours_left: Figure | None
    """For the images that the run has no rows of, as `hours`."""

    cost: Figure | None
    """Of the whole scan, in the currency of the price; None if no price was given, and as `hours`."""

    result_gigabytes: float | None
    """Size of the rows, 10^9 bytes; None without rows."""


def run_plan(
    request: ScanRequest,
    resources: ScanResources | None = None,
    plan: PlanRequest | None = None,
    feedback: Feedback = SILENT,
) -> PlanResult:
    """Scan for half a minute into the run, and say what the whole scan takes. The same scan continues this one.

    Errors as of `run_scan`.
    """
    resources = resources or ScanResources()
    prepared = prepare(request)
    refuse_without_pictures(prepared.source, request.source)
    pace, result = begun_scan(request, resources, feedback)
    if result is None:
        images, images_origin = _images(prepared, pace.num_images)
    else:
        images, images_origin = Figure(result.num_images), ALL_SCANNED
    num_done = pace.num_done if result is None else result.num_images
    speed, rows = speed_of(pace.marks), rows_of(request.run)
    origin = f"measured for {pace.marks[-1][0] - pace.marks[0][0]:.0f} s" if pace.marks else "nothing was left"
    hours, remaining = _hours(images, speed), _hours(Figure(max(0.0, images.value - num_done), images.error), speed)
    price = None if plan is None else plan.price_per_hour
    return PlanResult(
        num_shards=len(prepared.source.shards),
        images=images,
        images_origin=images_origin,
        num_done=num_done,
        quarantined_share=rows.num_quarantined / rows.num if rows.num else None,
        quarantined_range=wilson(rows.num_quarantined, rows.num) if 0 < rows.num < images.value else None,
        images_per_s=speed,
        speed_origin=origin,
        hours=hours,
        hours_left=remaining,
        cost=None if price is None or hours is None else hours.times(price),
        result_gigabytes=images.value * rows.num_bytes / rows.num / 1e9 if rows.num else None,
    )


def _images(prepared: Prepared, number: int | None) -> tuple[Figure, str]:
    """Return the images of the whole scan, and where the number comes from. number: if it is known for sure."""
    source, request = prepared.source, prepared.request
    if number is not None:
        return Figure(number), "counted" if request.sample is None and request.limit is None else "those asked for"
    shards = listed_shards(source)
    counts = num_images(source, shards)
    if len(shards) == len(source.shards):
        return Figure(sum(counts)), "counted"
    mean = _mean(counts)
    return Figure(mean.value * len(source.shards), mean.error), f"from {len(shards)} of the shards, at random"


def speed_of(marks: Sequence[tuple[float, int]]) -> Figure:
    """Return images per second; 0 if none was done. marks: (seconds, images), from when an engine was loaded."""
    if len(marks) < 2:
        return Figure(0.0)
    start_s = marks[0][0] + START_SHARE * (marks[-1][0] - marks[0][0])
    after = [mark for mark in marks if mark[0] >= start_s]
    steps = np.diff(np.array(after if len(after) > MIN_STEPS else marks, np.float64), axis=0)
    seconds, images = steps.T
    if not seconds.sum():
        return Figure(0.0)
    if len(steps) < MIN_STEPS:
        return Figure(images.sum() / seconds.sum(), 1 / math.sqrt(len(steps)))  # as of a count of so many
    # The error of a ratio of two sums (Cochran, "Sampling Techniques", 3rd ed. 1977, section 2.11).
    per_image_s = seconds.sum() / images.sum()
    deviation = float(np.std(seconds - per_image_s * images, ddof=1))
    return Figure(1 / per_image_s, deviation * math.sqrt(len(steps)) / seconds.sum())


def _hours(images: Figure, speed: Figure) -> Figure | None:
    if not images.value:
        return Figure(0.0)
    return images / speed.times(SECONDS_PER_HOUR) if speed.value else None


def _mean(values: Sequence[float]) -> Figure:
    """Return the mean with its standard error; 0 without values."""
    if not values:
        return Figure(0.0)
    mean = float(np.mean(values))
    if len(values) < 2 or not mean:
        return Figure(mean)
    return Figure(mean, float(np.std(values, ddof=1)) / math.sqrt(len(values)) / mean)
