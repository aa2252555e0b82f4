"""`privsieve scan SOURCE --run RUN`: every image becomes one row.

The command, what makes a run, and the count at the end; the work itself is `jobs.scanning.on_ray`.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import click

from ingest import __version__
from ingest.errors import IncompleteError, RunError, SourceError, StorageError, did_you_mean
from ingest.formats import Source, open_source, webdataset
from ingest.images.decode import ImageLimits
from ingest.sample import printable
from ingest.storage.place import Place, place
from jobs.console.engine_options import engine_options, engine_options_from_context
from jobs.console.option_types import FiniteRange
from jobs.console.terminal import write_line
from jobs.runtime.source_hash import code_hash
from jobs.scanning.begin import refuse_other, remove_unfinished, start_or_continue
from scoring.assessment import EngineDescription, EngineModule, EngineOptions, RemoteEngineModule
from scoring.engines import DEFAULT, ENGINES, engine_module
from scoring.runs.attempts import Attempts
from scoring.runs.layout import ATTEMPTS, RUN_LEASE
from scoring.runs.lease import Lease, lease
from scoring.runs.ledger import CONFLICT, Done, finished, stem_in, stems_of_others
from scoring.runs.record import RunRecord
from scoring.runs.results import is_compacted, results
from scoring.taxonomy import TAXONOMY_VERSION

if TYPE_CHECKING:
    from jobs.scanning.on_ray import EnginePool
    from jobs.scanning.selection import Chosen
    from jobs.scanning.settings import ScanSettings

STALL_HELP = "Silence after which a slice is given up, tried again, then scanned image by image."
MEMORY_HELP = "Memory for an engine that scans image by image; default half of what is free."
SILENT_STALLS = 3
MIN_SILENCE_S = 1800
"""After so many times --stall-seconds without a result, and so many seconds at least, a line says so."""

MAX_FIELDS = 20
"""So many JSON fields are named where --category names none of them."""


@click.command()
@click.argument("source")
@click.option("--run", "run_url", required=True, help="Folder or fsspec URL of the run; continued if it exists.")
@click.option("--engine", default=DEFAULT, show_default=True, help="Who answers: " + ", ".join(ENGINES))
@engine_options
@click.option("--format", "format_name", help="webdataset, tree or parquet; recognised where not said.")
@click.option("--category", help="JSON field, cls, or Parquet column that names a sample's class.")
@click.option("--sample", type=click.IntRange(min=1), help="Scan a uniform random sample of so many images.")
@click.option("--seed", type=click.IntRange(min=0), help="Seed of --sample; default 0.")
@click.option("--limit", type=click.IntRange(min=1), help="Scan only the first so many images.")
@click.option(
    "--max-pixels-in",
    type=click.IntRange(min=1),
    default=ImageLimits.max_pixels,
    show_default=True,
    help="Larger pictures are quarantined unread.",
)
@click.option(
    "--max-frames",
    type=click.IntRange(min=1),
    default=ImageLimits.max_frames,
    show_default=True,
    help="Frames or pages that are scanned, from the first.",
)
@click.option("--num-engines", type=click.IntRange(min=1), help="Engine actors; default as many as fit.")
@click.option("--max-engines", type=click.IntRange(min=1), help="Grow to so many while slices wait; default: do not.")
@click.option("--engine-cpus", type=FiniteRange(min=0.5), default=1, show_default=True, help="CPUs per engine.")
@click.option("--engine-gpus", type=FiniteRange(min=0), help="GPUs per engine; default what the engine asks for.")
@click.option("--stall-seconds", type=FiniteRange(min=1), default=600, show_default=True, help=STALL_HELP)
@click.option("--image-memory-mb", type=click.IntRange(min=100), help=MEMORY_HELP)
@click.option("--takeover", is_flag=True, help="Scan although another scan holds the run.")
@click.option("--ray-address", help="Ray cluster to use; default RAY_ADDRESS, else one of its own.")
@click.option("--quiet", is_flag=True, help="No progress.")
@click.option("--dry-run", is_flag=True, help="Only show the prompt and what the first pictures cost.")
def scan(
    source: str,
    run_url: str,
    engine: str,
    format_name: str | None,
    category: str | None,
    sample: int | None,
    seed: int | None,
    limit: int | None,
    max_pixels_in: int,
    max_frames: int,
    num_engines: int | None,
    max_engines: int | None,
    engine_cpus: float,
    engine_gpus: float | None,
    stall_seconds: float,
    image_memory_mb: int | None,
    takeover: bool,
    ray_address: str | None,
    quiet: bool,
    dry_run: bool,
) -> None:
    """Score every image of SOURCE (a folder, tar, Parquet file, glob or fsspec URL) into RUN."""
    if sample is not None and limit is not None:
        raise click.UsageError("--sample and --limit exclude each other: give one of them")
    if seed is not None and sample is None:
        raise click.UsageError("--seed is of --sample: give --sample too, or leave --seed out")
    if max_engines is not None and max_engines < (num_engines or 1):
        raise click.UsageError(f"--max-engines {max_engines} is less than --num-engines {num_engines}")
    options = engine_options_from_context()
    module = engine_module(engine)
    description = module.describe(options)
    corpus = open_source(source, format_name, category)
    limits = ImageLimits(max_pixels_in, max_frames, description.max_side_px)
    if dry_run:
        from jobs.scanning.dry_run import show

        show(corpus, engine, options, description, limits)
        return
    if place(source).is_dir() and place(run_url).is_within(corpus.root):
        raise RunError(f"{run_url} lies in the source; use a folder outside of it for --run")
    record = RunRecord(
        privsieve=__version__,
        code=code_hash(),
        source=_unicode(_absolute(source)),
        format=corpus.format,
        category=None if category is None else _unicode(category),
        sample=sample,
        seed=None if sample is None else seed or 0,
        limit=limit,
        max_pixels=max_pixels_in,
        max_frames=max_frames,
        taxonomy=TAXONOMY_VERSION,
        engine=_comparable(description),
    )
    if refuse_other(run_url, record) is None:
        _check(module, options, ray_address)
    run = place(run_url)
    from jobs.runtime.cluster import default_num_engines, default_num_gpus, ray_session, refuse_impossible
    from jobs.scanning.on_ray import EnginePool
    from jobs.scanning.settings import ScanSettings

    with lease(run.at(RUN_LEASE), run_url, takeover) as held:
        Attempts(run.at(ATTEMPTS)).forgive()
        with _pardoned(run), ray_session(ray_address):
            chosen = _chosen(corpus, sample, seed or 0, limit)
            shards = [shard for shard in corpus.shards if chosen is None or shard in chosen]
            gpus = default_num_gpus(ray_address, description.num_gpus) if engine_gpus is None else engine_gpus
            refuse_impossible(ray_address, engine_cpus, gpus)
            size = num_engines or default_num_engines(ray_address, engine_cpus, gpus)
            size = min(size, max_engines or size)
            engines = EnginePool(size, max_engines or size, engine_cpus, gpus)
            begun = start_or_continue(run_url, record)
            done = results(run).done
            _refuse_other_shards(run, shards, run_url, done)
            settings = ScanSettings(
                source=corpus,
                run=run,
                engine=engine,
                options=options,
                limits=limits,
                settings_hash=begun.settings_hash(),
                code=record.code or "",
                stall_s=stall_seconds,
                batches_at_once=description.batches_at_once,
                has_canary=description.num_gpus > 0,
                image_memory_bytes=image_memory_mb * 2**20 if image_memory_mb else None,
            )
            left = [shard for shard in shards if not finished(shard, done)]
            if left and begun.code not in (None, record.code):
                told = f"{run_url} was begun with other code of privsieve; new rows are of this one"
                write_line(told, to_stderr=True)
            failures = _scan(settings, left, chosen, engines, done, held, quiet)
        remove_unfinished(run)
        num_chosen = None if chosen is None else sum(len(indices) for indices in chosen.values())
        _reconcile(settings, shards, num_chosen, run_url, failures, done)


def _check(module: EngineModule, options: EngineOptions, ray_address: str | None) -> None:
    """EngineError where a new run would get no answer. A cluster may have another key and reach other addresses."""
    from jobs.runtime.cluster import is_this_machine

    if isinstance(module, RemoteEngineModule) and is_this_machine(ray_address):
        module.check(options)


@contextmanager
def _pardoned(run: Place) -> Iterator[None]:
    """An interruption by the user is not held against the slices that were under way."""
    try:
        yield
    except KeyboardInterrupt:
        with suppress(StorageError):
            Attempts(run.at(ATTEMPTS)).pardon()
        raise


def _refuse_other_shards(run: Place, shards: list[str], run_url: str, done: Done) -> None:
    """RunError where the source lost shards that have rows, or a compacted run, which is closed, would get more."""
    gone = stems_of_others(shards, done)
    if gone:
        raise RunError(
            f"{len(gone)} shards that {run_url} has rows of are gone from the source ({printable(gone[0])} first); "
            "restore them, or scan the source into a new run"
        )
    if not is_compacted(run):
        return
    new = [shard for shard in shards if not finished(shard, done)]
    if new:
        raise RunError(
            f"{run_url} is compacted, and the source has {len(new)} shards more ({printable(new[0])} first); "
            "scan them into a run of their own"
        )


def _comparable(description: EngineDescription) -> dict[str, Any]:
    return {
        "name": description.name,
        "protocol": description.protocol,
        "assessed": list(description.assessed),
        # Only where there are some, so that runs of other engines begun before this was told can be continued.
        **({"only_affirmed": list(description.presence_only)} if description.presence_only else {}),
        "weights": description.weights,
        "versions": description.versions,
        "max_side_px": description.max_side_px,
    }


def _absolute(source: str) -> str:
    return source if "://" in source else os.path.abspath(source)


def _unicode(text: str) -> str:
    """SourceError where run.json could not hold it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise SourceError(
            f"{printable(text)} has bytes that are not UTF-8, as run.json is; rename it, or give a link to it"
        ) from None
    return text


def _chosen(corpus: Source, sample: int | None, seed: int, limit: int | None) -> "Chosen":
    """The samples to scan, None for all. Listing a shard's samples is work for the cluster."""
    from jobs.scanning.selection import draw, first

    if sample is None and limit is None:
        return None
    from jobs.scanning.on_ray import count_samples

    shards = list(corpus.shards)
    if limit is None:
        assert sample is not None
        return draw(shards, count_samples(corpus, shards), sample, seed)
    counts: list[int] = []
    for shard in shards:
        counts.append(sum(len(piece.locators) for piece in corpus.slices(shard)))
        if sum(counts) >= limit:
            break
    return first(shards[: len(counts)], counts, limit)


def _scan(
    settings: "ScanSettings",
    left: list[str],
    chosen: "Chosen",
    engines: "EnginePool",
    done: Done,
    held: Lease,
    quiet: bool,
) -> list[str]:
    """Scans what has no result yet of the shards `left`; returns why slices have none, one line each."""
    from jobs.runtime.progress import meter
    from jobs.scanning.on_ray import scan_slices
    from jobs.scanning.watchdog import heard

    if not left:
        return []
    total = None if chosen is None else sum(len(chosen[shard]) for shard in left)
    failures: list[str] = []
    num_ended = 0
    with meter("scan", total, quiet) as progress:
        found = scan_slices(settings, left, chosen, engines, done)
        silence_s = max(MIN_SILENCE_S, SILENT_STALLS * settings.stall_s)
        for counts in heard(found, silence_s, lambda: _tell_of_silence(silence_s)):
            held.check()
            if counts["fatal"]:
                raise IncompleteError(f"{counts['failure']}; run the same command again to continue")
            num_ended += bool(counts["is_last"])
            progress.advance(int(counts["num_rows"]))
            progress.shards(num_ended, len(left))
            if counts["failure"]:
                failures.append(str(counts["failure"]))
    return failures


def _tell_of_silence(silence_s: float) -> None:
    write_line(
        f"no slice has ended for {silence_s / 60:.0f} min; an engine may still be loading, or a worker is "
        "stopped: if no process of this scan is at work, end it with Ctrl-C and run the same command again",
        to_stderr=True,
    )


def _reconcile(
    settings: "ScanSettings",
    shards: list[str],
    num_chosen: int | None,
    run_url: str,
    failures: list[str],
    earlier: Done,
) -> None:
    """Prints the last line, or raises IncompleteError: which shards have slices without a result, and why.

    earlier: what the run had before this scan.
    """
    from scoring.runs.reconcile import tally

    corpus, done = settings.source, results(settings.run).done
    missing = [shard for shard in shards if not finished(shard, done)]
    found = tally(settings.run, settings.settings_hash, corpus, earlier)
    by_reason = ", ".join(f"{reason} {n}" for reason, n in found.reasons.most_common())
    write_line(
        f"{found.num_rows} images in {len(shards) - len(missing)} of {len(shards)} shards: "
        f"{found.num_rows - found.num_quarantined} scored, "
        f"{found.num_quarantined} quarantined{f' ({by_reason})' if by_reason else ''}"
    )
    changed = [printable(s) for s in missing if done.last.get(stem_in(s, done)) == CONFLICT] + found.changed
    if changed:
        raise IncompleteError(
            f"{changed[0]} changed between two scans of this run ({len(changed)} such shards): remove its results from "
            f"{run_url}/scores and run the same scan again, or scan into a new run"
        )
    if not missing and num_chosen not in (None, found.num_rows):
        raise IncompleteError(
            f"{found.num_rows} images have a row and {num_chosen} were chosen: the source changed between two scans of "
            "this run; scan into a new run"
        )
    if missing:
        why = f" ({failures[0]})" if failures else ""
        raise IncompleteError(
            f"{len(missing)} of {len(shards)} shards have images without a row, {printable(missing[0])} first{why}; "
            f"`privsieve status {run_url}` lists them; run the same scan again to continue"
        )
    if corpus.category is not None and found.num_rows and not found.num_with_category:
        write_line(f"the category is null in every row: {_no_category(corpus, corpus.category)}", to_stderr=True)


def _no_category(corpus: Source, category: str) -> str:
    """Why no sample has a category, as far as its name tells; names of fields, never what they hold."""
    if corpus.format != "webdataset":
        return f'the column "{category}" holds nothing'
    if category == "cls":
        return "no sample has a .cls member that holds anything"
    fields: list[str] = []
    with suppress(StorageError):
        fields = webdataset.json_fields(corpus.root, corpus.shards[0])
    seen = f"the first sample's fields are: {', '.join(fields[:MAX_FIELDS])}" if fields else "the first have no JSON"
    return (
        f'no sample has a text or whole number in the JSON field "{category}"{did_you_mean(category, fields)}; {seen}'
    )
