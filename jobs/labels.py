"""The verb `labels`: what people, benchmarks and models say about pictures, as one table."""

from typing import Any

import click

from ingest.errors import number_of
from jobs.console.option_types import FiniteRange
from jobs.console.terminal import write_line
from jobs.runtime.feedback import on_terminal

SPLITS = ("train", "validation", "test")
METHODS = ("two-annotator", "dawid-skene")
MAX_SHOWN = 12
"""Unmapped labels on one line; the footer of the file has them all."""


@click.group()
def labels() -> None:
    """Import, join, compare and export labels: what people, benchmarks and models say about pictures."""


@labels.command("import")
@click.argument("name")
@click.argument("root")
@click.option("--out", required=True, help="Labels file to write: .parquet, or .csv.")
@click.option(
    "--split", type=click.Choice(SPLITS), help="Only this split; data sets without splits get it as their split."
)
@click.option("--annotator", help="Who gave the labels; default the name of the data set.")
@click.option("--mapping", metavar="FILE", help="Mapping onto the 22 attributes instead of the importer's own.")
@click.option("--quiet", is_flag=True, help="No progress bar.")
def import_(
    name: str, root: str, out: str, split: Any, annotator: str | None, mapping: str | None, quiet: bool
) -> None:
    """Make a labels file from the data set NAME below ROOT.

    NAME is vispr, privacyalert, privacyalert-curated, privbench (also PrivBench-H and PrivTune), biv-priv, places365,
    csv or label-studio. ROOT is its folder, or for csv and label-studio its file. Pictures that are there are hashed;
    the others are rows without sha256. docs/labels.md shows the layouts.

    Example: privsieve labels import privbench PrivBench --out labels.parquet
    """
    from jobs.labelling.importing import ImportRequest, run_import
    from jobs.runtime.requests import refused_in_one_line

    with refused_in_one_line():
        request = ImportRequest(name, root, out, split, annotator, mapping)
    found = run_import(request, on_terminal(quiet))
    origin = found.origin
    write_line(
        f"{number_of(found.num_listed, 'labelled picture')}: {number_of(found.labels.num_rows, 'row')} in {out}, "
        f"{found.labels.num_rows - found.num_missing} with sha256"
    )
    if origin.unmapped:
        common = sorted(origin.unmapped.items(), key=lambda found: (-found[1], found[0]))
        shown = ", ".join(f"{label} {count}" for label, count in common[:MAX_SHOWN])
        more = f", and {len(common) - MAX_SHOWN} more" if len(common) > MAX_SHOWN else ""
        write_line(f"labels that fit no attribute: {shown}{more}")
    for note in origin.notes:
        write_line(f"note: {note}")


@labels.command()
@click.argument("inputs", nargs=-1, required=True, metavar="LABELS_OR_RUN...")
@click.option("--out", required=True, help="Labels file to write: .parquet, or .csv.")
@click.option("--method", type=click.Choice(METHODS), help="Default two-annotator if there are two, else dawid-skene.")
@click.option("--paper-rule", is_flag=True, help="Where two annotators differ: 0, not 0.5.")
@click.option(
    "--min-posterior", type=FiniteRange(0, 1), default=0.5, show_default=True, help="dawid-skene: null below this."
)
def consensus(inputs: tuple[str, ...], out: str, method: Any, paper_rule: bool, min_posterior: float) -> None:
    """Join what several annotators say into one label per picture.

    Inputs are labels files and runs. Pictures are joined by sha256, or by key where one has none. Of two annotators an
    attribute is 1 only if both say 1; it is 0.5 if they differ, and null if either did not judge it. `private` and
    `class` are null if they differ. More annotators are weighed by how often each is right (Dawid-Skene).

    Example: privsieve labels consensus run-a run-b --out labels.parquet
    """
    from jobs.labelling.joining import ConsensusRequest, run_consensus
    from jobs.runtime.requests import refused_in_one_line

    with refused_in_one_line():
        request = ConsensusRequest(inputs, out, method, paper_rule, min_posterior)
    found = run_consensus(request)
    num_rows = found.labels.num_rows
    write_line(f"{number_of(num_rows, 'picture')} in {out}, {found.num_shared} with a row of every annotator")
    write_line(f"method {found.method}, {len(found.annotators)} annotators: {', '.join(found.annotators)}")
    for what, counts in (("values of attributes", found.num_values), ("private", found.num_private)):
        write_line(f"{what}: " + ", ".join(f"{count:,} are {value}" for value, count in counts.items()))
    for name, share in found.accuracy.items():
        write_line(f"estimated to be right: {name} {share:.1%}")
