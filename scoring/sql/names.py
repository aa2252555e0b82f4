"""Places and texts in DuckDB's SQL."""

from collections.abc import Iterable
from itertools import groupby

from ingest.storage.place import Place


def literal(text: str) -> str:
    """A text as a SQL string; what is not printable as chr(…), since the statement may be shown on a terminal."""
    if text.isprintable():
        return "'" + text.replace("'", "''") + "'"
    runs = (("".join(run), is_printable) for is_printable, run in groupby(text, str.isprintable))
    parts = (literal(run) if is_printable else " || ".join(f"chr({ord(c)})" for c in run) for run, is_printable in runs)
    return f"({' || '.join(parts)})"


def identifier(name: str) -> str:
    """The name of a column in SQL, whatever signs it holds."""
    return '"' + name.replace('"', '""') + '"'


def location(place: Place) -> str:
    """The path, or the URL that DuckDB reaches by the place's registered filesystem."""
    return place.path if place.is_local else str(place.fs.unstrip_protocol(place.path))


def without_wildcards(path: str) -> str:
    """A glob pattern that matches just this path."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in path)


def file_list(files: Iterable[Place]) -> str:
    """A SQL list of files for `read_parquet` and the like, which take every name for a pattern."""
    return "[" + ", ".join(literal(without_wildcards(location(file))) for file in files) + "]"
