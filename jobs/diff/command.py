"""The verb `diff`: what one run says of the same pictures that another does not."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from jobs.console.hash_list_option import hash_list_option
from jobs.console.terminal import write_json, write_line

if TYPE_CHECKING:
    from reports.comparing_runs.results import RunDifference

MAX_GROUPS = 20
"""In the terminal."""


@click.command()
@click.argument("run_a", metavar="RUN_A")
@click.argument("run_b", metavar="RUN_B")
@click.option("--by", default="category", show_default=True, help="Column or SQL expression that groups the pictures.")
@click.option(
    "--html",
    "html_path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write one self-contained page as well.",
)
@hash_list_option("is counted and not named")
@click.option("--format", "output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def diff(run_a: str, run_b: str, by: str, html_path: Path | None, hash_list: str | None, output: str) -> None:
    """Compare two runs on the pictures that both hold: levels, attributes, and the private share of each category.

    Pictures are joined by the hash of their bytes, so the runs may be of different engines, versions or crawls.
    """
    from jobs.diff.run import DiffRequest, run_diff
    from jobs.runtime.feedback import on_terminal
    from jobs.runtime.requests import refused_in_one_line

    with refused_in_one_line():
        request = DiffRequest(run_a, run_b, by, hash_list)
    found = run_diff(request, on_terminal(quiet=True))
    if html_path is not None:
        from reports.comparing_runs.page.render import write_page

        write_page(found, html_path)
    if output == "json":
        from reports.comparing_runs.results import as_json

        write_json(as_json(found), indent=1)
        return
    _write_text(found)
    if html_path is not None:
        write_line(f"page written to {html_path}")


def _write_text(found: "RunDifference") -> None:
    from jobs.console.tables import write_table
    from reports.comparing_runs.tables import findings, headlines, notes, tables

    for line in (*headlines(found), *findings(found)):
        write_line(line)
    for table in tables(found, MAX_GROUPS):
        write_line()
        write_line(table.title)
        write_table(table.heads, table.rows, range(1, len(table.heads)))
    for note in notes(found):
        write_line(note)
