"""The verb `tune`: labelled pictures become a training set, and a training set a LoRA adapter."""

import click

from ingest.errors import number_of
from ingest.storage.web import named
from jobs.console.commands import Commands
from jobs.console.request_options import QUIET, takes
from jobs.console.terminal import write_line
from jobs.runtime.cluster import command_session
from jobs.runtime.progress import on_terminal
from jobs.tuning.training_set import TuneSetRequest, run_tune_set
from jobs.tuning.tuning import TuneRequest, run_tune
from scoring.engines.vlm.adapter import scan_command
from scoring.tuning.targets import RECIPES, WITHOUT


@click.group(cls=Commands)
def tune() -> None:
    """Tune a vision-language model on labelled pictures: first set, then fit."""


@tune.command("set")
@takes(TuneSetRequest)
@QUIET
def set_(request: TuneSetRequest, quiet: bool) -> None:
    """Join the pictures of SOURCE with labels and write what a model is tuned on.

    Example: privsieve tune set photos/ --labels labels.parquet --target binary --exclude evaluation-run --out set
    """
    record = run_tune_set(request, on_terminal(quiet))
    train, validation, excluded = record.counts["train"], record.counts["validation"], record.num_excluded
    kinds = ", ".join(
        f"{num} {name.removeprefix('class ')}" for name, num in train.items() if name.startswith("class ")
    )
    which = "no evaluation set was named (--exclude)"
    if request.exclude:
        which = (
            f"{excluded['sha256']} left out because an evaluation set has the same file, {excluded['phash']} because "
            "it has a near duplicate"
        )
    listed = f", {record.num_listed} on the hash list" if record.num_listed else ""
    if record.num_not_compared:
        listed += f", {record.num_not_compared} not to be compared with the hash list"
    for line in (
        f"{record.num_pictures} pictures: {record.num_labelled} usable, {record.num_copies} more copies of these, "
        f"{record.num_without_target} {WITHOUT[record.target]}, {record.num_unreadable} unreadable, "
        f"{record.num_unlabelled} without a label{listed}; "
        f"{number_of(record.num_unused_labels, 'label')} of no picture",
        f"usable pictures: {which}; {record.num_not_drawn} not drawn, {train['pictures']} to tune on ({kinds}), "
        f"{validation['pictures']} held back",
        f"{number_of(record.num_groups, 'group')} of near duplicates, each on one side",
        f"to be asked with {record.protocol_version}",
        f"next: privsieve tune fit {request.out} --model MODEL --recipe {RECIPES[record.target]} --out ADAPTER",
    ):
        write_line(line)


@tune.command()
@takes(TuneRequest)
@QUIET
def fit(request: TuneRequest, quiet: bool) -> None:
    """Tune MODEL on a training set that tune set wrote. The adapter is for scan --adapter.

    The same command continues a killed run at its last checkpoint, and ends with the same weights.

    Example: privsieve tune fit set --model Qwen/Qwen3-VL-8B-Instruct --recipe privtune --out adapter
    """
    with command_session():
        card = run_tune(request, on_terminal(quiet))
    held_back = "none were held back"
    if card.validation_accuracy is not None:
        held_back = f"{card.validation_accuracy:.3f} of the held-back ones"
    for line in (
        f"{card.num_steps} steps in {card.seconds:.0f} s on {card.device}; {card.num_parameters:,} parameters",
        f"right answers while it was tuned: {card.train_accuracy:.3f} of the training pictures, {held_back}",
        f"next: {scan_command(named(request.model), request.out)}",
    ):
        write_line(line)
