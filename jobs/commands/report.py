"""The verb `report`: what a run found, as text, JSON, CSV, and one HTML page. The text begins with the findings. Then
come tables, which fit 80 columns if the names do."""

from typing import TYPE_CHECKING

import click

from jobs.console.request_options import takes
from jobs.console.terminal import write_cautions, write_json, write_line, write_rows, write_table
from jobs.reporting.request import ReportRequest
from reports.words import percent, percent_within, shortened, spread

if TYPE_CHECKING:
    from reports.report.results import Report
    from reports.run.figures import CorrectedRate, Prevalence, Rate

FEW = "*"

NUM_SHOWN = 5
"""Groups of the highest rates without --full."""

MAX_REASONS = 5
"""Limit on the groups whose evidence is listed."""


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
@click.option("--full", is_flag=True, help="Text of several screens: all tables, and how to read them.")
def report(request: ReportRequest, output: str, full: bool) -> None:
    """Report what the scan in RUN found: how much is private, where, and how severe.

    First come two sentences of findings, and whether they are of all images of the source, of a random sample, of the
    first ones, or of a scan that is not finished. Rates leave out quarantined images. The page names the most severe
    images; it holds no picture.
    """
    from jobs.reporting.reporting import run_report
    from jobs.runtime.progress import on_terminal

    found = run_report(request, on_terminal(quiet=True))
    _write(found, output, full)
    if output == "text" and request.html is not None:
        if found.severest_note:
            write_line(f"most severe images {found.severest_note}")
        write_line(f"page written to {request.html}")


def _write(report: "Report", output: str, full: bool) -> None:
    from reports.report import words

    if output == "text":
        write_report(report, full)
    elif output == "json":
        from jobs.reporting.reporting import report_facts

        write_json(report_facts(report), indent=1)
    else:
        from reports.report.results import HEADS, group_rows

        write_cautions((*report.cautions, *words.audit_cautions(report)))
        write_rows(HEADS, group_rows(report), "csv")


def write_report(report: "Report", full: bool = True) -> None:
    """Write the report; without `full` what fits a screen."""
    from reports.report import words

    for line in words.headlines(report):
        write_line(line)
    highest = f"Highest privacy rates by {report.by_label}, by the lower end of a 95 % interval"
    if not full:
        _rates(report, highest, report.highest[:NUM_SHOWN])
        if note := words.small_groups_note(report.highest[:NUM_SHOWN]):
            write_line(f"{FEW} {note}")
        write_line("--full has the rest; --html FILE writes it as a page")
        return
    levels = words.levels_in_words(report)
    _table(
        "How severe (of the scored images; what was not assessed counts as absent)",
        ["level", "images", "share"],
        [[f"{level} {name}", f"{number:,}", percent(share)] for level, name, number, share in levels],
    )
    edges = [[edge, f"{number:,}", *shares] for edge, number, *shares in words.edges_in_words(report)]
    _table("Scores that the model gave", ["score", "images", "share", "95 % interval", "corrected"], edges)
    _attributes(report)
    _rates(report, highest, report.highest)
    _rates(report, f"Lowest privacy rates by {report.by_label}, by the upper end of a 95 % interval", report.lowest)
    for sentence in words.endnotes(report):
        write_line(sentence)
    _reasons(report)
    _corrected(report)
    for title, counts in {
        "Quarantined images by reason": report.left_out.quarantined,
        "Damaged parts of shards by reason": report.left_out.damaged_parts,
        "Rejections by kind": report.left_out.rejections,
    }.items():
        _table(title, ["reason", "number"], [[shortened(name), f"{number:,}"] for name, number in counts.items()])


def _attributes(report: "Report") -> None:
    def line(row: "Prevalence") -> list[str]:
        share = "never found" if row.is_never_found else percent(row.share, row.is_lower_bound)
        counts = [f"{n:,}" for n in (row.num_present, row.num_ambiguous, row.num_not_assessed)]
        return [row.attribute, str(row.level), *counts, share]

    judged = [row for row in report.prevalence if row.share is not None or row.is_never_found]
    title = "Attributes (share: of the images where it was judged; ≥: never ruled out, so at least)"
    _table(title, ["attribute", "level", "images", "doubtful", "not judged", "share"], list(map(line, judged)))


def _rates(report: "Report", title: str, rates: "tuple[Rate, ...]") -> None:
    has_claim = report.design.has_claim
    ends = [_interval(report, rate) for rate in rates]
    columns = {
        report.by_label if len(report.by_label) <= 20 else "group": [shortened(rate.group) for rate in rates],
        "rank": [f"{rate.rank} ({rate.rank_low}–{rate.rank_high})" if rate.rank else "–" for rate in rates],
        "rate": [percent_within(rate.privacy_rate, *of_rate) for rate, of_rate in zip(rates, ends, strict=True)],
        "95 % interval": [spread(*of_rate) for of_rate in ends],
        "private": [f"{rate.num_private:,}" for rate in rates],
        "unknown": [f"{rate.num_unknown:,}" for rate in rates],
        "N": [f"{rate.num_scored:,}{FEW if rate.is_small else ''}" for rate in rates],
    }
    if not any(rate.num_unknown for rate in rates):  # as in nearly all reports; the notes explain the column
        del columns["unknown"]
    if not has_claim:
        del columns["rank"], columns["95 % interval"]
    _table(title, list(columns), [list(row) for row in zip(*columns.values(), strict=True)])


def _interval(report: "Report", rate: "Rate") -> tuple[float | None, float | None]:
    """Return the interval of a rate; for a whole source that of a draw from more such images, as for the ranks."""
    if report.design.is_exhaustive:
        return rate.rate_low, rate.rate_high
    return rate.source_low, rate.source_high


def _reasons(report: "Report") -> None:
    groups: dict[str, list[str]] = {}
    for item in report.evidence:
        groups.setdefault(item.group, []).append(f"{item.kind} {item.num_images:,}")
    if groups:
        write_line()
        write_line("Why: kinds of evidence in the private images, by the number of images")
    for group, kinds in list(groups.items())[:MAX_REASONS]:
        write_line(f"  {shortened(group, 60)}: {', '.join(kinds)}")


def _corrected(report: "Report") -> None:
    from reports.report.words import correction_note

    never_ruled_out = {row.attribute for row in report.prevalence if row.is_lower_bound}

    def line(row: "CorrectedRate") -> list[str]:
        subject = row.subject if row.category is None else shortened(row.category)
        is_lower_bound = row.category is None and row.subject in never_ruled_out
        rates = [percent(row.raw_rate, is_lower_bound), percent_within(row.corrected_rate, row.low, row.high)]
        rates.append(spread(row.low, row.high))
        return [subject, *rates, f"{row.num_labels:,}"]

    heads = ["rate of", "raw", "corrected", "95 % interval", "labels"]
    whole = [row for row in report.corrected if row.category is None]
    population = whole[0].population if whole else ""
    _table(f"Rates of the {population}, corrected by labels of people", heads, list(map(line, whole)))
    groups = report.corrected_groups
    more = f", the first {report.top} of {len(groups)}" if len(groups) > report.top else ""
    title = f"Corrected privacy rates by {report.by_label}, by the lower end of the interval{more}"
    rows, shown = list(map(line, groups[: report.top])), groups[: report.top]
    if any(row.sensitivity is not None for row in shown):  # of groups with labels enough of their own
        heads.append("sensitivity")
        for cells, row in zip(rows, shown, strict=True):
            ends = (row.sensitivity, row.sensitivity_low, row.sensitivity_high)
            cells.append("–" if row.sensitivity is None else f"{percent_within(*ends)} ({spread(*ends[1:])})")
    _table(title, heads, rows)
    if note := correction_note(report):
        write_line(note)


def _table(title: str, heads: list[str], rows: list[list[str]]) -> None:
    """Write a table, if it has rows. The first column holds words, the others numbers."""
    if rows:
        write_line()
        write_line(title, nl=False)
        write_table(heads, rows, range(1, len(heads)))
