"""The verb `sql`: one SELECT over a run's views, or the statements that make the views elsewhere."""

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import click

from ingest.errors import QueryError
from jobs.console.request_options import WholeRange
from jobs.console.terminal import write_line, write_lines, write_rows, write_table

MAX_TEXT_ROWS = 1_000
"""Limit on the rows of a table on a screen; csv and json give every row."""

MAX_CELL_CHARACTERS = 10_000
"""Limit on a value in such a table: the time to fold a text into a column grows with the square of its length."""


@click.command()
@click.argument("run")
@click.argument("words", metavar="STATEMENT", nargs=-1)
@click.option("--shell-setup", is_flag=True, help="Print the statements that make the same views in your own DuckDB.")
@click.option("--format", "output", type=click.Choice(["text", "json", "csv"]), default="text", show_default=True)
@click.option(
    "--timeout",
    "timeout_s",
    metavar="SECONDS",
    type=WholeRange(min=1),
    default=600,
    show_default=True,
    help="Stop the statement after so long; it is also stopped at 60 % of the free memory.",
)
def sql(run: str, words: tuple[str, ...], shell_setup: bool, output: str, timeout_s: int) -> None:
    """Ask RUN one SELECT statement. It is read-only and reaches nothing outside the run.

    Views: images, scored, quarantined, attributes (one row per image and attribute), rates (one per category),
    patterns (one per distinct set of answers, with num_images; the fast way to count attributes), answers (images, with
    the attributes as a list), corrected_rates (what "audit apply" found), damaged (parts of shards that could not be
    read), all_rows (images and damaged). "privsieve help report" has their columns.

    Of which images of its source the run is, "privsieve report" says.

    --format csv writes the values as they are. A spreadsheet may run a text that begins with = + - or @ as a formula.
    """
    from reports.report.opened import open_run
    from reports.run.warehouse import setup_statements
    from scoring.sql.limits import limits_of_command

    if len(words) > 1:
        raise QueryError('put the statement between quotation marks: privsieve sql RUN "SELECT …"')
    if shell_setup == bool(words):
        raise QueryError("give either a SELECT statement or --shell-setup")
    if shell_setup:
        write_lines(setup_statements(run))
        return
    with open_run(run, limits_of_command(timeout_s)) as opened:
        names, rows = opened.select(words[0])
        if output == "text":
            _write_text(names, rows)
        else:
            write_rows(names, rows, output, is_for_spreadsheets=False)


def _write_text(names: Sequence[str], all_rows: Iterable[Sequence[Any]]) -> None:
    rows = iter(all_rows)
    shown = list(itertools.islice(rows, MAX_TEXT_ROWS))
    numbers = {index for index in range(len(names)) if any(isinstance(row[index], (int, float)) for row in shown)}
    write_table(names, [[_cell(value) for value in row] for row in shown], numbers)
    if next(rows, None) is not None:
        write_line(f"the first {MAX_TEXT_ROWS:,} rows; --format csv or json gives all of them", to_stderr=True)


def _cell(value: Any) -> str:
    """Return a value for a screen: six significant digits, the beginning of a long text."""
    if value is None:
        return "null"
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    if len(text) <= MAX_CELL_CHARACTERS:
        return text
    more = len(text) - MAX_CELL_CHARACTERS
    return f"{text[:MAX_CELL_CHARACTERS]}… and {more:,} more characters; --format csv or json gives all of them"
