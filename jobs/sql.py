"""The verb `sql`: one SELECT over a run's views, or the statements that make the views elsewhere."""

import csv
import itertools
import json
import math
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click

from ingest.errors import QueryError

if TYPE_CHECKING:
    from rich.console import Console

MAX_TEXT_ROWS = 1_000
"""A table on a screen ends here; csv and json give every row."""


@click.command()
@click.argument("run")
@click.argument("statement", required=False)
@click.option("--shell-setup", is_flag=True, help="Print the statements that make the same views in your own DuckDB.")
@click.option("--format", "output", type=click.Choice(["text", "json", "csv"]), default="text", show_default=True)
def sql(run: str, statement: str | None, shell_setup: bool, output: str) -> None:
    """Ask RUN one SELECT statement. It is read-only and reaches nothing outside the run.

    Views: images, scored, quarantined, attributes (one row per image and attribute), rates (one per category).

    Example: privsieve sql my-run "SELECT level, count(*) FROM scored GROUP BY ALL"
    """
    from reports.warehouse import open_run, setup_statements

    if shell_setup == (statement is not None):
        raise QueryError("give either a SELECT statement or --shell-setup")
    if statement is None:
        click.echo(setup_statements(run), nl=False)
        return
    names, rows = open_run(run).select(statement)
    if output == "text":
        _write_text(names, rows)
    else:
        write_rows(names, rows, output)


def write_rows(names: Sequence[str], rows: Iterable[Sequence[Any]], output: str) -> None:
    """Rows to stdout as csv with a header, or as a JSON array with one object per line."""
    stream = sys.stdout
    if output == "csv":
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(names)
        writer.writerows(rows)
        return
    before = "[\n"
    for row in rows:
        stream.write(before + json.dumps(dict(zip(names, map(_plain, row), strict=True)), default=str))
        before = ",\n"
    stream.write("\n]\n" if before == ",\n" else "[]\n")


def _write_text(names: Sequence[str], all_rows: Iterable[Sequence[Any]]) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from ingest.sample import printable

    rows = iter(all_rows)
    shown = list(itertools.islice(rows, MAX_TEXT_ROWS))
    table = Table(box=box.SIMPLE)
    for place, name in enumerate(names):
        numeric = any(isinstance(row[place], (int, float)) for row in shown)
        table.add_column(Text(printable(name)), justify="right" if numeric else "left", overflow="fold")
    for row in shown:
        table.add_row(*(Text("null" if value is None else printable(str(value))) for value in row))
    console(len(names)).print(table)
    if next(rows, None) is not None:
        click.echo(f"the first {MAX_TEXT_ROWS:,} rows; --format csv or json gives all of them", err=True)


def console(num_columns: int = 8) -> "Console":
    """A rich console on stdout; wide enough for its columns where no terminal gives a width."""
    from rich.console import Console

    terminal = sys.stdout.isatty()
    return Console(file=sys.stdout, width=None if terminal else max(120, 20 * num_columns), highlight=False)


def _plain(value: Any) -> Any:
    """JSON has no NaN and no infinity."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
