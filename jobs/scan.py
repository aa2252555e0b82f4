"""`privsieve scan SOURCE --run RUN`: every image becomes one row.

The driver lists shards; Ray Data cuts them into slices; a pool of actors scores slices and writes their files.
"""

import hashlib
import os
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from ingest import __version__
from ingest.errors import IncompleteError
from ingest.formats import Source, open_source
from ingest.images import ImageLimits
from ingest.sample import printable
from ingest.slices import Slice, by_shard, cut, file_name, finished
from ingest.storage import Place
from jobs.run import SCORES, RunRecord, score_rows, start_or_continue
from scoring.assessment import EngineDescription, EngineOptions
from scoring.engines import engine_module
from scoring.taxonomy import TAXONOMY_VERSION

if TYPE_CHECKING:
    from jobs.scanner import ScanSettings

ENGINES_PER_SLICER = 4
SHARDS_PER_TASK = 100


@click.command()
@click.argument("source")
@click.option("--run", "run_url", required=True, help="Folder or fsspec URL of the run; continued if it exists.")
@click.option("--engine", default="detectors", show_default=True, help="Who answers: detectors or canned.")
@click.option("--format", "format_name", help="webdataset, tree or parquet; recognised where not said.")
@click.option("--category", help="JSON field, cls, or Parquet column that names a sample's class.")
@click.option("--sample", type=click.IntRange(min=1), help="Scan a uniform random sample of so many images.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of --sample.")
@click.option("--limit", type=click.IntRange(min=1), help="Scan only the first so many images.")
@click.option("--max-pixels-in", type=click.IntRange(min=1), default=ImageLimits.max_pixels, show_default=True)
@click.option("--max-frames", type=click.IntRange(min=1), default=ImageLimits.max_frames, show_default=True)
@click.option("--num-engines", type=click.IntRange(min=1), help="Engine actors; default one per CPU core.")
@click.option("--ray-address", help="Ray cluster to use; default RAY_ADDRESS, else one of its own.")
@click.option("--quiet", is_flag=True, help="No progress bar.")
def scan(
    source: str,
    run_url: str,
    engine: str,
    format_name: str | None,
    category: str | None,
    sample: int | None,
    seed: int,
    limit: int | None,
    max_pixels_in: int,
    max_frames: int,
    num_engines: int | None,
    ray_address: str | None,
    quiet: bool,
) -> None:
    """Score every image of SOURCE (a folder, tar, Parquet file, glob or fsspec URL) into RUN."""
    if sample is not None and limit is not None:
        raise click.UsageError("--sample and --limit exclude each other: give one of them")
    options = EngineOptions()
    description = engine_module(engine).describe(options)
    corpus = open_source(source, format_name, category)
    record = RunRecord(
        privsieve=__version__,
        source=_absolute(source),
        format=corpus.format,
        category=category,
        sample=sample,
        seed=seed if sample is not None else None,
        limit=limit,
        max_pixels=max_pixels_in,
        max_frames=max_frames,
        taxonomy=TAXONOMY_VERSION,
        engine=_comparable(description),
    )
    run = start_or_continue(run_url, record)
    limits = ImageLimits(max_pixels_in, max_frames, description.max_side_px)
    from jobs.cluster import ray_session
    from jobs.scanner import ScanSettings

    settings_hash = hashlib.sha256(record.model_dump_json().encode()).hexdigest()
    settings = ScanSettings(corpus, run.at(SCORES), engine, options, limits, settings_hash)
    with ray_session(ray_address):
        chosen = _chosen(corpus, sample, seed, limit)
        _scan(settings, chosen, num_engines or os.cpu_count() or 1, quiet)
    shards = [shard for shard in corpus.shards if chosen is None or shard in chosen]
    _reconcile(settings.scores, shards, run_url)


def _comparable(description: EngineDescription) -> dict[str, Any]:
    return {
        "name": description.name,
        "protocol": description.protocol,
        "assessed": list(description.assessed),
        "weights": description.weights,
        "versions": description.versions,
        "max_side_px": description.max_side_px,
    }


def _absolute(source: str) -> str:
    return source if "://" in source else os.path.abspath(source)


def _chosen(corpus: Source, sample: int | None, seed: int, limit: int | None) -> dict[str, list[int]] | None:
    """The samples to scan, None for all. Listing a shard's samples is work for the cluster."""
    from jobs.selection import draw, first

    if sample is None and limit is None:
        return None
    shards = list(corpus.shards)
    counts: list[int] = []
    if limit is not None:
        for shard in shards:
            counts.append(sum(len(piece.locators) for piece in corpus.slices(shard)))
            if sum(counts) >= limit:
                break
        return first(shards[: len(counts)], counts, limit)
    import ray.data

    def count(row: dict[str, Any]) -> dict[str, Any]:
        found = sum(len(piece.locators) for piece in corpus.slices(shards[int(row["number"])]))
        return {"number": row["number"], "count": found}

    listed = ray.data.from_items([{"number": n} for n in range(len(shards))]).map(count)
    counted = {int(row["number"]): int(row["count"]) for row in listed.iter_rows()}
    assert sample is not None
    return draw(shards, [counted[n] for n in range(len(shards))], sample, seed)


def _scan(settings: "ScanSettings", chosen: dict[str, list[int]] | None, num_engines: int, quiet: bool) -> None:
    """Scans the slices that have no result yet."""
    import ray.data

    from jobs.progress import meter
    from jobs.scanner import SliceScanner

    done_names = frozenset(settings.scores.names())
    done = by_shard(done_names)
    shards = [s for s in settings.source.shards if chosen is None or s in chosen]
    left = [s for s in shards if not finished(s, done)]
    if not left:
        return
    corpus = settings.source

    def slice_shard(row: dict[str, Any]) -> Iterator[dict[str, str]]:
        shard = left[int(row["number"])]
        for piece in selected(corpus, shard, None if chosen is None else chosen[shard]):
            if file_name(piece.shard, piece.number, piece.is_last) not in done_names:
                yield {"slice": piece.to_json()}

    # Each task and each process of a slicer costs a moment to start, and one slicer feeds several engines.
    num_slicers = max(1, num_engines // ENGINES_PER_SLICER)
    num_tasks = min(len(left), max(num_slicers, len(left) // SHARDS_PER_TASK))
    numbers = ray.data.from_items([{"number": n} for n in range(len(left))], override_num_blocks=num_tasks)
    pieces = numbers.flat_map(slice_shard, num_cpus=0.5, compute=ray.data.TaskPoolStrategy(size=num_slicers))
    counts = pieces.map_batches(
        SliceScanner,
        fn_constructor_args=(settings,),
        batch_size=1,
        num_cpus=1,
        compute=ray.data.ActorPoolStrategy(size=num_engines),
    )
    total = sum(len(indices) for indices in chosen.values()) if chosen is not None else None
    with meter("scan", total, quiet) as progress:
        for row in counts.iter_rows():
            progress.advance(int(row["num_rows"]))


def selected(corpus: Source, shard: str, indices: list[int] | None) -> Iterator[Slice]:
    """The slices of a shard, or, with chosen indices, slices of these samples only."""
    if indices is None:
        return corpus.slices(shard)
    wanted = frozenset(indices)
    locators = (at for piece in corpus.slices(shard) for at in piece.locators if at["index"] in wanted)
    return cut(shard, ((at, 0) for at in locators))


def _reconcile(scores: Place, shards: list[str], run_url: str) -> None:
    """Prints the last line, or raises IncompleteError: which shards have slices without a result."""
    scores.fs.invalidate_cache()
    names = scores.names()
    done = by_shard(names)
    missing = [shard for shard in shards if not finished(shard, done)]
    rows = score_rows(scores, [name for name in names if name.endswith(".parquet")], ["reason"])
    reasons = Counter(r for r in rows["reason"].to_pylist() if r)
    num_rows = rows.num_rows
    num_quarantined = sum(reasons.values())
    by_reason = ", ".join(f"{reason} {n}" for reason, n in reasons.most_common())
    click.echo(
        f"{num_rows} images in {len(shards) - len(missing)} of {len(shards)} shards: "
        f"{num_rows - num_quarantined} scored, {num_quarantined} quarantined{f' ({by_reason})' if by_reason else ''}"
    )
    if missing:
        raise IncompleteError(
            f"{len(missing)} shards have images without a row, {printable(missing[0])} first; "
            "run the same scan again to continue"
        )
