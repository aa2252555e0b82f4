"""Locations and texts in DuckDB's SQL."""

from collections.abc import Iterable
from itertools import groupby

from ingest.storage.place import Place


def literal(text: str) -> str:
    """Return a text as a SQL string; other characters become chr(…), since terminals may show the statement."""
    if text.isprintable():
        return "'" + text.replace("'", "''") + "'"
    runs = (("".join(run), is_printable) for is_printable, run in groupby(text, str.isprintable))
    parts = (literal(run) if is_printable else " || ".join(f"chr({ord(c)})" for c in run) for run, is_printable in runs)
    return f"({' || '.join(parts)})"


def identifier(name: str) -> str:
    """Quote the name of a column, whatever characters it holds."""
    return '"' + name.replace('"', '""') + '"'


def location(place: Place) -> str:
    """Return the path, or the URL that DuckDB reaches by the place's registered filesystem."""
    return place.path if place.is_local else str(place.fs.unstrip_protocol(place.path))


def without_wildcards(path: str) -> str:
    """Return a glob pattern that matches only this path."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in path)


def file_list(files: Iterable[Place]) -> str:
    """Return a SQL list of files for `read_parquet` and the like, which take every name for a pattern."""
    return "[" + ", ".join(literal(without_wildcards(location(file))) for file in files) + "]"
