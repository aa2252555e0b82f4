"""`privsieve tune-set SOURCE --labels FILE --target T --out SET`: a training set for `tune`."""

import click

from ingest.errors import number_of
from jobs.console.hash_list_option import hash_list_option
from jobs.console.option_types import FiniteRange, WholeRange, YamlFile
from jobs.console.terminal import write_line
from jobs.runtime.feedback import on_terminal
from jobs.tune_set.run import TuneSetRequest, run_tune_set
from scoring.tuning.drawing import Draw
from scoring.tuning.targets import PROTOCOLS, WITHOUT
from scoring.tuning.training_set import SetRecord


@click.command(name="tune-set")
@click.argument("source")
@click.option("--labels", required=True, help="Labels file with one label per picture (privsieve help labels).")
@click.option("--target", required=True, type=click.Choice(list(PROTOCOLS)), help="What the model learns to answer.")
@click.option("--out", required=True, help="Folder of the training set; a new one.")
@click.option(
    "--protocol", help="Whose prompt the model is tuned on, such as binary:p2; that of the target by default."
)
@click.option(
    "--prompt-file",
    type=YamlFile(),
    help="YAML file that replaces texts of the protocol, as of scan.",
)
@click.option("--dialogues", help="For --target dialogue: conversations, one per line of JSON.")
@click.option("--source-format", help="webdataset, tree or parquet; recognised if not given.")
@click.option("--split", help="Only labels of this split, such as train.")
@click.option("--per-class", type=WholeRange(min=1), help="Pictures of each private class, and as many public ones.")
@click.option("--n", "num_pictures", type=WholeRange(min=2), help="Pictures in total, each class in proportion.")
@click.option(
    "--levels",
    type=click.Choice(["natural", "equal"]),
    default="natural",
    show_default=True,
    help="equal: as many pictures of each severity level as of the rarest.",
)
@click.option("--leave-out", multiple=True, metavar="CLASS", help="A class of which no picture is taken; repeatable.")
@click.option(
    "--validation",
    "validation_share",
    type=FiniteRange(min=0, max=0.5),
    default=Draw.validation_share,
    show_default=True,
    help="Share that is held back, by groups of near duplicates.",
)
@click.option("--seed", type=WholeRange(min=0), default=0, show_default=True, help="Seed of every draw.")
@click.option(
    "--exclude",
    multiple=True,
    metavar="RUN|LABELS",
    help="An evaluation set, as a run or labels file: its pictures, and near duplicates of those in "
    "runs, are left out. Repeatable.",
)
@click.option("--keep-ambiguous", is_flag=True, help="For slots: 0.5 is a class of its own, not 0.")
@hash_list_option("is not copied into the set")
@click.option("--licence", help="Licence of the pictures, for the adapter's card.")
@click.option("--quiet", is_flag=True, help="No progress.")
def tune_set(
    source: str,
    labels: str,
    target: str,
    out: str,
    protocol: str | None,
    prompt_file: bytes | None,
    dialogues: str | None,
    source_format: str | None,
    split: str | None,
    per_class: int | None,
    num_pictures: int | None,
    levels: str,
    leave_out: tuple[str, ...],
    validation_share: float,
    seed: int,
    exclude: tuple[str, ...],
    keep_ambiguous: bool,
    hash_list: str | None,
    licence: str | None,
    quiet: bool,
) -> None:
    """Join the pictures of SOURCE with labels and write what a model is tuned on."""
    draw = Draw(seed, per_class, num_pictures, levels == "equal", leave_out, validation_share)
    request = TuneSetRequest(
        source=source,
        labels=labels,
        out=out,
        target=target,
        protocol=protocol,
        prompt_file=prompt_file,
        dialogues=dialogues,
        source_format=source_format,
        split=split,
        draw=draw,
        exclude=exclude,
        keep_ambiguous=keep_ambiguous,
        licence=licence,
        hash_list_url=hash_list,
    )
    for line in _lines(run_tune_set(request, on_terminal(quiet)), out, bool(exclude)):
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
