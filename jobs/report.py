"""The verb `report`: what a run found, as text, JSON, CSV, and one HTML page."""

from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jobs.console.tables import write_rows, write_table
from jobs.console.terminal import write_json, write_line

if TYPE_CHECKING:
    from reports.summary import Prevalence, Rate, Report


def _not_empty(context: click.Context, parameter: click.Parameter, value: str) -> str:
    if not value.strip():
        raise click.BadParameter(f"it is empty; leave it out for {parameter.get_default(context)}", context, parameter)
    return value


@click.command()
@click.argument("run")
@click.option(
    "--by",
    default="category",
    show_default=True,
    callback=_not_empty,
    help="Column or SQL expression that groups the images.",
)
@click.option(
    "--private",
    default="level IN (1, 2)",
    show_default=True,
    callback=_not_empty,
    help="SQL condition: what counts as private.",
)
@click.option(
    "--min-count",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    help="Leave out groups with fewer scored images.",
)
@click.option(
    "--top",
    type=click.IntRange(min=1),
    default=15,
    show_default=True,
    help="How many of the highest and of the lowest groups to show.",
)
@click.option(
    "--html",
    "html_path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write one self-contained page as well.",
)
@click.option(
    "--format",
    "output",
    type=click.Choice(["text", "json", "csv"]),
    default="text",
    show_default=True,
    help="csv holds the groups; json holds everything.",
)
@click.option(
    "--timeout",
    "timeout_s",
    metavar="SECONDS",
    type=click.IntRange(min=1),
    default=3600,
    show_default=True,
    help="Stop the report after so long; it is also stopped at 60 % of the free memory.",
)
def report(
    run: str, by: str, private: str, min_count: int, top: int, html_path: Path | None, output: str, timeout_s: int
) -> None:
    """Report what the scan in RUN found: levels, attributes, and privacy rates per group.

    Rates leave out quarantined images; intervals are 95 % Wilson intervals. What is said first: whether they are of all
    images of the source, of a part chosen by --sample or --limit, or of a scan that is not finished.
    """
    from reports.opened import open_run
    from scoring.sql.limits import limits_of_command

    with open_run(run, limits_of_command(timeout_s)) as opened:
        summary = opened.summary(by, private, min_count, top)
    if html_path is not None:
        from reports.page.render import write_page

        write_page(summary, html_path)
    if output == "json":
        write_json(asdict(summary), indent=1)
    elif output == "csv":
        from reports.summary import Rate

        for caution in summary.cautions:
            write_line(caution, to_stderr=True)
        names = [field.name for field in fields(Rate)]
        write_rows(names, ([getattr(rate, name) for name in names] for rate in summary.rates), "csv")
    else:
        _write_text(summary)
        if html_path is not None:
            write_line(f"page written to {html_path}")


def _write_text(summary: "Report") -> None:
    from reports.summary import shortened

    for line in summary.headlines:
        write_line(line)
    _table(
        "Levels (of the scored images; what was not assessed counts as absent)",
        ["level", "images", "share"],
        [[f"{row.level} {row.name}", f"{row.num_images:,}", percent(row.share)] for row in summary.levels],
    )
    _table(
        "Attributes (share: present among the images where it was assessed; ≥: the engine never rules it out)",
        ["attribute", "level", "present", "ambiguous", "absent", "not assessed", "share"],
        [
            [
                row.attribute,
                str(row.level),
                *(
                    ["–"] * 3
                    if row.share is None and not row.is_never_found
                    else [f"{n:,}" for n in (row.num_present, row.num_ambiguous, row.num_absent)]
                ),
                f"{row.num_not_assessed:,}",
                _unknown_share(row) if row.share is None else ("≥ " if row.is_lower_bound else "") + percent(row.share),
            ]
            for row in summary.prevalence
        ],
    )
    _rates(f"Highest privacy rates by {summary.by}", summary.highest)
    if summary.lowest:
        _rates(f"Lowest privacy rates by {summary.by}", summary.lowest)
    total = summary.total
    interval = f"({percent(total.rate_low)} – {percent(total.rate_high)})"
    rate = "no rate" if total.privacy_rate is None else f"{percent(total.privacy_rate)} {interval}"
    unknown = f", {total.num_unknown:,} unknown" if total.num_unknown else ""
    write_line(f"all images: {total.num_private:,} private of {total.num_scored:,} scored{unknown}, {rate}")
    for note in (summary.private_meaning, *summary.notes):
        write_line(note)
    if summary.unseen_note:
        write_line(summary.unseen_note)
    if summary.quarantined:
        _table(
            "Quarantined images by reason",
            ["reason", "images"],
            [[row.reason, f"{row.num_images:,}"] for row in summary.quarantined],
        )
    if summary.rejections:
        rows = [[shortened(row.reason), f"{row.num_images:,}"] for row in summary.rejections]
        _table("Rejections by kind", ["kind", "images"], rows)


def _unknown_share(row: "Prevalence") -> str:
    return "never found" if row.is_never_found else "not assessed"


def _rates(title: str, rates: "tuple[Rate, ...]") -> None:
    from reports.summary import shortened

    columns = {
        "group": [shortened(rate.group) for rate in rates],
        "N": [f"{rate.num_scored:,}" for rate in rates],
        "private": [f"{rate.num_private:,}" for rate in rates],
        "unknown": [f"{rate.num_unknown:,}" for rate in rates],
        "rate": [percent(rate.privacy_rate) for rate in rates],
        "95 % interval": [f"{percent(rate.rate_low)} – {percent(rate.rate_high)}" for rate in rates],
        "quarantined": [f"{rate.num_quarantined:,}" for rate in rates],
    }
    if not any(rate.num_unknown for rate in rates):  # as nearly always; the notes tell what it is
        del columns["unknown"]
    _table(title, list(columns), [list(row) for row in zip(*columns.values(), strict=True)])


def _table(title: str, heads: list[str], rows: list[list[str]]) -> None:
    """The first column holds words, the others numbers."""
    write_line()
    write_line(title, nl=False)
    write_table(heads, rows, range(1, len(heads)))


def percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"
