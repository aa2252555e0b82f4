"""`privsieve plan SOURCE --engine NAME`: what a scan would take, before any time or money is spent on it.

Nothing is written. The work is in `jobs.plan`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Annotated

import click
from pydantic import Field

from ingest.errors import EngineError, number_of
from ingest.formats import open_source, refuse_without_pictures
from ingest.images.pixels import ImageLimits
from jobs.console.engine_options import ChosenOptions, EngineName
from jobs.console.request_options import QUIET, TEXT_OR_JSON, takes, with_old_spellings
from jobs.console.requests import Count, EngineCpus, EngineGpus, Name, Option, Seed, Url, checked_request
from jobs.console.terminal import write_table, wrote_json
from jobs.plan.arithmetic import Figure, PlanResult, ScreenPlan, plan_of
from jobs.plan.measuring import EngineUnderTest, measure
from jobs.runtime.cluster import is_this_machine, ray_session
from jobs.runtime.machines import gpus_of_engine, share_of_gpu
from jobs.runtime.on_worker import fetch_with_progress, on_worker
from jobs.runtime.progress import SILENT, Feedback, on_terminal, weights_shown
from jobs.scan.prepared import check_category, own_names_notice
from reports.words import percent
from scoring.assessment import Closable, EngineOptions
from scoring.engines import DEFAULT, engine_module, placeholder_engine
from scoring.engines.picture import max_side_px
from scoring.screen.screen_file import read_screen

MEASURED = Option(heading="What is measured")
COSTS = Option(heading="What it costs")
WHERE = Option(heading="Where it runs")


def _with_screen(screen: ScreenPlan) -> Iterator[tuple[str, str, str, str]]:
    """Yield the lines about a screen. One that does not pay is not recommended, whatever the other figures are."""
    advice = "it pays: fewer hours than without" if screen.pays else "NOT recommended: it saves no time here"
    yield "with the screen", "", "", advice
    yield "  screening", *_shown(screen.screen_ms, ",.3g", " ms/image"), "one thread of this machine"
    yield ("  engine sees", *_shown(screen.seen_share.times(100), ",.3g", " %"), "of the images, by its labels")
    yield "  time", *_in_unit(screen.hours, TIMES), "range from the labels of the screen alone"
    if screen.cost:
        yield "  cost", *_cost(screen.cost), "hours × GPUs × price of one"
    yield "  CPUs per GPU", f"{screen.cpus_per_gpu:.2g}", "", "with the screen's own"


OTHER_SPEEDS = (0.25, 0.5, 2.0)
"""Factors of the recorded speed that a plan also shows if the speed was not measured."""

SIZES = (("PB", 1e3), ("TB", 1.0), ("GB", 1e-3), ("MB", 1e-6), ("kB", 1e-9), ("bytes", 1e-12))
"""Unit -> terabytes, the largest first."""

TIMES = (("years", 8766.0), ("days", 48.0), ("h", 1.0), ("min", 1 / 60), ("s", 1 / 3600))
"""Unit -> hours from which it is used, the largest first; a day has 24."""

HOURS_OF = {"years": 8766.0, "days": 24.0}

COUNTS = (("billion", 1e9), ("million", 1e6))
"""Used for estimates; what was counted is given in full."""


@checked_request
class PlanRequest:
    source: Annotated[Url, Option(argument="SOURCE")]
    """Folder, tar, Parquet file, picture, glob, brace range, or fsspec URL."""

    sample: Annotated[Count, MEASURED] = 64
    """Images to look at."""

    seed: Annotated[Seed, MEASURED] = 0
    """Seed of the sample."""

    source_format: Annotated[str | None, MEASURED] = None
    """webdataset, tree or parquet, as in scan; recognised by default."""

    category: Annotated[Name | None, MEASURED] = None
    """What names a sample's class, as in scan."""

    screen: Annotated[Url | None, MEASURED, Option(metavar="SCREEN")] = None
    """Plan a scan with this screen, too (`screen fit`)."""

    engine: EngineName = DEFAULT
    """What would assess the images: {}"""

    options: ChosenOptions = field(default_factory=EngineOptions)
    """What the engine is given."""

    num_engines: Annotated[Count, COSTS] = 1
    """Engines that share the scan: GPUs, or processes of an engine without GPU."""

    price_per_hour: Annotated[Annotated[float, Field(ge=0, allow_inf_nan=False)] | None, COSTS] = None
    """Price of one GPU or process for an hour, in any currency."""

    ray_address: Annotated[str | None, WHERE] = None
    """Ray cluster on which to measure; default RAY_ADDRESS, else this machine."""

    engine_cpus: Annotated[EngineCpus, WHERE] = 1
    """CPUs that the engine gets on a cluster."""

    engine_gpus: Annotated[EngineGpus | None, WHERE] = None
    """GPUs that the engine gets on a cluster; default what the engine asks for."""


def run_plan(request: PlanRequest, feedback: Feedback = SILENT) -> PlanResult:
    """List up to 16 shards, read and score the sample, and write nothing.

    If a cluster is named, one of its machines does this: one that has what the engine needs. Errors are as in
    `plan_here`.
    """
    if is_this_machine(request.ray_address):
        return plan_here(request, feedback)

    num_gpus = gpus_of_engine(request.engine, request.options, request.engine_gpus)
    request = replace(request, options=replace(request.options, gpu_share=share_of_gpu(request.engine_gpus)))
    with feedback.meter("plan", None) as progress, ray_session(request.ray_address):
        function, fetch = partial(plan_here, request), partial(fetch_with_progress, request.engine, request.options)
        return on_worker(function, request.engine_cpus, num_gpus, feedback, progress, before=fetch).found


def plan_here(request: PlanRequest, feedback: Feedback = SILENT) -> PlanResult:
    """Make the plan on this machine.

    EngineError if the engine cannot run here and no speed is recorded for it. SourceError, StorageError for the source.
    """
    with feedback.meter("plan", None) as progress, weights_shown(feedback, progress):
        progress.phase(f"loading {request.engine}", is_logged=False)
        tested = _engine_under_test(request.engine, request.options)
        if request.screen is not None:
            tested = replace(tested, screen=read_screen(request.screen))
        try:
            progress.phase("listing shards", is_logged="://" in request.source)
            corpus = open_source(request.source, request.source_format, request.category)
            refuse_without_pictures(corpus, request.source)
            for line in (own_names_notice(corpus), check_category(corpus)):
                if line is not None:
                    feedback.notice(line)
            measured = measure(corpus, tested, request.sample, request.seed, progress)
            if measured.difference is not None:
                feedback.notice(measured.difference)
        finally:
            if isinstance(tested.engine, Closable):
                tested.engine.close()
    return plan_of(measured, request.num_engines, request.price_per_hour)


def _engine_under_test(name: str, options: EngineOptions) -> EngineUnderTest:
    """Return the engine; or, if it cannot run here and a speed is recorded, a placeholder with that speed."""
    module = engine_module(name)
    module.refuse_wrong(options)
    costs = module.costs(options)
    try:
        description = module.describe(options)
        limits, has_gpu = ImageLimits(max_side_px=description.max_side_px), description.num_gpus > 0
        engine = module.load(options)
        return EngineUnderTest(engine, limits, costs.max_pixels, host_cost=costs.host, has_gpu=has_gpu)
    except EngineError as error:
        if costs.speed is None:
            raise
        speed = replace(costs.speed, origin=f"{costs.speed.origin} ({error})")
        limits = ImageLimits(max_side_px=None if costs.max_pixels is None else max_side_px(costs.max_pixels))
        return EngineUnderTest(
            placeholder_engine(), limits, costs.max_pixels, speed=speed, host_cost=costs.host, has_gpu=True
        )


@click.command(cls=with_old_spellings({"--gpus": "--num-engines", "--sample-size": "--sample"}))
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
        ("size", *_sized(result.terabytes), f"from {number_of(result.num_sampled, 'sampled image')}"),
        *([("read", *_sized(result.read_terabytes), reads)] if read_twice else []),
        ("per image", *_sized(result.bytes_per_image.times(1e-12)), "mean"),
        ("picture size", *_shown(result.megapixels, ",.3g", " megapixels"), "mean, and 5 to 95 % of the images"),
        ("formats", formats, "", "by content, of the sample"),
        ("broken", percent(result.broken_share), "", broken),
        ("decoding", *_shown(result.decode_ms, ",.3g", " ms/image"), here),
        *([("downscaling", *_shown(result.downscale_ms, ",.3g", " ms/image"), here)] if result.downscale_ms else []),
        *([("preparing", *_shown(result.host_ms, ",.3g", " ms/image"), result.host_origin)] if result.host_ms else []),
        ("speed", *_shown(result.images_per_s, ",.4g", " images/s"), result.speed_origin),
        ("time", *_in_unit(result.hours, TIMES), with_engines),
        *([("cost", *_cost(result.cost), "hours × GPUs × price of one")] if result.cost else []),
        *(_at_other_speeds(result) if not result.speed_is_measured else []),
        ("CPUs per GPU", f"{result.cpus_per_gpu:.2g}", "", f"speed × time of {steps}"),
        *(_with_screen(result.screen) if result.screen else []),
        ("results", _sized(Figure(*[result.result_gigabytes / 1000] * 3))[0], "", "rows of the sample as zstd Parquet"),
    ]
    write_table(["", "estimate", "range 5–95 %", "how"], lines, {1, 2})


def _at_other_speeds(result: PlanResult) -> Iterator[tuple[str, str, str, str]]:
    for factor in OTHER_SPEEDS:
        cost = "" if result.cost is None else f", cost {_cost(result.cost.times(1 / factor))[0]}"
        time, spread = _in_unit(result.hours.times(1 / factor), TIMES)
        yield "", time, spread, f"at {factor * result.images_per_s.value:,.4g} images/s{cost}"


def _sized(terabytes: Figure) -> tuple[str, str]:
    return _in_unit(terabytes, SIZES)


def _in_unit(figure: Figure, units: Sequence[tuple[str, float]]) -> tuple[str, str]:
    """Return the figure in the largest unit of which it is at least one, and the range in the same unit."""
    unit, size = next((pair for pair in units if figure.value >= pair[1]), units[-1])
    return _shown(figure.times(1 / HOURS_OF.get(unit, size)), ",.3g", f" {unit}")


def _counted(images: Figure) -> tuple[str, str]:
    if images.low == images.high or images.value < COUNTS[-1][1]:
        return _shown(images, ",.0f")
    return _in_unit(images, COUNTS)


def _shown(figure: Figure, form: str, unit: str = "") -> tuple[str, str]:
    low, high, value = (_plain(number, form) for number in (figure.low, figure.high, figure.value))
    return f"{value}{unit}", "" if figure.low == figure.high else f"{low} – {high}"


def _cost(figure: Figure) -> tuple[str, str]:
    """Return cost and range. A source of a few pictures costs less than a cent, not nothing."""
    return ("< 0.01", "") if figure.value > 0 and figure.high < 0.01 else _shown(figure, ",.2f")


def _plain(number: float, form: str) -> str:
    """Return three digits without an exponent: `1,230`, never `1.23e+03`."""
    return f"{number:,.0f}" if form == ",.3g" and abs(number) >= 999.5 else format(number, form)
