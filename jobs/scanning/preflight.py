"""What is known before a run exists: what the engine would be asked, or why it could not scan.

`checked_description` runs on the machine where the scan was started, and asks a machine of the cluster that has what
an engine needs: the functions that it calls run there, in a Ray task.

`show` is `privsieve scan … --dry-run`: what would be asked, and how the first pictures would be seen; nothing is
written. No weights are loaded and no endpoint is asked. Of a model of the hub, only the small files are read. A model
of a URL is fetched whole, since only its content shows what it is. No Ray is started; if a cluster would scan, one of
its machines examines the pictures.
"""

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice

from ingest.errors import EngineError, Fault, StorageError, number_of
from ingest.formats import Source, StatedCounts, stated_counts
from ingest.images.decode import decode
from ingest.images.pixels import ImageLimits, Pixels
from ingest.sample import Sample
from ingest.storage.place import PART, Place, place
from jobs.console.terminal import write_line, write_lines
from jobs.runtime.checks import check_gpu, finding, first_sample, new_folders_removed
from jobs.runtime.cluster import ray_session
from jobs.runtime.on_worker import Said, fetch_with_progress, on_worker
from jobs.runtime.progress import Feedback, Meter
from jobs.scanning.prepared import Prepared, gpus_per_engine, is_on_cluster, prepare
from jobs.scanning.request import ScanRequest, ScanResources
from scoring.assessment import Closable, EngineDescription, EngineOptions, RemoteEngineModule
from scoring.engine_facts import Preview
from scoring.engines import engine_module
from scoring.engines.canary import canary_answer
from scoring.runs import PROBE
from scoring.taxonomy import KEYS

NUM_PICTURES = 4


def checked_description(
    engine: str,
    options: EngineOptions,
    num_cpus: float,
    num_gpus: float,
    feedback: Feedback,
    meter: Meter,
    *,
    new_run: tuple[Source, Place] | None,
) -> EngineDescription:
    """Return the engine's description, from a machine of the cluster. Call this inside `ray_session`.

    new_run: source and folder of a run that does not exist yet; then the machine is checked. PrivsieveError with the
    machine's name and what to do if it could not scan.
    """
    if new_run is None:
        fetch = partial(fetch_with_progress, engine, options)
        return on_worker(partial(described, engine, options), num_cpus, num_gpus, feedback, meter, before=fetch).found
    source, run = new_run
    probe = f"{PROBE}{uuid.uuid4().hex}"
    with new_folders_removed(run):
        run.at(probe + PART).write(probe.encode())
        try:
            check = partial(engine_checked, engine, options)
            before = partial(storage_checked, engine, options, source, run, probe)
            return on_worker(check, num_cpus, num_gpus, feedback, meter, before=before).found
        finally:
            run.at(probe + PART).remove()


def described(engine: str, options: EngineOptions) -> EngineDescription:
    """Return the description on this machine. EngineError as in the engine's `describe`."""
    return engine_module(engine).describe(options)


def storage_checked(engine: str, options: EngineOptions, source: Source, run: Place, probe: str) -> Iterator[Said]:
    """Raise PrivsieveError if this machine cannot read the source, write to the run, or fetch the weights.

    probe: name and content of a file that the machine of the command wrote into the folder of the run.
    """
    first_sample(source)
    theirs, own = run.at(probe + PART), run.at(f"{probe}-answer{PART}")
    if not theirs.exists() or theirs.read() != probe.encode():
        raise StorageError(
            f"{run.path} is another folder here than where the command was given: give --run as a URL, or as a folder "
            "that all machines share"
        )
    own.write(probe.encode())
    own.remove()
    yield from fetch_with_progress(engine, options)


def engine_checked(engine: str, options: EngineOptions) -> EngineDescription:
    """Return the description. Raise the PrivsieveError that would stop the scan on this machine.

    An engine with a GPU is loaded, asked about a made picture and closed again.
    """
    module = engine_module(engine)
    description = module.describe(options)
    gpu = finding("gpu", partial(check_gpu, engine, module.requirements(options).local_model, options.gpu_share or 1.0))
    if not gpu.is_ok:
        raise EngineError(f"GPU: {gpu.text}")
    if isinstance(module, RemoteEngineModule):
        module.check(options)
    if description.num_gpus:
        loaded = module.load(options)
        try:
            canary_answer(loaded)
        finally:
            if isinstance(loaded, Closable):
                loaded.close()
    return description


@dataclass(frozen=True)
class DryRun:
    """What a scan would do."""

    description: EngineDescription

    preview: Preview

    counts: str
    """How many images there are, as far as that is known before the shards are read."""

    pictures: tuple[str, ...]
    """A line for each of the first pictures: its size, and how the engine would see it."""


def dry_run(prepared: Prepared) -> DryRun:
    """Describe a scan from this machine. EngineError, SourceError or StorageError if the scan could not begin."""
    options = prepared.request.options
    description, preview = prepared.module.describe(options), prepared.module.preview(options)
    limits = prepared.limits(description)
    samples = islice(prepared.source.samples(), NUM_PICTURES)
    return DryRun(
        description,
        preview,
        _counts(stated_counts(prepared.source)),
        tuple(_picture(sample, limits, preview.describe_picture) for sample in samples),
    )


def show(request: ScanRequest, resources: ScanResources, feedback: Feedback) -> None:
    """Print what `dry_run` finds; on a cluster, on a machine that could run the engine."""
    prepared = prepare(request, place(request.run))
    planned = _on_cluster(prepared, resources, feedback) if is_on_cluster(resources) else dry_run(prepared)
    write_line(f"engine     {planned.description.name}")
    write_line(f"protocol   {planned.description.protocol}")
    write_line(f"assesses   {_assessed(planned.description)}")
    _show_prompt(planned.preview)
    write_line(f"images     {planned.counts}")
    write_line(f"pictures   the first {len(planned.pictures)}:")
    for picture in planned.pictures:
        write_line(f"  {picture}")


def _on_cluster(prepared: Prepared, resources: ScanResources, feedback: Feedback) -> DryRun:
    with feedback.meter("dry run", None) as progress, ray_session(resources.ray_address):
        cpus, gpus = resources.engine_cpus, gpus_per_engine(prepared, resources)
        request = prepared.request
        fetch = partial(fetch_with_progress, request.engine, request.options, with_weights=False)
        return on_worker(partial(dry_run, prepared), cpus, gpus, feedback, progress, before=fetch).found


def _counts(stated: StatedCounts) -> str:
    shards = number_of(stated.num_shards, "shard")
    if stated.num_images is None:
        return f"in {shards}; how many is known once they are read"
    about = "" if len(stated.by_shard) == stated.num_shards else "about "
    return f"{about}{stated.num_images:,} in {shards}, as stated next to {len(stated.by_shard):,} of them (not counted)"


def _assessed(description: EngineDescription) -> str:
    if len(description.assessed) == len(KEYS):
        return f"all {len(KEYS)} attributes"
    missing = [key for key in KEYS if key not in description.assessed]
    if not description.assessed:
        return "no attribute; the image as a whole"
    return f"{len(description.assessed)} of the {len(KEYS)} attributes, not: {', '.join(missing)}"


def _show_prompt(preview: Preview) -> None:
    if preview.protocol is None:
        write_line("prompt     none: this engine takes no prompt")
        return
    write_line(f"prompt     {preview.protocol}")
    for part in preview.parts:
        write_line(f"--- {part.heading}")
        if part.text is not None:
            write_lines(part.text)
    if preview.num_text_tokens is None:
        write_line("tokens     not known here: the endpoint has the tokenizer")
    else:
        write_line(f"tokens     {preview.num_text_tokens:,} of text per picture")


def _picture(sample: Sample, limits: ImageLimits, describe: Callable[[Pixels], str]) -> str:
    """Return a line about a picture by shard and number, since a file name may reveal what it shows."""
    image = sample.fault or decode(sample.encoded, limits)
    where = f"{sample.shard} {sample.index}"
    if isinstance(image, Fault):
        return f"{where}: quarantined, {image.reason}"
    views = f", {len(image.views)} views" if len(image.views) > 1 else ""
    return f"{where}: {image.width}x{image.height}{views}, {describe(image.views[0])}"
