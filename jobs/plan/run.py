"""What a scan would take: measured on a small sample where the plan is made, else from recorded figures."""

from dataclasses import field, replace
from functools import partial
from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from ingest.errors import EngineError
from ingest.formats import open_source, refuse_without_pictures
from ingest.images.pixels import ImageLimits
from jobs.plan.arithmetic import PlanResult, plan_of
from jobs.plan.measuring import EngineUnderTest, measure
from jobs.runtime.feedback import SILENT, Feedback
from jobs.runtime.requests import STRICT, Count, Name
from jobs.runtime.weights_progress import weights_shown
from jobs.scan.categories import check_category
from scoring.assessment import Closable, EngineOptions
from scoring.engines import DEFAULT, engine_module, placeholder_engine
from scoring.engines.picture import max_side_px


@dataclass(frozen=True, config=STRICT)
class PlanRequest:
    source: Name
    """Folder, tar, Parquet file, glob or fsspec URL."""

    engine: str = DEFAULT

    options: EngineOptions = field(default_factory=EngineOptions)

    num_engines: Count = 1
    """GPUs, or processes of an engine without GPU, that share the scan."""

    price_per_hour: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """Of one of them, in any currency; None leaves the cost out."""

    sample: Count = 64
    """Images to read and score."""

    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Of the random sample."""

    format_name: str | None = None
    """webdataset, tree or parquet; None to recognise it."""

    category: Name | None = None
    """As for a scan."""

    ray_address: str | None = None
    """HOST:PORT of a Ray head; None: RAY_ADDRESS, else no Ray at all."""


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
            corpus = open_source(request.source, request.format_name, request.category)
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
