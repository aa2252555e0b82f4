"""`privsieve plan SOURCE --engine NAME`: what a scan would take, before any time or money is spent on it."""

from collections.abc import Iterator

import click

from ingest.errors import number_of
from jobs.console.commands import Command
from jobs.console.request_options import QUIET, TEXT_OR_JSON, takes
from jobs.console.terminal import write_table, wrote_json
from jobs.planning.arithmetic import Figure, PlanResult, ScreenPlan
from jobs.planning.planning import TIMES, PlanRequest, in_unit, run_plan, shown, sized
from jobs.runtime.progress import on_terminal
from reports.words import percent


def _with_screen(screen: ScreenPlan) -> Iterator[tuple[str, str, str, str]]:
    """Yield the lines about a screen. One that does not pay is not recommended, whatever the other figures are."""
    advice = "it pays: fewer hours than without" if screen.pays else "NOT recommended: it saves no time here"
    yield "with the screen", "", "", advice
    yield "  screening", *shown(screen.screen_ms, ",.3g", " ms/image"), "one thread of this machine"
    yield ("  engine sees", *shown(screen.seen_share.times(100), ",.3g", " %"), "of the images, by its labels")
    yield "  time", *in_unit(screen.hours, TIMES), "range from the labels of the screen alone"
    if screen.cost:
        yield "  cost", *_cost(screen.cost), "hours × GPUs × price of one"
    yield "  CPUs per GPU", f"{screen.cpus_per_gpu:.2g}", "", "with the screen's own"


OTHER_SPEEDS = (0.25, 0.5, 2.0)
"""Factors of the recorded speed that a plan also shows if the speed was not measured."""


COUNTS = (("billion", 1e9), ("million", 1e6))
"""Used for estimates; what was counted is given in full."""


@click.command(cls=Command)
@takes(PlanRequest)
@TEXT_OR_JSON
@QUIET
def plan(request: PlanRequest, output: str, quiet: bool) -> None:
    """Estimate images, hours, cost and storage of a scan of SOURCE from a small random sample. Writes nothing.

    Up to 16 shards are listed, which reads remote tars of small images whole.
    """
    result = run_plan(request, on_terminal(quiet))
    if not wrote_json(result, output):
        _write_text(result)


def _write_text(result: PlanResult) -> None:
    stated = f"stated next to the shards, and right for the {result.num_listed_shards} that were listed"
    counted = (
        "counted"
        if result.images_are_counted
        else stated
        if result.images_are_stated
        else f"from {result.num_listed_shards} of the shards, at random"
    )
    formats = ", ".join(f"{name} {count}" for name, count in result.formats.items()) or "none"
    broken = ", ".join(f"{reason} {count}" for reason, count in result.broken.items()) or "none"
    reads = "of remote tars twice: the walk over their headers comes in 4 MiB ranges"
    here = "one thread of this machine"
    steps = "decoding, downscaling and preparing" if result.host_ms else "decoding"
    read_twice = result.read_terabytes.value > result.terabytes.value
    with_engines = f"with {result.gpus} {'GPU or process' if result.gpus == 1 else 'GPUs or processes'}"
    lines = [
        ("shards", f"{result.num_shards:,}", "", "listed"),
        ("images", *_counted(result.images), counted),
        ("size", *sized(result.terabytes), f"from {number_of(result.num_sampled, 'sampled image')}"),
        *([("read", *sized(result.read_terabytes), reads)] if read_twice else []),
        ("per image", *sized(result.bytes_per_image.times(1e-12)), "mean"),
        ("picture size", *shown(result.megapixels, ",.3g", " megapixels"), "mean, and 5 to 95 % of the images"),
        ("formats", formats, "", "by content, of the sample"),
        ("broken", percent(result.broken_share), "", broken),
        ("decoding", *shown(result.decode_ms, ",.3g", " ms/image"), here),
        *([("downscaling", *shown(result.downscale_ms, ",.3g", " ms/image"), here)] if result.downscale_ms else []),
        *([("preparing", *shown(result.host_ms, ",.3g", " ms/image"), result.host_origin)] if result.host_ms else []),
        ("speed", *shown(result.images_per_s, ",.4g", " images/s"), result.speed_origin),
        ("time", *in_unit(result.hours, TIMES), with_engines),
        *([("cost", *_cost(result.cost), "hours × GPUs × price of one")] if result.cost else []),
        *(_at_other_speeds(result) if not result.speed_is_measured else []),
        ("CPUs per GPU", f"{result.cpus_per_gpu:.2g}", "", f"speed × time of {steps}"),
        *(_with_screen(result.screen) if result.screen else []),
        ("results", sized(Figure(*[result.result_gigabytes / 1000] * 3))[0], "", "rows of the sample as zstd Parquet"),
    ]
    write_table(["", "estimate", "range 5–95 %", "how"], lines, {1, 2})


def _at_other_speeds(result: PlanResult) -> Iterator[tuple[str, str, str, str]]:
    for factor in OTHER_SPEEDS:
        cost = "" if result.cost is None else f", cost {_cost(result.cost.times(1 / factor))[0]}"
        time, spread = in_unit(result.hours.times(1 / factor), TIMES)
        yield "", time, spread, f"at {factor * result.images_per_s.value:,.4g} images/s{cost}"


def _counted(images: Figure) -> tuple[str, str]:
    if images.low == images.high or images.value < COUNTS[-1][1]:
        return shown(images, ",.0f")
    return in_unit(images, COUNTS)


def _cost(figure: Figure) -> tuple[str, str]:
    """Return cost and range. A source of a few pictures costs less than a cent, not nothing."""
    return ("< 0.01", "") if figure.value > 0 and figure.high < 0.01 else shown(figure, ",.2f")
