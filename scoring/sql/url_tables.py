"""Tables of URLs, read by DuckDB: metadata that is fetched, and tables that releases of URLs are made from.

Names of columns are normalised and compared in lower case; a name without an entry in `COLUMNS` is kept.
"""

import csv
import gzip
import io
import itertools
import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from ingest.errors import PrivsieveError, QueryError, SourceError, StorageError
from ingest.formats import expand_braces
from ingest.formats.shard import files_below
from ingest.sample import printable
from ingest.storage.place import Place, place
from scoring.sql.expressions import boolean_expression
from scoring.sql.names import file_list, identifier, literal
from scoring.sql.read_only_files import ReadOnlyFiles

RESERVED = frozenset(
    """caption url key status error_message width height original_width original_height exif md5 sha256
    sha512""".split()  # noqa: SIM905
)
"""Columns that img2dataset writes itself."""

_OUTCOME = frozenset(("shard", "reason"))
"""Columns that fetch.parquet has besides."""

ROWS_PER_FILE = 200_000
"""So many selected rows go into one file, since img2dataset reads a whole file into memory."""

_KINDS = {".parquet": "parquet", ".csv": "csv", ".tsv": "tsv"}
_JSON_TYPES = re.compile(r"(BOOLEAN|U?(TINY|SMALL|BIG)INT|U?INTEGER|FLOAT|DOUBLE|VARCHAR)(\[\d*\])*")
"""DuckDB types that the JSON of an image can hold; the others become text."""

COLUMNS = {
    "url": ("url", "image_url", "img_url", "image_link"),
    "caption": ("caption", "text", "txt", "alt_text", "alt", "top_caption", "title"),
    "source_key": ("key", "uid", "sample_id", "image_id", "id"),
    "source_width": ("original_width", "width"),
    "source_height": ("original_height", "height"),
    "source_sha256": ("sha256",),
    "license": ("license", "licence"),
    "punsafe": ("punsafe", "p_unsafe"),
    "pwatermark": ("pwatermark", "p_watermark"),
}
"""Name in what is written -> names that data sets have for it, the preferred one first.

Probabilities of other models (COYO's, DataComp's) mean something else and keep their names.
"""


def normalised_names(names: Sequence[str]) -> dict[str, str]:
    """Return name in the metadata -> name in what is written, one for each and no two the same.

    >>> normalised_names(["URL", "TEXT", "WIDTH", "punsafe"])
    {'URL': 'url', 'TEXT': 'caption', 'WIDTH': 'source_width', 'punsafe': 'punsafe'}
    """
    by_lower = {name.lower(): name for name in reversed(names)}
    chosen: dict[str, str] = {}
    for written, known_names in COLUMNS.items():
        own_name = next((by_lower[known] for known in known_names if known in by_lower), None)
        if own_name is not None:
            chosen[own_name] = written
    used = set(chosen.values())
    for name in names:
        if name not in chosen:
            wanted = f"source_{name.lower()}" if name.lower() in RESERVED | _OUTCOME else name.lower()
            while wanted in used:
                wanted += "_2"
            chosen[name] = wanted
            used.add(wanted)
    return {name: chosen[name] for name in names}


@dataclass(frozen=True)
class Metadata:
    """Metadata files as one relation."""

    connection: duckdb.DuckDBPyConnection
    rows: str
    """SQL of the relation, with the columns under both names."""

    written: dict[str, str]
    """Name in the metadata -> name in what is written."""

    types: dict[str, str]
    """Name in the metadata -> DuckDB type."""


def open_metadata(url: str, connection: duckdb.DuckDBPyConnection | None = None) -> Metadata:
    """Open a Parquet, CSV or TSV file, or a folder or glob of them. SourceError in one line if it has no URLs.

    connection: None for a new one.
    """
    where = place(url)
    paths = _paths(where, url)
    kinds = {_kind(path) for path in paths}
    if len(kinds) != 1:
        raise SourceError(f"{url} holds metadata of several kinds ({', '.join(sorted(kinds))}); name one, as *.parquet")
    connection = connection or duckdb.connect()
    if not where.is_local:
        connection.register_filesystem(ReadOnlyFiles(where.fs))
    files = [Place(where.fs, path) for path in paths]
    kind = kinds.pop()
    options = _options(connection, kind, files)
    for path, file in zip(paths, files, strict=True):
        rows = _reader(kind, [file], options)
        columns = list(_described(connection, rows, file))
        if kind != "parquet" and _is_header_twice(connection, rows, columns):  # the empty line was taken for a header
            raise SourceError(f"{path} begins with an empty line, or has its header twice; remove that line")
        if "url" not in normalised_names(columns).values():
            shown = ", ".join(printable(column) for column in columns)
            raise SourceError(f"{path} has no column of URLs (url, image_url, …); its columns are: {shown}")
    rows = _reader(kind, files, options)
    types = _described(connection, rows, where)
    written = normalised_names(list(types))
    lower = {name.lower() for name in types}
    added = [f"{identifier(name)} AS {identifier(new)}" for name, new in written.items() if new.lower() not in lower]
    return Metadata(connection, f"(SELECT {', '.join(['*', *added])} FROM {rows})", written, types)


def selected_rows(metadata: Metadata, where: str | None, limit: int | None) -> duckdb.DuckDBPyRelation:
    """Return the selected rows in the order of the files. QueryError for a wrong condition."""
    kept = f"SELECT * FROM {metadata.rows}"
    if where is not None:
        schema = metadata.connection.sql(f"{kept} LIMIT 0").to_arrow_table().schema
        kept += f" WHERE {boolean_expression(where, schema)}"
    chosen = ", ".join(_output(name, new, metadata.types[name]) for name, new in metadata.written.items())
    return metadata.connection.sql(f"SELECT {chosen} FROM ({kept})" + (f" LIMIT {limit}" if limit is not None else ""))


def write_rows(rows: duckdb.DuckDBPyRelation, folder: Place) -> int:
    """Write numbered Parquet files. Return the number of rows."""
    num_rows = 0
    reader = rows.to_arrow_reader(10_000)
    parts = itertools.groupby(cut_batches(reader, ROWS_PER_FILE), key=lambda part: part[0] // ROWS_PER_FILE)
    for number, batches in parts:
        with (
            folder.at(f"{number:05d}.parquet").create() as file,
            pq.ParquetWriter(file, reader.schema, compression="zstd") as writer,
        ):
            for _, batch in batches:
                writer.write_batch(batch)
                num_rows += batch.num_rows
    return num_rows


def cut_batches(reader: pa.RecordBatchReader, rows_per_file: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the batches with the number of their first row; none crosses the end of a file."""
    first = 0
    for batch in reader:
        while batch.num_rows:
            part = batch.slice(0, rows_per_file - first % rows_per_file)
            yield first, part
            first += part.num_rows
            batch = batch.slice(part.num_rows)


def _paths(where: Place, url: str) -> list[str]:
    if where.is_dir():
        names = [name for name in files_below(where) if _kind(name) and not posixpath.basename(name).startswith("_")]
        paths = [where.at(name).path for name in names]
    elif where.exists():
        paths = [where.path]
    else:
        paths = [p for pattern in expand_braces(where.path) for p in where.matches(pattern)]
    if not paths and not where.exists():
        raise SourceError(f"{url} does not exist or matches nothing")
    if not paths or not all(map(_kind, paths)):
        raise SourceError(f"{url} is no metadata: .parquet, .csv or .tsv files (.csv.gz and .tsv.gz too) are wanted")
    return sorted(paths)


def _kind(path: str) -> str:
    stem, suffix = posixpath.splitext(path.lower())
    if suffix == ".gz":
        suffix = posixpath.splitext(stem)[1].replace(".parquet", "")
    return _KINDS.get(suffix, "")


def _is_readable(connection: duckdb.DuckDBPyConnection, rows: str) -> bool:
    try:
        connection.execute(f"SELECT count(*) FROM {rows}")
    except (duckdb.Error, OSError):
        return False
    return True


def _is_header_twice(connection: duckdb.DuckDBPyConnection, rows: str, columns: Sequence[str]) -> bool:
    try:
        return connection.execute(f"SELECT * FROM {rows} LIMIT 1").fetchone() == tuple(columns)
    except (duckdb.Error, OSError):  # of a later line; whoever reads the rows says which
        return False


def _options(connection: duckdb.DuckDBPyConnection, kind: str, files: Sequence[Place]) -> str:
    """Return how the files are read. A URL in the first line means that there is no header, as in CC3M."""
    if kind == "parquet":
        return ""
    dialect = ", skip = 0, delim = ',', quote = '\"'"  # else DuckDB passes over all lines before a ragged one
    if kind == "tsv":
        # As pandas writes it, unless there is a quotation mark that is not closed, as in captions of CC3M.
        quoted, plain = (rf", skip = 0, delim = '\t', quote = '{quote}', escape = '{quote}'" for quote in ('"', ""))
        dialect = quoted if _is_readable(connection, _reader(kind, files, f"{quoted}, all_varchar = true")) else plain
    file = files[0]
    first = list(_described(connection, _reader(kind, [file], f"{dialect}, header = true"), file))
    urls = [i for i, column in enumerate(first) if column.lower().startswith(("http://", "https://"))]
    if not urls:
        return f"{dialect}, header = true"
    columns = ["caption"] * len(first) if len(first) == 2 else [f"column{i}" for i in range(len(first))]
    columns[urls[0]] = "url"
    return f"{dialect}, header = false, names = [{', '.join(map(literal, columns))}]"


def _reader(kind: str, files: Sequence[Place], options: str) -> str:
    function = "read_parquet" if kind == "parquet" else "read_csv"
    return f"{function}({file_list(files)}, union_by_name = true{options})"


def _described(connection: duckdb.DuckDBPyConnection, rows: str, file: Place) -> dict[str, str]:
    """Return column name -> DuckDB type. file: that is read, or the folder of several."""
    try:
        described = connection.execute(f"DESCRIBE SELECT * FROM {rows}").fetchall()
    except (duckdb.Error, OSError) as error:
        line = _ragged_line(file) if _kind(file.path) in ("csv", "tsv") else None
        if line is not None:
            why = f"line {line} has another number of columns than the first; correct that line"
            raise SourceError(f"{file.path} cannot be read: {why}") from None
        raise unreadable(file.path, error) from None
    return {str(name): str(kind) for name, kind, *_ in described}


def _ragged_line(file: Place) -> int | None:
    """Return the first line with another number of cells than the first; None if there is none, or it cannot be read.
    DuckDB names none where it cannot tell how the file is written."""
    try:
        with file.open() as stream:
            content = gzip.GzipFile(fileobj=stream) if file.path.lower().endswith(".gz") else stream
            lines = io.TextIOWrapper(content, "utf-8", "replace", newline="")
            rows = csv.reader(lines, delimiter="\t" if _kind(file.path) == "tsv" else ",")
            num_columns = len(next(rows))
            return next((rows.line_num for row in rows if row and len(row) != num_columns), None)
    except (OSError, EOFError, csv.Error, StopIteration, StorageError):
        return None


def unreadable(what: str, error: Exception) -> PrivsieveError:
    """Return an error with the kind and the line only: DuckDB's text quotes the row."""
    line = re.search(r"CSV Error on Line: (\d+)", str(error))
    if line is None and "Conversion Error" in str(error):
        return QueryError("the --where condition cannot be computed for some row: a value has another type")
    where = f" at line {line[1]}" if line else ""
    is_content = isinstance(error, (duckdb.InvalidInputException, pa.ArrowInvalid))
    cure = "; it is damaged, or its extension is wrong" if is_content else ""
    cure = "; correct that line" if line else cure
    return SourceError(f"{what} cannot be read{where} ({type(error).__name__}){cure}")


def _output(name: str, new: str, kind: str) -> str:
    plain = new not in ("url", "caption") and _JSON_TYPES.fullmatch(kind)
    return f"{identifier(name) if plain else f'CAST({identifier(name)} AS VARCHAR)'} AS {identifier(new)}"
