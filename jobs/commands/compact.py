"""`privsieve compact RUN`: the many small result files of a finished run become few large ones, sorted."""

import click

from ingest.errors import number_of
from jobs.console.request_options import takes
from jobs.console.terminal import write_line
from jobs.scanning.compacting import CompactRequest, run_compact
from scoring.weights.cache import in_bytes


@click.command()
@takes(CompactRequest)
def compact(request: CompactRequest) -> None:
    """Join the small result files of a finished RUN into few large ones, sorted by shard and index.

    May be interrupted at any moment; the same command continues.
    """
    result = run_compact(request)
    made, num_removed = result.manifest, result.num_removed
    what = f"{number_of(made.num_rows, 'row')} of {number_of(made.num_shards, 'shard')}"
    what += f" in {number_of(len(made.files), 'file')}"
    if result.was_compacted and not num_removed:
        write_line(f"{request.run} is compacted already, nothing to do: {what}")
    elif result.was_compacted:
        last = "last small file is" if num_removed == 1 else f"last {num_removed} small files are"
        write_line(f"{request.run} was compacted: {what}; the {last} removed now")
    else:
        num_bytes = sum(file.num_bytes for file in made.files)
        small = "1 small one, which is" if made.num_slices == 1 else f"{made.num_slices} small ones, which are"
        write_line(f"{what} ({in_bytes(num_bytes)}), from {small} removed")
