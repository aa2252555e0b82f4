"""The verb `report`: what a run found, as text, JSON, CSV, and one HTML page."""

import os
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ingest.errors import StorageError
from jobs.sql import console, write_rows

if TYPE_CHECKING:
    from rich.console import Console

    from reports.summary import Rate, Report


@click.command()
@click.argument("run")
@click.option("--by", default="category", show_default=True, help="Column or SQL expression that groups the images.")
@click.option("--private", default="level IN (1, 2)", show_default=True, help="SQL condition: what counts as private.")
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
@click.option("--html", "html_path", type=click.Path(path_type=Path), help="Write one self-contained page as well.")
@click.option(
    "--format",
    "output",
    type=click.Choice(["text", "json", "csv"]),
    default="text",
    show_default=True,
    help="csv holds the groups; json holds everything.",
)
def report(run: str, by: str, private: str, min_count: int, top: int, html_path: Path | None, output: str) -> None:
    """Report what the scan in RUN found: levels, attributes, and privacy rates per group.

    Rates leave out quarantined images; intervals are 95 % Wilson intervals. A run that is not finished says so first.
    """
    from ingest.results import results
    from jobs.coverage import coverage
    from jobs.run import open_run
    from reports.summary import summarise
    from reports.warehouse import open_run as open_warehouse

    where, record = open_run(run)
    found = results(where)
    summary = summarise(open_warehouse(run), by, private, min_count, top)
    summary = replace(summary, coverage=coverage(where, record, found, summary.num_images))
    if html_path is not None:
        _write_page(summary, html_path)
    if output == "json":
        import json

        click.echo(json.dumps(asdict(summary), indent=1))
    elif output == "csv":
        from reports.summary import Rate

        if summary.warning:
            click.echo(summary.warning, err=True)
        names = [field.name for field in fields(Rate)]
        write_rows(names, ([getattr(rate, name) for name in names] for rate in summary.rates), "csv")
    else:
        _write_text(summary)
        if html_path is not None:
            click.echo(f"page written to {html_path}")


def _write_page(summary: "Report", path: Path) -> None:
    """Aside and then renamed: whoever opens the page meanwhile sees the old one or the new one."""
    from reports.page.render import render

    aside = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        aside.write_text(render(summary), encoding="utf-8")
        os.replace(aside, path)
    except OSError as error:
        aside.unlink(missing_ok=True)
        raise StorageError(f"{path} cannot be written: {error.strerror}") from None


def _write_text(summary: "Report") -> None:
    for line in summary.headlines:
        click.echo(line)
    out = console()
    _table(
        out,
        "Levels (of the scored images)",
        ["level", "", "images", "share"],
        [[str(row.level), row.name, f"{row.num_images:,}", percent(row.share)] for row in summary.levels],
    )
    _table(
        out,
        "Attributes (share: present among the images where it was assessed; ≥: the engine never rules it out)",
        ["attribute", "level", "present", "ambiguous", "absent", "not assessed", "share"],
        [
            [
                row.attribute,
                str(row.level),
                *(
                    ["–"] * 3
                    if row.share is None
                    else [f"{n:,}" for n in (row.num_present, row.num_ambiguous, row.num_absent)]
                ),
                f"{row.num_not_assessed:,}",
                "not assessed" if row.share is None else ("≥ " if row.is_lower_bound else "") + percent(row.share),
            ]
            for row in summary.prevalence
        ],
    )
    _rates(out, f"Highest privacy rates by {summary.by}", summary.highest)
    if summary.lowest:
        _rates(out, f"Lowest privacy rates by {summary.by}", summary.lowest)
    total = summary.total
    rate = f"{percent(total.privacy_rate)} ({percent(total.rate_low)} – {percent(total.rate_high)})"
    click.echo(f"all images: {total.num_private:,} private of {total.num_scored:,} scored, {rate}")
    for note in summary.notes:
        click.echo(note)
    if summary.quarantined:
        _table(
            out,
            "Quarantined images by reason",
            ["reason", "images"],
            [[row.reason, f"{row.num_images:,}"] for row in summary.quarantined],
        )


def _rates(out: "Console", title: str, rates: "tuple[Rate, ...]") -> None:
    _table(
        out,
        title,
        ["group", "N", "private", "unknown", "rate", "95 % interval", "quarantined"],
        [
            [
                rate.group,
                f"{rate.num_scored:,}",
                f"{rate.num_private:,}",
                f"{rate.num_unknown:,}",
                percent(rate.privacy_rate),
                f"{percent(rate.rate_low)} – {percent(rate.rate_high)}",
                f"{rate.num_quarantined:,}",
            ]
            for rate in rates
        ],
    )


def _table(out: "Console", title: str, heads: list[str], rows: list[list[str]]) -> None:
    """Cells are `Text`, which takes no markup: a category named "[bold]" stays that."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    words = {"group", "attribute", "reason", "", "level"}
    click.echo(f"\n{title}", nl=False)
    table = Table(box=box.SIMPLE)
    for head in heads:
        table.add_column(Text(head), justify="left" if head in words else "right", overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    out.print(table)


def percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f} %"
