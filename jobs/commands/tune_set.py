"""`privsieve tune-set SOURCE --labels FILE --target T --out SET`: a training set for `tune`."""

import click

from ingest.errors import number_of
from jobs.console.request_options import QUIET, takes
from jobs.console.terminal import write_line
from jobs.runtime.progress import on_terminal
from jobs.tuning.training_set import TuneSetRequest, run_tune_set
from scoring.tuning.targets import WITHOUT
from scoring.tuning.training_set import (
    DROP_LIST,
    SetRecord,
)


@click.command(name="tune-set")
@takes(TuneSetRequest)
@QUIET
def tune_set(request: TuneSetRequest, quiet: bool) -> None:
    """Join the pictures of SOURCE with labels and write what a model is tuned on."""
    for line in _lines(run_tune_set(request, on_terminal(quiet)), request.out, bool(request.exclude)):
        write_line(line)


def _lines(record: SetRecord, out: str, has_evaluation_sets: bool) -> list[str]:
    train, validation = record.counts["train"], record.counts["validation"]
    kinds = ", ".join(
        f"{num} {name.removeprefix('class ')}" for name, num in train.items() if name.startswith("class ")
    )
    excluded = record.num_excluded
    which = "no evaluation set was named (--exclude)"
    if has_evaluation_sets:
        which = (
            f"{excluded['sha256']} left out as the same file as in an evaluation set, {excluded['phash']} as near "
            "duplicates of one"
        )
    if DROP_LIST in excluded:
        which += f"; {excluded[DROP_LIST]} left out by --drop-list"
    return [
        f"{record.num_pictures} pictures: {record.num_labelled} usable, {record.num_copies} more copies of these, "
        f"{record.num_without_target} {WITHOUT[record.target]}, "
        f"{record.num_unreadable} unreadable, {record.num_unlabelled} without a label"
        f"{f', {record.num_listed} on the hash list' if record.num_listed else ''}"
        f"{f', {record.num_not_compared} not to be compared with the hash list' if record.num_not_compared else ''}; "
        f"{number_of(record.num_unused_labels, 'label')} of no picture",
        f"of the usable ones: {which}; {record.num_not_drawn} not drawn, {train['pictures']} to tune on ({kinds}), "
        f"{validation['pictures']} held back",
        f"{number_of(record.num_groups, 'group')} of near duplicates, each on one side",
        f"to be asked with {record.protocol_version}",
        f"next: privsieve tune {out} --model MODEL --recipe privtune --out ADAPTER",
    ]
