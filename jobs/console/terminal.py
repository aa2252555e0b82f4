"""The one way to stdout and stderr: every line escapes what a corpus, a file or a library may have put into it.

A name that holds an escape sequence could otherwise colour, hide or rewrite what the terminal shows. Rows become tables
for people, and csv or JSON for programs.
"""

import csv
import itertools
import json
import math
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from rich.console import Console

    from reports.words import Document

MIN_WORDS = 16
"""Columns of words are folded down to this width on a narrow screen."""
_PADDINGS = ((1, 1), (0, 1), (0, 0))
"""Left and right of a cell, the roomiest first."""


def escaped(text: str) -> str:
    """Return the text on one line; control characters and those that reverse the writing become backslash escapes."""
    if text.isprintable():
        return text
    from ingest.sample import printable  # here, since it loads pyarrow: `--help` and most errors need none

    return printable(text)


def write_line(text: str = "", to_stderr: bool = False, nl: bool = True) -> None:
    """Write one line; a line break in the text is escaped too. nl: whether the line ends here."""
    click.echo(escaped(text), err=to_stderr, nl=nl)


def write_cautions(cautions: Iterable[str]) -> None:
    """Write each caution on a line of stderr, for outputs that have no place for them, such as csv."""
    sys.stdout.flush()
    for caution in cautions:
        write_line(caution, to_stderr=True)


def write_lines(text: str) -> None:
    """Write a text of several lines to stdout."""
    for line in text.removesuffix("\n").split("\n"):
        write_line(line)


def wrote_json(result: Any, output: str) -> bool:
    """Write a result (a dataclass) as JSON if that is the format of the output. Return whether it is."""
    if output == "json":
        write_json(asdict(result), indent=1)
    return output == "json"


def write_json(value: Any, indent: int | None = None) -> None:
    click.echo(as_json(value, indent))


def as_json(value: Any, indent: int | None = None, default: Callable[[Any], str] | None = None) -> str:
    """Return ASCII only. The delete character is the one control character that JSON leaves as it is."""
    return json.dumps(value, indent=indent, default=default).replace("\x7f", "\\u007f")


def write_rows(
    names: Sequence[str], rows: Iterable[Sequence[Any]], output: str, *, is_for_spreadsheets: bool = True
) -> None:
    """Write rows to stdout as csv with a header, or as a JSON array with one object per line.

    Lists in csv are JSON text. On a terminal, csv shows control characters as escapes, since the terminal would obey
    them; JSON does so anywhere. is_for_spreadsheets: texts in csv that a spreadsheet would take for formulas begin with
    a quotation mark, as in files of labels.
    """
    stream = sys.stdout
    if output == "csv":
        writer = csv.writer(stream, lineterminator="\n")
        shown = _printable if stream.isatty() else iter
        writer.writerow(shown(names))
        text = _escaped if is_for_spreadsheets else _cell
        writer.writerows(shown(map(text, row)) for row in rows)
        return
    before = "[\n"
    for row in rows:
        stream.write(before + as_json(dict(zip(names, map(_plain, row), strict=True)), default=str))
        before = ",\n"
    stream.write("\n]\n" if before == ",\n" else "[]\n")


def write_document(document: "Document") -> None:
    """Write headlines, tables with their titles, and notes to stdout."""
    for line in document.headlines:
        write_line(line)
    for table in document.tables:
        write_line()
        write_line(table.title, nl=False)
        write_table(table.heads, table.rows, set(range(len(table.heads))) - set(table.columns_of_words))
    for line in document.notes:
        write_line(line)


def write_table(heads: Sequence[str], rows: Sequence[Sequence[str]], numbers: Collection[int]) -> None:
    """Write a table to stdout. numbers: indices of columns of numbers, which are never folded. Cells are escaped, and
    are `Text`, which takes no markup: a category named "[bold]" is shown as it is."""
    from rich import box
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    heads, rows = [escaped(head) for head in heads], [[escaped(cell) for cell in row] for row in rows]
    out = console(len(heads))
    widths = [max(map(cell_len, column)) for column in zip(heads, *rows, strict=True)]
    folded = [width if index in numbers else min(width, MIN_WORDS) for index, width in enumerate(widths)]
    for needed, (left, right) in itertools.product((sum(widths), sum(folded)), _PADDINGS):
        if needed + len(heads) * (left + right + 1) + 1 <= out.width:
            break
    else:
        out.width = sum(folded) + len(heads) + 1  # the screen breaks the lines
    table = Table(box=box.SIMPLE, padding=(0, right, 0, left))
    for index, head in enumerate(heads):
        is_number = index in numbers
        table.add_column(Text(head), justify="right" if is_number else "left", no_wrap=is_number, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    out.print(table)


def console(num_columns: int = 8) -> "Console":
    """Return a rich console on stdout: wide enough for its columns where neither terminal nor COLUMNS gives a width."""
    from rich.console import Console

    has_width = sys.stdout.isatty() or os.environ.get("COLUMNS", "").isdigit()
    return Console(file=sys.stdout, width=None if has_width else max(120, 20 * num_columns), highlight=False)


def _printable(cells: Iterable[Any]) -> Iterator[str]:
    from ingest.sample import printable

    return (printable("" if cell is None else str(cell)) for cell in cells)


def _cell(value: Any) -> Any:
    """Return lists and groups of fields as JSON, which other programs read."""
    return as_json(value, default=str) if isinstance(value, (list, tuple, dict)) else value


def _escaped(value: Any) -> Any:
    from scoring.labels.label_files import escaped

    return escaped(value) if isinstance(value, str) else _cell(value)


def _plain(value: Any) -> Any:
    """Return the value, or None for NaN and infinity, which JSON does not have."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
