"""What a scan would take: measured on a small sample where the plan is made, else from recorded figures."""

from dataclasses import field, replace
from functools import partial
from typing import Annotated

from pydantic import Field

from ingest.errors import EngineError
from ingest.formats import open_source, refuse_without_pictures
from ingest.images.pixels import ImageLimits
from jobs.console.engine_options import ChosenOptions, EngineName
from jobs.console.requests import Count, Name, Option, Seed, Url, checked_request
from jobs.plan.arithmetic import PlanResult, plan_of
from jobs.plan.measuring import EngineUnderTest, measure
from jobs.runtime.feedback import SILENT, Feedback
from jobs.runtime.weights_progress import weights_shown
from jobs.scan.categories import check_category
from scoring.assessment import Closable, EngineOptions
from scoring.engines import DEFAULT, engine_module, placeholder_engine
from scoring.engines.picture import max_side_px

MEASURED = Option(heading="What is measured")
COSTS = Option(heading="What it costs")


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

    engine: EngineName = DEFAULT
    """What would assess the images: {}"""

    options: ChosenOptions = field(default_factory=EngineOptions)
    """What the engine is given."""

    num_engines: Annotated[Count, COSTS] = 1
    """Engines that share the scan: GPUs, or processes of an engine without GPU."""

    price_per_hour: Annotated[Annotated[float, Field(ge=0, allow_inf_nan=False)] | None, COSTS] = None
    """Price of one GPU or process, in any currency."""

    ray_address: Annotated[str | None, Option(heading="Where it runs")] = None
    """Ray cluster on which to measure; default RAY_ADDRESS, else this machine."""


def run_plan(request: PlanRequest, feedback: Feedback = SILENT) -> PlanResult:
    """Lists up to 16 shards, reads and scores the sample, and writes nothing.

    Where a cluster is named, one of its machines does this: the one that has what the engine needs. Errors are as of
    `plan_here`.
    """
    from jobs.runtime.cluster import is_this_machine, ray_session

    if is_this_machine(request.ray_address):
        return plan_here(request, feedback)
    from jobs.runtime.on_worker import on_worker

    model = engine_module(request.engine).requirements(request.options).local_model
    num_gpus = 0 if model is None else model.num_gpus
    with feedback.meter("plan", None) as progress, ray_session(request.ray_address):
        return on_worker(partial(plan_here, request), 1, num_gpus, feedback, progress.phase).found


def plan_here(request: PlanRequest, feedback: Feedback = SILENT) -> PlanResult:
    """On this machine.

    EngineError if the engine cannot run here and no speed is recorded for it. SourceError, StorageError for the source.
    """
    with feedback.meter("plan", None) as progress, weights_shown(feedback, progress):
        progress.phase(f"loading {request.engine}", is_logged=False)
        tested = _engine_under_test(request.engine, request.options)
        try:
            progress.phase("listing shards", is_logged="://" in request.source)
            corpus = open_source(request.source, request.source_format, request.category)
            refuse_without_pictures(corpus, request.source)
            contradiction = check_category(corpus)
            if contradiction:
                feedback.notice(contradiction)
            measured = measure(corpus, tested, request.sample, request.seed, progress)
            if measured.difference is not None:
                feedback.notice(measured.difference)
        finally:
            if isinstance(tested.engine, Closable):
                tested.engine.close()
    return plan_of(measured, request.num_engines, request.price_per_hour)


def _engine_under_test(name: str, options: EngineOptions) -> EngineUnderTest:
    """The engine; or, if it cannot run here and a speed is recorded, a placeholder with that speed."""
    module = engine_module(name)
    costs = module.costs(options)
    try:
        limits = ImageLimits(max_side_px=module.describe(options).max_side_px)
        return EngineUnderTest(module.load(options), limits, costs.max_pixels, None, costs.host)
    except EngineError as error:
        if costs.speed is None:
            raise
        speed = replace(costs.speed, origin=f"{costs.speed.origin} ({error})")
        limits = ImageLimits(max_side_px=None if costs.max_pixels is None else max_side_px(costs.max_pixels))
        return EngineUnderTest(placeholder_engine(), limits, costs.max_pixels, speed, costs.host)
