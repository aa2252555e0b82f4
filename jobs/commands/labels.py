"""The verb `labels`: what people, benchmarks and models say about pictures, as one table."""

import click

from ingest.errors import number_of
from jobs.console.commands import Commands
from jobs.console.request_options import QUIET, takes
from jobs.console.terminal import write_document, write_line, write_table, wrote_json
from jobs.labelling.labels import (
    AgreementRequest,
    ConsensusRequest,
    DescribeRequest,
    ExportRequest,
    ImportRequest,
    run_agreement,
    run_consensus,
    run_describe,
    run_export,
    run_import,
)
from jobs.runtime.progress import on_terminal
from reports.evaluation.words import FEW_NOTE, interval_cell
from reports.labels.agreement import Agreement
from reports.labels.describing import document
from reports.words import number, percent

MAX_SHOWN = 12
"""Limit on the unmapped labels that are printed on one line; the footer of the file has them all."""


@click.group(cls=Commands)
def labels() -> None:
    """Import, join, compare and export labels: what people, benchmarks and models say about pictures."""


@labels.command("import")
@takes(ImportRequest)
@QUIET
def import_(request: ImportRequest, quiet: bool) -> None:
    """Make a labels file from the data set NAME below ROOT.

    NAME is vispr, privacyalert, privbench (also PrivBench-H and PrivTune), csv or label-studio.
    ROOT is its folder, or for csv and label-studio its file. Pictures that are there are hashed; the others are rows
    without sha256. privsieve help labels shows the layouts.

    Example: privsieve labels import privbench PrivBench --out labels.parquet
    """
    result = run_import(request, on_terminal(quiet))
    origin = result.origin
    write_line(
        f"{number_of(result.num_listed, 'labelled picture')}: {number_of(result.num_rows, 'row')} in {request.out}, "
        f"{result.num_rows - result.num_missing} with sha256"
    )
    if origin.unmapped:
        common = sorted(origin.unmapped.items(), key=lambda item: (-item[1], item[0]))
        shown = ", ".join(f"{label} {count}" for label, count in common[:MAX_SHOWN])
        more = f", and {len(common) - MAX_SHOWN} more" if len(common) > MAX_SHOWN else ""
        write_line(f"labels that fit no attribute: {shown}{more}")
    for note in origin.notes:
        write_line(f"note: {note}")


@labels.command()
@takes(ConsensusRequest)
def consensus(request: ConsensusRequest) -> None:
    """Join what several annotators say into one label per picture.

    Inputs are labels files and runs. Pictures are joined by sha256, or by key where one has none. Of two annotators an
    attribute is 1 only if both say 1; it is 0.5 if they differ, and null if either did not judge it. `private`,
    `vote` and `class` are null if they differ. More annotators have one vote each (--method majority): an answer that
    ties with another one is null.

    Example: privsieve labels consensus run-a run-b --out labels.parquet
    """
    result = run_consensus(request)
    num_rows = result.labels.num_rows
    write_line(f"{number_of(num_rows, 'picture')} in {request.out}, {result.num_shared} with a row of every annotator")
    write_line(f"method {result.method}, {len(result.annotators)} annotators: {', '.join(result.annotators)}")
    write_line(f"next: privsieve labels describe {request.out}")


@labels.command()
@takes(AgreementRequest)
@click.option("--format", "output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def agreement(request: AgreementRequest, output: str) -> None:
    """Show how far annotators agree: per attribute, level, private and class.

    by a pair: pictures that both of two annotators judged. identical: pictures on which all agree. same: pairs of
    answers that are the same. Cohen's kappa is the mean over pairs of annotators; Fleiss' kappa and Krippendorff's
    alpha are of all together; ordinal alpha counts a larger difference more. 95 %: interval of the figure before it. A
    dash: not defined, as where all answers are the same.

    Example: privsieve labels agreement run-a run-b people.parquet
    """
    result = run_agreement(request)
    if wrote_json(result, output):
        return
    write_line(f"{number_of(len(result.annotators), 'annotator')}: {', '.join(result.annotators)}")
    write_line(f"{number_of(result.num_pictures, 'picture')} with rows of at least two")
    heads = ["", "items", "by a pair", "identical", "same", "Cohen", "95 %", "Fleiss", "alpha", "95 %", "ordinal alpha"]
    write_table(heads, [_agreement_cells(row) for row in result.rows], set(range(1, len(heads))))
    if any(interval.is_few for row in result.rows for interval in row.intervals.values()):
        write_line(FEW_NOTE)
    if chance := [f"{row.name} ({percent(row.most_common)})" for row in result.rows if row.is_mostly_chance]:
        write_line(
            f"nearly all answers are the same one: {', '.join(chance)}. Chance alone then makes nearly every pair "
            "agree, so kappa and alpha are low or not defined although most pairs agree; read the share of pairs that "
            "are the same."
        )


@labels.command()
@takes(DescribeRequest)
@click.option("--format", "output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def describe(request: DescribeRequest, output: str) -> None:
    """Count what labels say: people, private and public, votes, levels, attributes and classes.

    Example: privsieve labels describe my-run/reviews
    """
    result = run_describe(request)
    if not wrote_json(result, output):
        write_document(document(result))


@labels.command()
@takes(ExportRequest)
def export(request: ExportRequest) -> None:
    """Write labels or the answers of a run for people to correct.

    label-studio makes tasks of a run with its answers filled in, the labelling interface (.xml) to paste into the
    project, and copies of the pictures, whose names say nothing (a folder next to the tasks). `labels import
    label-studio` and `labels import csv` read the result.

    Example: privsieve labels export my-run --format label-studio --out tasks.json
    """
    result = run_export(request, on_terminal(quiet=True))
    if result.left_out:
        write_line(result.left_out)
    write_line(f"{number_of(result.labels.num_rows, 'row')} in {request.out}")
    if result.interface:
        write_line(f"labelling interface: {result.interface}")
    corrected = "EXPORTED.json" if result.interface else request.out
    write_line(f"next: privsieve labels import {request.format} {corrected} --out labels.parquet")


def _agreement_cells(row: Agreement) -> list[str]:
    fewest, most = row.fewest_judged_by_pair, row.most_judged_by_pair
    of_cohen, of_alpha = (interval_cell(row.intervals.get(name)) for name in ("cohen", "alpha_nominal"))
    return [
        row.name,
        f"{row.num_items:,}",
        f"{most:,}" if fewest == most else f"{fewest:,}–{most:,}",
        *map(percent, (row.identical, row.percent)),
        *(number(row.cohen), of_cohen, number(row.fleiss)),
        *(number(row.alpha_nominal), of_alpha, number(row.alpha_ordinal)),
    ]
