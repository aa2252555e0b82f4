"""`privsieve plan SOURCE --run RUN`: begins a scan, and says what the rest of it will take."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from ingest.formats import refuse_without_pictures
from jobs.console.requests import Option, checked_request
from jobs.planning.measuring import begun_scan, listed_shards, num_images, rows_of
from jobs.runtime.progress import SILENT, Feedback
from jobs.scanning.prepared import Prepared, prepare
from jobs.scanning.request import ScanRequest, ScanResources
from reports.statistics.shares import wilson

START_SHARE = 1 / 3
"""Share of the measured time that counts as the start, in which further processes load their engines."""

MIN_MARKS = 3
"""So many counts after the start say how fast the scan is; with fewer, the start is counted, too."""


@checked_request
class PlanRequest:
    price_per_hour: Annotated[
        Annotated[float, Field(ge=0, allow_inf_nan=False)] | None, Option(heading="What it costs")
    ] = None
    """Price of an hour of all that the scan runs on, in any currency."""


ALL_SCANNED = "all scanned"
"""`images_origin` of a scan that came to its end."""


@dataclass(frozen=True)
class PlanResult:
    num_shards: int

    num_images: int
    """Images of the whole scan."""

    images_origin: str

    num_done: int
    """Images that the run has rows of."""

    quarantined_share: float | None
    """Share of the images that could not be judged; None without rows."""

    quarantined_range: tuple[float, float] | None
    """95 % interval of that share of all images; None without rows, and if all were scanned."""

    images_per_s: float
    """Speed of the scan; 0 if no image was scanned."""

    speed_origin: str

    hours: float | None
    """For the whole scan; None if no image was scanned."""

    hours_left: float | None
    """For the images that the run has no rows of, as `hours`."""

    cost: float | None
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
        num, images_origin = _images(prepared, pace.num_images)
    else:
        num, images_origin = result.num_images, ALL_SCANNED
    num_done = pace.num_done if result is None else result.num_images
    speed, rows = speed_of(pace.marks), rows_of(request.run)
    origin = f"measured for {pace.marks[-1][0] - pace.marks[0][0]:.0f} s" if pace.marks else "nothing was left"
    hours = _hours(num, speed)
    price = None if plan is None else plan.price_per_hour
    return PlanResult(
        num_shards=len(prepared.source.shards),
        num_images=num,
        images_origin=images_origin,
        num_done=num_done,
        quarantined_share=rows.num_quarantined / rows.num if rows.num else None,
        quarantined_range=wilson(rows.num_quarantined, rows.num) if 0 < rows.num < num else None,
        images_per_s=speed,
        speed_origin=origin,
        hours=hours,
        hours_left=_hours(max(0, num - num_done), speed),
        cost=None if price is None or hours is None else hours * price,
        result_gigabytes=num * rows.num_bytes / rows.num / 1e9 if rows.num else None,
    )


def _images(prepared: Prepared, number: int | None) -> tuple[int, str]:
    """Return the images of the whole scan, and where the number comes from. number: if it is known for sure."""
    source, request = prepared.source, prepared.request
    if number is not None:
        return number, "counted" if request.sample is None and request.limit is None else "those asked for"
    shards = listed_shards(source)
    counts = num_images(source, shards)
    if len(shards) == len(source.shards):
        return sum(counts), "counted"
    return round(sum(counts) / len(shards) * len(source.shards)), f"from {len(shards)} of the shards, at random"


def speed_of(marks: Sequence[tuple[float, int]]) -> float:
    """Return images per second; 0 if none was done. marks: (seconds, images), from when an engine was loaded."""
    if len(marks) < 2:
        return 0.0
    start_s = marks[0][0] + START_SHARE * (marks[-1][0] - marks[0][0])
    after = [mark for mark in marks if mark[0] >= start_s]
    (begin_s, num_before), (end_s, num_after) = (after if len(after) > MIN_MARKS else marks)[0], marks[-1]
    return (num_after - num_before) / (end_s - begin_s) if end_s > begin_s else 0.0


def _hours(num: int, images_per_s: float) -> float | None:
    if not num:
        return 0.0
    return num / images_per_s / 3600 if images_per_s else None
