"""The columns of the labels table, and its files, which may come from anywhere: read within bounds, in Parquet or CSV.

Errors of a CSV file repeat no cell of it, and no spreadsheet runs a cell that was written.

The column `vote` has one of four classes, from clearly private to clearly public. Source: Zhao et al., "PrivacyAlert".
Two classes are private and two public, so a vote also says whether the picture is private.
"""

import codecs
import io
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from ingest.errors import LabelsError, did_you_mean
from ingest.sample import Column
from scoring.taxonomy import ATTRIBUTES

LABEL_COLUMNS: tuple[Column, ...] = (
    Column("sha256", pa.string(), "hex", "hash of the encoded picture, null if the picture is not at hand"),
    Column("key", pa.string(), "", "the picture's name as a scan of the same folder writes it, null if unknown"),
    Column("annotator", pa.string(), "", "who or what gave the label: a person, a benchmark, a run", False),
    Column("split", pa.string(), "", "train, validation or test, null if the source does not say"),
    Column("licence", pa.string(), "", "licence of the label, null if unknown"),
    Column("class", pa.string(), "", "class that the source gives (face, passport, …), null if it gives none"),
    Column("private", pa.int8(), "0 | 1", "whether the picture is private, null if not judged"),
    Column("score", pa.float32(), "0–1", "severity: 0 harmless, 1 most private; null if not judged"),
    *(Column(a.key, pa.float32(), "0 | 0.5 | 1", f"level {a.level}: {a.shows}; null = not judged") for a in ATTRIBUTES),
    Column("vote", pa.string(), "", "clearly private, private, public or clearly public; null if not voted so"),
)
"""Every column of the labels table, in order. A file may leave out any but `annotator` and one of the two names."""

LABELS_SCHEMA = pa.schema([pa.field(c.name, c.type, nullable=c.nullable) for c in LABEL_COLUMNS])


MAX_ROWS = 50_000_000
"""A hostile Parquet file of a few bytes can claim any number of rows."""

MAX_DECODED_BYTES = 16 * 1024**3
"""Limit of all columns of a Parquet file together, by its footer."""

MAX_TEXT_CHARS = 8_192
"""Limit of a name or any other text in a cell."""


def bounded_table(content: bytes, url: str, known: Sequence[str]) -> pa.Table:
    """Read a file. Unknown columns and excessive sizes are refused before anything is decoded.

    LabelsError says what is refused. pyarrow.ArrowException, OSError or ValueError if the file is damaged: their
    messages may quote what it holds.
    """
    file = pq.ParquetFile(pa.BufferReader(content))
    refuse_unknown(file.schema_arrow.names, url, known)
    if any(pa.types.is_nested(field_.type) for field_ in file.schema_arrow):
        raise LabelsError(f"{url}: a column holds lists or structs; each must hold one text or number a row")
    metadata = file.metadata
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    num_bytes = sum(max(0, group.total_byte_size) for group in groups)
    if metadata.num_rows > MAX_ROWS or num_bytes > MAX_DECODED_BYTES:
        raise LabelsError(
            f"{url}: claims {metadata.num_rows:,} rows of {num_bytes:,} bytes; "
            f"a labels file may have {MAX_ROWS:,} and {MAX_DECODED_BYTES:,}"
        )
    # A dictionary of one long text, repeated in every row, must not be multiplied before its length is checked.
    texts = [field_.name for field_ in file.schema_arrow if pa.types.is_string(field_.type)]
    table = pq.ParquetFile(pa.BufferReader(content), read_dictionary=texts).read()
    table.validate(full=True)  # Parquet does not promise that its texts are UTF-8
    for column in texts:
        for chunk in table[column].chunks:
            longest = pc.max(pc.utf8_length(chunk.dictionary)).as_py() or 0
            if longest > MAX_TEXT_CHARS:
                raise LabelsError(f'{url}: "{column}" has texts of more than {MAX_TEXT_CHARS:,} characters')
    return table


NAMES_PICTURES = ("file", "filename", "file_name", "filepath", "path", "image", "image_id", "img", "name", "id")
"""Columns that name the picture in tables of other tools, in lower case."""

MAX_NAMED = 5


def refuse_unknown(columns: Sequence[str], name: str, known: Sequence[str]) -> None:
    """Raise LabelsError if a column is unknown or occurs twice, or none names the picture."""
    if len(set(columns)) < len(columns):
        raise LabelsError(f"{name}: two columns have the same name; keep one")
    other = [column for column in columns if column not in known]
    if not {"sha256", "key"} & set(columns):
        near = next((column for column in other if column.lower() in NAMES_PICTURES), None)
        advice = f'; does "{near}"? Then call it key' if near else ""
        raise LabelsError(f"{name}: has neither the column sha256 nor key, one of which names the picture{advice}")
    if other:
        near = did_you_mean(other[0], known)
        more = "".join(f', "{column:.40}"' for column in other[1:MAX_NAMED])
        more += f", and {len(other) - MAX_NAMED} more" if len(other) > MAX_NAMED else ""
        raise LabelsError(
            f'{name}: there is no label column "{other[0]:.40}"{near}{more}; privsieve help labels lists the columns; '
            "remove the others"
        )


def refuse_rows(
    is_wrong: pa.ChunkedArray, name: str, num_before: int, why: str, values: pa.ChunkedArray | None = None
) -> None:
    """Raise LabelsError with the first row that is wrong; null counts as false.

    num_before: rows of the file before these. why: {} is its value in `values`.
    """
    row = pc.index(is_wrong, True).as_py()
    if row >= 0:
        said = why if values is None else why.format(f"{values[row].as_py():g}")
        raise LabelsError(f"{name}, row {num_before + row + 1}: {said}")


FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "'")
"""Beginnings of cells that a spreadsheet may run. The quotation mark is here because escaping adds one."""

BLOCK_BYTES = 2**20

NULL_NUMBERS = ["null", "NULL", "nan", "NaN"]
"""Words of other tools for a missing number. In text columns only the empty cell is null: a class can be `null`."""

WORDS_OF_PRIVATE = {"private": "1", "public": "0"}
"""Words in the column `private`, in any case, for its numbers."""


def text_columns(content: bytes, name: str) -> pa.Table:
    """Read every column as text; empty cells are null. LabelsError with the line if it is not CSV."""
    return pa.concat_tables(text_batches(io.BytesIO(content), name))


def text_batches(stream: BinaryIO, name: str) -> Iterator[pa.Table]:
    """Yield the rows as `text_columns` reads them, some at a time; the first table has none."""
    try:  # pyarrow would print a traceback for a row that it cannot show to `refuse`
        deque(codecs.iterdecode(iter(partial(stream.read, BLOCK_BYTES), b""), "utf-8"), maxlen=0)
    except UnicodeDecodeError:
        raise _not_csv(name) from None
    stream.seek(0)
    head = stream.read(BLOCK_BYTES).splitlines()[:1]
    if head and b"," not in head[0] and (b";" in head[0] or b"\t" in head[0]):
        raise LabelsError(f"{name}: its columns are separated by semicolons or tabs; separate columns with commas")
    wrong_rows: list[pyarrow.csv.InvalidRow] = []

    def refuse(row: pyarrow.csv.InvalidRow) -> str:
        wrong_rows.append(row)
        return "error"

    def opened(names: Sequence[str]) -> pyarrow.csv.CSVStreamingReader:
        stream.seek(0)
        return pyarrow.csv.open_csv(
            pa.PythonFile(stream, "r"),
            read_options=pyarrow.csv.ReadOptions(use_threads=False),  # else rows have no numbers
            parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True, invalid_row_handler=refuse),
            convert_options=pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=True, null_values=[""]
            ),
        )

    try:
        reader = opened(opened([]).schema.names)
        yield reader.schema.empty_table()
        for batch in reader:
            yield pa.table(batch)
    except pa.ArrowException:  # its message quotes cells
        if wrong_rows:
            row = wrong_rows[0]
            cells = f"{row.actual_columns} cells instead of {row.expected_columns}"
            raise LabelsError(f"{name}, line {row.number}: has {cells}; check quotation marks and commas") from None
        raise _not_csv(name) from None


def _not_csv(name: str) -> LabelsError:
    return LabelsError(f"{name}: cannot be read as CSV in UTF-8 with a line of column names")


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


VOTES = {"clearly private": 1.0, "private": 0.75, "public": 0.25, "clearly public": 0.0}
"""Class -> its step as a severity. PrivacyAlert counts from the public side, 1 - step; distances are the same."""

SHOWN_TO = {
    "clearly private": "must never be online",
    "private": "for me and people whom I choose",
    "public": "for everybody I know",
    "clearly public": "for anyone",
}
"""Class -> who may see such a picture."""

PRIVATE_VOTES = ("clearly private", "private")


def vote_of(text: str) -> str | None:
    """Return the class that a cell names, such as "Clearly_Private"; None if it names none."""
    plain = " ".join(text.replace("_", " ").replace("-", " ").lower().split())
    return plain if plain in VOTES else None


def with_private_of_votes(labels: pa.Table, name: str, num_before: int = 0) -> pa.Table:
    """Fill `private` where it is null and there is a vote. labels: with `private` and `vote`. num_before: rows of the
    file before these.

    LabelsError with the row if a vote is none of the four, or contradicts `private`.
    """
    votes = labels["vote"]
    if votes.null_count == labels.num_rows:
        return labels
    is_known = pc.is_in(votes, pa.array([*VOTES, None], pa.string()))
    refuse_rows(pc.invert(is_known), name, num_before, f'"vote" is none of {", ".join(VOTES)}; it may be null')
    side = pc.is_in(votes, pa.array(PRIVATE_VOTES)).cast(pa.int8())
    side = pc.if_else(pc.is_valid(votes), side, pa.scalar(None, pa.int8()))
    private = labels["private"]
    contradicts = pc.not_equal(side, private)
    refuse_rows(contradicts, name, num_before, '"vote" and "private" contradict each other; correct one of them')
    index = labels.column_names.index("private")
    return labels.set_column(index, labels.schema.field(index), pc.coalesce(private, side))


def steps_of(votes: pa.ChunkedArray) -> npt.NDArray[np.float32]:
    """Return the steps of `VOTES`, shape (rows,); NaN for null."""
    return np.array([np.nan if vote is None else VOTES[vote] for vote in votes.to_pylist()], np.float32)


def votes_of(steps: npt.NDArray[np.float32]) -> list[str | None]:
    """Invert `steps_of`."""
    names = {step: name for name, step in VOTES.items()}
    return [None if np.isnan(step) else names[float(step)] for step in steps]
