"""CSV files of labels: errors repeat no cell of the file, and no spreadsheet runs a cell that was written."""

import codecs
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.csv

from ingest.errors import LabelsError

FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "'")
"""Beginnings of cells that a spreadsheet may run. The quotation mark is here because escaping adds one."""

BLOCK_BYTES = 2**20

NULL_NUMBERS = ["null", "NULL", "nan", "NaN"]
"""Words of other tools for a missing number. In text columns only the empty cell is null: a class can be `null`."""


def text_columns(content: bytes, name: str, columns: Sequence[str]) -> pa.Table:
    """Read every column as text; empty cells are null. LabelsError with the line if it is not CSV.

    columns: known columns, read as text even if they seem to hold numbers. Others keep any type.
    """
    if not _is_utf8(content):  # pyarrow would print a traceback for a row that it cannot show to `refuse`
        raise _not_csv(name)
    head = content[:BLOCK_BYTES].splitlines()[:1]
    if head and b"," not in head[0] and (b";" in head[0] or b"\t" in head[0]):
        raise LabelsError(f"{name}: its columns are separated by semicolons or tabs; separate columns with commas")
    wrong_rows: list[pyarrow.csv.InvalidRow] = []

    def refuse(row: pyarrow.csv.InvalidRow) -> str:
        wrong_rows.append(row)
        return "error"

    try:
        return pyarrow.csv.read_csv(
            pa.BufferReader(content),
            read_options=pyarrow.csv.ReadOptions(use_threads=False),  # else rows have no numbers
            parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True, invalid_row_handler=refuse),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(columns, pa.string()), strings_can_be_null=True, null_values=[""]
            ),
        )
    except pa.ArrowException:  # its message quotes cells
        if wrong_rows:
            row = wrong_rows[0]
            cells = f"{row.actual_columns} cells instead of {row.expected_columns}"
            raise LabelsError(f"{name}, line {row.number}: has {cells}; check quotation marks and commas") from None
        raise _not_csv(name) from None


def _not_csv(name: str) -> LabelsError:
    return LabelsError(f"{name}: cannot be read as CSV in UTF-8 with a line of column names")


def _is_utf8(content: bytes) -> bool:
    """Check in blocks, since the file can be large."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(content), BLOCK_BYTES):
            decoder.decode(content[start : start + BLOCK_BYTES])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def escaped(cell: str) -> str:
    """Put a quotation mark before the cell if a spreadsheet could take it for a formula."""
    return f"'{cell}" if cell.startswith(FORMULA_STARTS) else cell


def unescaped(cell: str) -> str:
    """Invert `escaped`."""
    return cell[1:] if cell.startswith("'") and cell[1:].startswith(FORMULA_STARTS) else cell


def as_csv(table: pa.Table) -> bytes:
    """Write a header and one line per row; null is an empty cell. Cells of text are escaped."""
    columns = []
    for column in table.columns:
        if pa.types.is_string(column.type):
            column = pa.array([None if cell is None else escaped(cell) for cell in column.to_pylist()], pa.string())
        columns.append(column)
    sink = pa.BufferOutputStream()
    pyarrow.csv.write_csv(pa.table(columns, names=table.column_names), sink)
    return bytes(sink.getvalue().to_pybytes())
