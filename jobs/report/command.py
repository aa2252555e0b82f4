"""The verb `report`: what a run found, as text, JSON, CSV, and one HTML page."""

from typing import TYPE_CHECKING

import click

from jobs.console.request_options import takes
from jobs.console.terminal import write_cautions, write_json, write_line
from jobs.report.request import ReportRequest

if TYPE_CHECKING:
    from reports.report.results import Report


@click.command()
@takes(ReportRequest)
@click.option(
    "--format",
    "output",
    type=click.Choice(["text", "json", "csv"]),
    default="text",
    show_default=True,
    help="csv holds the groups; json holds everything.",
)
def report(request: ReportRequest, output: str) -> None:
    """Report what the scan in RUN found: levels, attributes, and privacy rates per group.

    First come two sentences of findings, and whether they are of all images of the source, of a random sample, of the
    first ones, or of a scan that is not finished. Rates leave out quarantined images. The page names the most severe
    images; it holds no picture without --gallery.
    """
    from jobs.report.run import run_report
    from jobs.runtime.feedback import on_terminal

    result = run_report(request, on_terminal(quiet=True))
    _write(result.report, output)
    if output == "text":
        if result.report.severest_note and result.pages:
            write_line(f"most severe images {result.report.severest_note}")
        for path in result.pages:
            write_line(f"page written to {path}")


def _write(found: "Report", output: str) -> None:
    if output == "text":
        from jobs.console.report_text import write_report

        write_report(found)
    elif output == "json":
        from dataclasses import asdict

        from reports.report.headline import headline_of
        from reports.report.words import audit_cautions, findings

        first = {
            "cautions": found.cautions,
            "findings": findings(found),
            "headline": asdict(headline_of(found)),
            "audit_cautions": audit_cautions(found),
        }
        plain = asdict(found) | {"label_gaps": found.label_gaps.model_dump()}
        del plain["audited"]  # `corrected` has its rates, of the images that the report is of
        write_json(first | plain, indent=1)
    else:
        from jobs.console.tables import write_rows
        from reports.report.results import HEADS, group_rows
        from reports.report.words import audit_cautions

        write_cautions((*found.cautions, *audit_cautions(found)))
        write_rows(HEADS, group_rows(found), "csv")
