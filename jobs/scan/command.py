"""`privsieve scan SOURCE --run RUN`: every image becomes one row.

Options and output; the work is `jobs.scan.run.run_scan`.
"""

import shlex

import click

from ingest.errors import number_of
from ingest.images.pixels import ImageLimits
from jobs.console.command import OneSource
from jobs.console.engine_options import ENGINE_HEADING, engine_option, engine_options, engine_options_from_context
from jobs.console.executor_options import executor_options
from jobs.console.hash_list_option import hash_list_option
from jobs.console.old_spellings import with_old_spellings
from jobs.console.option_types import MAX_SECONDS, FiniteRange, NumberOrAuto, WholeRange
from jobs.console.terminal import write_line
from jobs.runtime.executors import Executor
from jobs.runtime.feedback import on_terminal
from jobs.runtime.last_word import command_session
from jobs.runtime.progress import duration
from jobs.runtime.weights_progress import weights_shown
from jobs.scan.request import IncompleteScanError, ScanRequest, ScanResources, ScanResult, Supervision
from scoring.runs.damage import Damage

STALL_HELP = "Silence after which a slice is given up, tried again, then scanned image by image."
PROCESSES_HELP = "Of --executor inline; default one per core, and one alone for engines with a GPU or an endpoint."
MEMORY_HELP = "Memory for an engine that scans image by image; default half of what is free."


@click.command(
    cls=with_old_spellings({"--format": "--source-format"}),
    headings={
        "Which images": ("--sample", "--shards", "--per-category", "--seed", "--limit", "--source-format"),
        "Categories": ("--category", "--labels", "--caption-words"),
        "Pictures that must not be seen": ("--hash-list", "--pdq"),
        "Limits": ("--max-pixels-in", "--max-frames", "--stall-seconds", "--image-memory-mb"),
        **ENGINE_HEADING,
        "Where it runs": (
            *("--executor", "--ray-address", "--num-engines", "--max-engines"),
            *("--engine-cpus", "--engine-gpus", "--processes", "--takeover"),
        ),
    },
)
@click.argument("source", cls=OneSource)
@click.option("--run", "run_url", required=True, help="Folder or fsspec URL of the run; continued if it exists.")
@engine_option("What assesses the images")
@engine_options
@click.option("--source-format", help="webdataset, tree or parquet; recognised by default.")
@click.option("--category", help="JSON field (a.b: inside of a), cls, or Parquet column that names a sample's class.")
@click.option(
    "--labels", help="File with a class for each image's name: a labels file, CSV, TSV, or Places365's lists."
)
@click.option("--caption-words", help="CSV with a category and a word per line: the category by words of the caption.")
@click.option("--sample", type=WholeRange(min=1), help="Scan a uniform random sample of this many images.")
@click.option("--shards", type=WholeRange(min=1), help="With --sample: draw so many shards first, and read no other.")
@click.option("--per-category", is_flag=True, help="With --sample: so many images of each category.")
@click.option("--seed", type=WholeRange(min=0), help="Seed of --sample; default 0.")
@click.option("--limit", type=WholeRange(min=1), help="Scan only this many images, from the first.")
@click.option(
    "--max-pixels-in",
    type=WholeRange(min=1),
    default=ImageLimits.max_pixels,
    show_default=True,
    help="Larger pictures are quarantined unread.",
)
@click.option(
    "--max-frames",
    type=WholeRange(min=1),
    default=ImageLimits.max_frames,
    show_default=True,
    help="Frames or pages that are scanned, from the first.",
)
@hash_list_option("is not shown to the engine, and its row says only where it is")
@click.option("--pdq", is_flag=True, help="Store PDQ hashes, so that other commands can compare them with a hash list.")
@click.option(
    "--num-engines",
    type=NumberOrAuto(),
    default="auto",
    show_default=True,
    help="Engine actors; auto: as many as fit, and on a cluster those of machines that it may still start.",
)
@click.option("--max-engines", type=WholeRange(min=1), help="Add engines up to this number while slices wait.")
@click.option("--engine-cpus", type=FiniteRange(min=0.5), default=1, show_default=True, help="CPUs per engine.")
@click.option("--engine-gpus", type=FiniteRange(min=0), help="GPUs per engine; default what the engine asks for.")
@click.option("--stall-seconds", type=FiniteRange(1, MAX_SECONDS), default=600, show_default=True, help=STALL_HELP)
@click.option("--image-memory-mb", type=WholeRange(min=100), help=MEMORY_HELP)
@click.option("--processes", type=WholeRange(min=1), help=PROCESSES_HELP)
@click.option("--takeover", is_flag=True, help="Scan although another scan holds the run.")
@executor_options(default="ray")
@click.option("--quiet", is_flag=True, help="No progress.")
@click.option("--dry-run", is_flag=True, help="Only show the prompt and what the first pictures cost.")
def scan(
    source: str,
    run_url: str,
    engine: str,
    source_format: str | None,
    category: str | None,
    labels: str | None,
    caption_words: str | None,
    sample: int | None,
    shards: int | None,
    per_category: bool,
    seed: int | None,
    limit: int | None,
    max_pixels_in: int,
    max_frames: int,
    hash_list: str | None,
    pdq: bool,
    num_engines: int | None,
    max_engines: int | None,
    engine_cpus: float,
    engine_gpus: float | None,
    stall_seconds: float,
    image_memory_mb: int | None,
    processes: int | None,
    takeover: bool,
    executor: Executor | None,
    ray_address: str | None,
    quiet: bool,
    dry_run: bool,
) -> None:
    """Score every image of SOURCE (a folder, tar, Parquet file, picture, glob or fsspec URL) into RUN.

    The same command again continues a scan that was interrupted.
    """
    request = ScanRequest(
        source=source,
        run=run_url,
        engine=engine,
        options=engine_options_from_context(),
        format=source_format,
        category=category,
        labels=labels,
        caption_words=caption_words,
        sample=sample,
        shards=shards,
        per_category=per_category,
        seed=seed,
        limit=limit,
        max_pixels=max_pixels_in,
        max_frames=max_frames,
        hash_list=hash_list,
        pdq=pdq,
    )
    resources = ScanResources(
        executor=executor or "ray",
        ray_address=ray_address,
        num_engines=num_engines,
        max_engines=max_engines,
        engine_cpus=engine_cpus,
        engine_gpus=engine_gpus,
        num_processes=processes,
    )
    image_memory_bytes = image_memory_mb * 2**20 if image_memory_mb else None
    if dry_run:
        from jobs.scan.dry_run import show

        with weights_shown(on_terminal(quiet)):
            show(request, resources, on_terminal(quiet))
        return
    from jobs.scan.run import run_scan

    try:
        with command_session():
            supervision = Supervision(stall_seconds, image_memory_bytes, takeover)
            result = run_scan(request, resources, supervision, on_terminal(quiet))
    except IncompleteScanError as error:
        write_line(str(error.result))
        raise
    write_line(str(result))
    if not quiet:
        write_line(_pace(result), to_stderr=True)  # stdout stays one line, for programs
        if result.num_images:
            write_line(f"next: {_next(run_url)}", to_stderr=True)
    if result.damage.num_shards:
        write_line(_damage(result.damage, run_url), to_stderr=True)


def _pace(result: ScanResult) -> str:
    """How long it took, and how fast it was."""
    if not result.num_images:
        return f"there is no picture in the source ({duration(result.seconds)})"
    if not result.num_new_images:
        return f"nothing was left to scan ({duration(result.seconds)})"
    images = number_of(result.num_new_images, "image")
    new = f"{images} of them in this scan, " if result.num_new_images < result.num_images else ""
    rate = "" if result.images_per_s is None else f", {result.images_per_s:.1f} images/s after the start"
    return f"{new}{duration(result.seconds)}{rate}"


def _damage(damage: Damage, run_url: str) -> str:
    """The last line of a scan: the source has lost images, and scanning again does not bring them back."""
    listed = f'privsieve sql {shlex.quote(run_url)} "FROM damaged"'
    return f"DAMAGED: {damage.named}; replace what is damaged and scan into a new run; all of it: {listed}"


def _next(run_url: str) -> str:
    return f"privsieve report {shlex.quote(run_url)} --html report.html"
