"""`privsieve plan SOURCE --engine NAME`: what a scan would take, before any time or money is spent on it.

Nothing is written. The work is in `jobs.planning`.
"""

from collections.abc import Sequence
from dataclasses import field, replace
from functools import partial
from typing import Annotated

from pydantic import Field

from ingest.errors import EngineError
from ingest.formats import open_source, refuse_without_pictures
from ingest.images.pixels import ImageLimits
from jobs.console.engine_options import ChosenOptions, EngineName
from jobs.console.requests import FROM_LIST, Count, EngineCpus, EngineGpus, Name, Option, Seed, Url, checked_request
from jobs.planning.arithmetic import Figure, PlanResult, plan_of
from jobs.planning.measuring import EngineUnderTest, measure
from jobs.runtime.cluster import is_this_machine, ray_session
from jobs.runtime.machines import gpus_of_engine, share_of_gpu
from jobs.runtime.on_worker import fetch_with_progress, on_worker
from jobs.runtime.progress import SILENT, Feedback, weights_shown
from jobs.scanning.prepared import check_category, own_names_notice, unread_notice
from scoring.assessment import Closable, EngineOptions
from scoring.engines import DEFAULT, engine_module, placeholder_engine
from scoring.engines.picture import max_side_px
from scoring.screen.screen_file import read_screen

MEASURED = Option(heading="What is measured")


COSTS = Option(heading="What it costs")


WHERE = Option(heading="Where it runs")


SIZES = (("PB", 1e3), ("TB", 1.0), ("GB", 1e-3), ("MB", 1e-6), ("kB", 1e-9), ("bytes", 1e-12))
"""Unit -> terabytes, the largest first."""


TIMES = (("years", 8766.0), ("days", 48.0), ("h", 1.0), ("min", 1 / 60), ("s", 1 / 3600))
"""Unit -> hours from which it is used, the largest first; a day has 24."""


HOURS_OF = {"years": 8766.0, "days": 24.0}


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

    image_column: Annotated[tuple[Name, ...], FROM_LIST, MEASURED, Option(metavar="NAME")] = ()
    """Parquet column of images, as in scan."""

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
            names = request.image_column
            corpus = open_source(request.source, request.source_format, request.category, image_names=names)
            refuse_without_pictures(corpus, request.source)
            for line in (own_names_notice(corpus), check_category(corpus), unread_notice(corpus)):
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


def sized(terabytes: Figure) -> tuple[str, str]:
    return in_unit(terabytes, SIZES)


def in_unit(figure: Figure, units: Sequence[tuple[str, float]]) -> tuple[str, str]:
    """Return the figure in the largest unit of which it is at least one, and the range in the same unit."""
    unit, size = next((pair for pair in units if figure.value >= pair[1]), units[-1])
    return shown(figure.times(1 / HOURS_OF.get(unit, size)), ",.3g", f" {unit}")


def shown(figure: Figure, form: str, unit: str = "") -> tuple[str, str]:
    low, high, value = (_plain(number, form) for number in (figure.low, figure.high, figure.value))
    return f"{value}{unit}", "" if figure.low == figure.high else f"{low} – {high}"


def _plain(number: float, form: str) -> str:
    """Return three digits without an exponent: `1,230`, never `1.23e+03`."""
    return f"{number:,.0f}" if form == ",.3g" and abs(number) >= 999.5 else format(number, form)
