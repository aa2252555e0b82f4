"""A scan before it begins: its source and lists are opened, and this or another machine is asked whether it can run.

Whether `--category` names something that the samples have is checked as far as the first ones show. `record_of` gives
what run.json says: everything that makes the rows comparable with those of another scan. `dry_run` finds what a scan
would do, and writes nothing.
"""

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import TypeVar

from ingest import __version__
from ingest.categories import read_class_list, read_keyword_list
from ingest.errors import (
    EngineError,
    Fault,
    LabelsError,
    PrivsieveError,
    RunError,
    SourceError,
    StorageError,
    did_you_mean,
    number_of,
)
from ingest.formats import Source, open_source, webdataset
from ingest.formats.released import own_names_among
from ingest.formats.webdataset import CategoryProbe
from ingest.images.decode import decode
from ingest.images.pixels import ImageLimits, Pixels
from ingest.sample import Sample, printable
from ingest.storage.place import PART, Place
from jobs.console.terminal import write_line, write_lines
from jobs.runtime.checks import ProblemError, check_gpu, finding, first_sample, gpus, new_folders_removed
from jobs.runtime.cluster import is_this_machine, names_cluster, ray_session
from jobs.runtime.hash_list import HashList, hash_list_of
from jobs.runtime.machines import default_num_cpus, default_num_gpus, gpus_of_engine
from jobs.runtime.on_worker import code_hash, on_worker
from jobs.runtime.progress import Feedback, Meter
from jobs.scanning.chosen import Chosen, draw, draw_per_category, draw_shards, first
from jobs.scanning.request import ScanRequest, ScanResources
from scoring.assessment import Closable, EngineDescription, EngineModule, EngineOptions, RemoteEngineModule
from scoring.engine_facts import Preview
from scoring.engines import engine_module
from scoring.engines.canary import canary_answer
from scoring.runs import PROBE
from scoring.runs.ledger import shard_ids_of_others
from scoring.runs.record import RunRecord, ScreenSettings
from scoring.runs.results import Results
from scoring.screen.model import FittedScreen
from scoring.screen.screen_file import read_screen
from scoring.taxonomy import KEYS, TAXONOMY

Figure = TypeVar("Figure")

MAX_FIELDS = 20
"""Limit on the JSON fields that are listed if the category is not among them."""

NUM_SHARDS = 3
"""Number of probed shards, spread over the corpus."""

NUM_PICTURES = 4
"""Pictures that a dry run decodes."""


@dataclass(frozen=True)
class Prepared:
    """A request whose source and lists were found to be right. The engine is not asked, and nothing is written."""

    request: ScanRequest
    module: EngineModule
    source: Source
    hash_list: HashList

    screen: FittedScreen | None
    """Leaves pictures out before the engine sees them; None for nothing."""


def prepare(request: ScanRequest) -> Prepared:
    """Open source and lists. EngineError for an unknown engine or a wrong option, before shards are listed, which may
    take minutes; SourceError, LabelsError, StorageError of source and lists."""
    module = engine_module(request.engine)
    module.refuse_wrong(request.options)
    class_list = None if request.labels is None else read_class_list(request.labels)
    keyword_list = None if request.caption_words is None else read_keyword_list(request.caption_words)
    source = open_source(
        request.source, request.source_format, request.category, class_list, keyword_list, request.image_column
    )
    screen = None if request.screen is None else read_screen(request.screen)
    return Prepared(request, module, source, hash_list_of(request.hash_list), screen)


def refuse_foreign_list(source: Source) -> None:
    """Raise LabelsError if `--labels` names no image of the source. Stops at the first that it names."""
    if source.class_list is None:
        return
    try:
        if any(category for shard in source.shards for category in source.categories(shard)):
            return
    except StorageError:  # the scan says of which shard, and may name the class
        return
    raise LabelsError(
        f"{source.class_list.url}: none of its {number_of(source.class_list.num_names, 'name')} is one of the "
        "source's images; names must be the keys of the rows, with or without folders and extension"
    )


def with_executor(resources: ScanResources, request: ScanRequest) -> ScanResources:
    """Return the resources with the executor that was chosen, or that follows from the others and from the machine."""
    if resources.executor is not None:
        return resources
    is_ray = names_cluster(resources.ray_address) or resources.of_ray is not None
    model = engine_module(request.engine).requirements(request.options).local_model
    if not is_ray and model is not None:
        with suppress(ProblemError):  # the engine says what is wrong with the driver
            is_ray = len(gpus()) >= 2 * model.num_gpus  # this machine has GPUs for more than one engine
    return replace(resources, executor="ray" if is_ray and resources.processes is None else "inline")


def is_on_cluster(resources: ScanResources) -> bool:
    """Return whether the work is done by a cluster rather than by this machine alone."""
    return resources.executor == "ray" and not is_this_machine(resources.ray_address)


def gpus_per_engine(prepared: Prepared, resources: ScanResources) -> float:
    """Return the GPUs that Ray reserves for an engine. Call this inside `ray_session`."""
    request = prepared.request
    num_gpus = gpus_of_engine(request.engine, request.options, resources.engine_gpus)
    return num_gpus if resources.engine_gpus is not None else default_num_gpus(resources.ray_address, num_gpus)


def cpus_per_engine(prepared: Prepared, resources: ScanResources) -> float:
    """Return the CPUs that Ray reserves for an engine. Call this inside `ray_session`."""
    if resources.engine_cpus is not None:
        return resources.engine_cpus
    return default_num_cpus(resources.ray_address, gpus_per_engine(prepared, resources))


def chosen_samples(
    request: ScanRequest, source: Source, is_on_ray: bool, notice: Callable[[str], None]
) -> tuple[Chosen, dict[str, int]]:
    """Return the samples to scan, None for all; and fields of the run's record that follow from the draw. To draw from
    all samples, every shard is listed first."""
    if request.limit is not None:
        return first(source.shards, (num_samples(source, shard) for shard in source.shards), request.limit), {}
    if request.sample is None:
        return None, {}
    shards = list(source.shards)
    if request.per_category:
        categories = _of_each_shard(
            lambda shard: list(source.categories(shard)), shards, is_on_ray, "a sample per category"
        )
        chosen, num_without = draw_per_category(shards, categories, request.sample, request.seed or 0)
        if num_without:
            notice(f"{number_of(num_without, 'image')} without a category cannot be drawn")
        return chosen, {"drawn": sum(map(len, chosen.values()))}
    if request.shards is not None:
        shards = draw_shards(shards, request.shards, request.seed or 0)
    counts = _of_each_shard(partial(num_samples, source), shards, is_on_ray, "a sample")
    if request.shards is None:
        return draw(shards, counts, request.sample, request.seed or 0), {}
    if request.sample > sum(counts):
        raise SourceError(
            f"--sample {request.sample}: the {number_of(len(shards), 'drawn shard')} hold only "
            f"{number_of(sum(counts), 'image')}; draw more with --shards, or fewer with --sample"
        )
    return draw(shards, counts, request.sample, request.seed or 0), {"num_in_shards": sum(counts)}


def _of_each_shard(work: Callable[[str], Figure], shards: list[str], is_on_ray: bool, what: str) -> list[Figure]:
    """Return what `work` gives for each shard, in order. what: that is drawn. SourceError if a listing fails."""
    try:
        if not is_on_ray:
            return [work(shard) for shard in shards]
        from jobs.scanning.on_ray import of_each_shard

        return of_each_shard(work, shards)
    except PrivsieveError as error:
        raise SourceError(f"{what} needs every shard listed: {error}") from None


def num_samples(source: Source, shard: str) -> int:
    """Count the images of a shard; errors as of `Source.slices`."""
    return sum(len(slice_.locators) for slice_ in source.slices(shard))


def check_category(source: Source) -> None:
    """Raise SourceError if none of the probed samples has what `--category` names. Parquet columns are checked as the
    source is opened, and folder trees take no category."""
    if source.format != "webdataset" or source.category is None:
        return
    last, probes = len(source.shards) - 1, list[CategoryProbe]()
    for number in sorted({last * n // (NUM_SHARDS - 1) for n in range(NUM_SHARDS)}):
        with suppress(StorageError):  # the scan reports unreadable shards
            probes.append(webdataset.category_probe(source.root, source.shards[number], source.category))
    num_samples = sum(probe.num_samples for probe in probes)
    fields = list(dict.fromkeys(name for probe in probes for name in probe.fields))
    named = (source.category, source.category.partition(".")[0])  # a nested field may be missing in these samples
    is_there = any(probe.num_with_category for probe in probes) or any(printable(name) in fields for name in named)
    if not num_samples or is_there:
        return
    probed = f"none of the {number_of(num_samples, 'sample')} probed"
    if source.category == "cls":
        raise SourceError(f"--category cls: {probed} has a .cls member that holds anything")
    near = did_you_mean(source.category, fields)
    there = f"their fields are: {', '.join(fields[:MAX_FIELDS])}" if fields else "the first have no JSON"
    raise SourceError(f'--category "{source.category}": {probed} has that JSON field{near}; {there}')


def source_notices(source: Source) -> Iterator[str]:
    """Yield a line about a shard with the name of a release's own file, and one about columns that are not scanned."""
    if names := own_names_among(source.shards):
        yield f"the source holds {names[0]}, which a release has of its own, so filter refuses the run; rename it first"
    if unread := "; ".join(f"column {printable(column.name)} ({column.why})" for column in source.unread):
        yield f"not scanned: {unread}"


def record_of(prepared: Prepared, engine: EngineDescription) -> RunRecord:
    """Return the record of a scan. SourceError if a name has bytes that run.json cannot hold."""
    request, source, screen = prepared.request, prepared.source, prepared.screen
    is_url = "://" in request.source
    return RunRecord(
        privsieve=__version__,
        code=code_hash(),
        source=_unicode(request.source if is_url else os.path.abspath(os.path.expanduser(request.source))),
        source_format=source.format,
        category=None if request.category is None else _unicode(request.category),
        sample=request.sample,
        seed=None if request.sample is None else request.seed or 0,
        limit=request.limit,
        per_category=request.per_category,
        shards=request.shards,
        num_source_shards=None if request.shards is None else len(source.shards),
        image_columns=tuple(map(_unicode, request.image_column)),
        unread_columns=tuple(printable(column.name) for column in source.unread if column.holds_images),
        labels=None if source.class_list is None else source.class_list.sha256,
        caption_words=None if source.keyword_list is None else source.keyword_list.sha256,
        pdq=request.pdq or prepared.hash_list.needs_pdq,
        hash_list=None if request.hash_list is None else prepared.hash_list.digest,
        screen=None if screen is None else _screen(screen),
        max_pixels=request.max_pixels_in,
        max_frames=request.max_frames,
        taxonomy=TAXONOMY.version,
        engine={
            "name": engine.name,
            "protocol": engine.protocol,
            "assessed": list(engine.assessed),
            "only_affirmed": list(engine.presence_only),
            "uses_caption": engine.uses_caption,
            "weights": dict(engine.weights),
            "versions": dict(engine.versions),
            "max_side_px": engine.max_side_px,
        },
        is_fake=engine.is_fake,
    )


def _screen(screen: FittedScreen) -> ScreenSettings:
    record = screen.record
    return ScreenSettings(
        sha256=screen.sha256,
        target_miss=record.target_miss,
        confidence=record.confidence,
        miss_high=record.bound.miss_high,
        miss_high_level_1=next((bound.miss_high for bound in record.levels if bound.level == 1), None),
        guard_share=record.guard_share,
    )


def _unicode(text: str) -> str:
    """Return the text. SourceError if run.json could not hold it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise SourceError(
            f"{printable(text)} has bytes that are not UTF-8, as run.json is; rename it, or give a link to it"
        ) from None
    return text


def refuse_other_shards(run_url: str, shards: list[str], listed: Results) -> None:
    """Raise RunError if the source lost shards that have rows."""
    gone = shard_ids_of_others(shards, listed.ledger)
    if gone:
        are = "is" if len(gone) == 1 else "are"
        raise RunError(
            f"{number_of(len(gone), 'shard')} that {run_url} has rows of {are} gone from the source "
            f"({printable(gone[0])} first); restore them, or scan the source into a new run"
        )


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
        return on_worker(partial(engine_module(engine).describe, options), num_cpus, num_gpus, feedback, meter)
    source, run = new_run
    probe = f"{PROBE}{uuid.uuid4().hex}"
    with new_folders_removed(run):
        run.at(probe + PART).write(probe.encode())
        try:
            check = partial(machine_checked, engine, options, source, run, probe)
            return on_worker(check, num_cpus, num_gpus, feedback, meter)
        finally:
            run.at(probe + PART).remove()


def machine_checked(engine: str, options: EngineOptions, source: Source, run: Place, probe: str) -> EngineDescription:
    """Return the engine's description. Raise PrivsieveError if this machine cannot read the source, write to the run,
    or load the engine.

    probe: name and content of a file that the machine of the command wrote into the folder of the run.
    """
    first_sample(source)
    theirs, answer = run.at(probe + PART), run.at(f"{probe}-answer{PART}")
    if not theirs.exists() or theirs.read() != probe.encode():
        raise StorageError(
            f"{run.path} is another folder here than where the command was given: give --run as a URL, or as a folder "
            "that all machines share"
        )
    answer.write(probe.encode())
    answer.remove()
    return engine_checked(engine, options)


def engine_checked(engine: str, options: EngineOptions) -> EngineDescription:
    """Return the description. Raise the PrivsieveError that would stop the scan on this machine. An engine with a GPU
    is loaded, asked about a made picture and closed again."""
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
    num_shards: int

    pictures: tuple[str, ...]
    """A line for each of the first pictures: its size, and how the engine would see it."""


def dry_run(prepared: Prepared) -> DryRun:
    """Describe a scan from this machine. EngineError, SourceError or StorageError if the scan could not begin."""
    options = prepared.request.options
    description, preview = prepared.module.describe(options), prepared.module.preview(options)
    limits = record_of(prepared, description).limits
    samples = islice(prepared.source.samples(), NUM_PICTURES)
    return DryRun(
        description,
        preview,
        len(prepared.source.shards),
        tuple(_picture(sample, limits, preview.describe_picture) for sample in samples),
    )


def show(request: ScanRequest, resources: ScanResources, feedback: Feedback) -> None:
    """Print what `dry_run` finds; on a cluster, on a machine that could run the engine."""
    prepared = prepare(request)
    resources = with_executor(resources, request)
    if is_on_cluster(resources):
        with feedback.meter("dry run", None) as progress, ray_session(resources.ray_address):
            num_cpus, num_gpus = cpus_per_engine(prepared, resources), gpus_per_engine(prepared, resources)
            planned = on_worker(partial(dry_run, prepared), num_cpus, num_gpus, feedback, progress)
    else:
        planned = dry_run(prepared)
    write_line(f"engine     {planned.description.name}")
    write_line(f"protocol   {planned.description.protocol}")
    write_line(f"assesses   {_assessed(planned.description)}")
    _show_prompt(planned.preview)
    write_line(f"images     in {number_of(planned.num_shards, 'shard')}; how many is known once they are read")
    write_line(f"pictures   the first {len(planned.pictures)}:")
    for picture in planned.pictures:
        write_line(f"  {picture}")


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
        after = f", {n:,} of them after it: computed for each one" if (n := preview.num_tokens_after_picture) else ""
        write_line(f"tokens     {preview.num_text_tokens:,} of text per picture{after}")


def _picture(sample: Sample, limits: ImageLimits, describe: Callable[[Pixels], str]) -> str:
    """Return a line about a picture by shard and number, since a file name may reveal what it shows."""
    image = sample.fault or decode(sample.encoded, limits)
    where = f"{sample.shard} {sample.index}"
    if isinstance(image, Fault):
        return f"{where}: quarantined, {image.reason}"
    views = f", {len(image.views)} views" if len(image.views) > 1 else ""
    return f"{where}: {image.width}x{image.height}{views}, {describe(image.views[0])}"
