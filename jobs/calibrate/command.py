"""The verb `calibrate`: whether probabilities mean what they say, and thresholds that follow from labels."""

from typing import TYPE_CHECKING

import click

from jobs.console.option_types import FiniteRange, WholeRange
from jobs.console.terminal import write_json, write_line
from scoring.taxonomy import KEYS

if TYPE_CHECKING:
    from reports.calibrating.results import CalibrationReport
    from reports.labelled_rows import Drawn


@click.command()
@click.argument("run")
@click.option("--labels", required=True, metavar="FILE", help="Labels as Parquet or CSV, one row per picture.")
@click.option("--out", metavar="FILE", help="Write the thresholds of the attributes, for scan --thresholds.")
@click.option(
    "--at",
    type=FiniteRange(0, 1, min_open=True, max_open=True),
    default=0.5,
    show_default=True,
    help="Calibrated probability from which an attribute is present.",
)
@click.option(
    "--drawn",
    type=click.Choice(["audit", "evenly"]),
    help="How the labelled pictures were drawn.  [default: audit if all are of the audit sample]",
)
@click.option(
    "--reliability",
    multiple=True,
    type=click.Choice(["private", *KEYS]),
    metavar="ATTRIBUTE",
    help="Show the reliability table of this attribute, or of private; may be given several times.  [default: private]",
)
@click.option("--seed", type=WholeRange(min=0, max=2**63 - 1), default=0, show_default=True)
@click.option("--format", "output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def calibrate(
    run: str,
    labels: str,
    out: str | None,
    at: float,
    drawn: "Drawn | None",
    reliability: tuple[str, ...],
    seed: int,
    output: str,
) -> None:
    """Compare the probabilities of RUN with labels, and choose thresholds.

    Reliability, Brier score and expected calibration error, before and after a map that is fitted on the labels.

    RUN must hold probabilities: those of vision-language models read with slots, json or binary. The engine detectors
    gives none; evaluate judges its answers, and audit corrects its rates.
    """
    from jobs.calibrate.run import CalibrateRequest, run_calibrate
    from jobs.runtime.requests import refused_in_one_line

    with refused_in_one_line():
        request = CalibrateRequest(run, labels, out, at, drawn, seed)
    report = run_calibrate(request).report
    if output == "json":
        from reports.calibrating.results import as_json

        write_json(as_json(report), indent=1)
        return
    _write_text(report, reliability or ("private",))
    if out is not None:
        write_line(f"thresholds written to {out}")


def _write_text(report: "CalibrationReport", reliability: tuple[str, ...]) -> None:
    from jobs.console.tables import write_table
    from reports.calibrating.tables import headlines, notes, tables

    for line in headlines(report):
        write_line(line)
    for table in tables(report, reliability):
        write_line()
        write_line(table.title)
        write_table(
            table.heads, table.rows, [place for place in range(1, len(table.heads)) if table.heads[place] != "map"]
        )
    for note in notes(report):
        write_line(note)
