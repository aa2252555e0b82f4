"""The list of a takedown, which pictures its lines name, and the tables that say what was removed.

A line is a sha256 (or a line of `sha256sum`), a key, SHARD/KEY, a URL, or `domain` and a registered domain. The list
may also be the `removed.parquet` of a release, whose rows then count as lines. That file says which pictures were
removed and when, and nothing of what they showed. Holders of older copies find these pictures by it.
"""

import io
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ingest.errors import LabelsError, MissingFileError, PrivsieveError
from ingest.formats.released import REMOVED, TAKEN_DOWN
from ingest.sample import domain_of, url_sha256_of
from ingest.storage.given_files import given_content
from ingest.storage.parquet_tables import write_checked
from ingest.storage.place import Place, place
from jobs.releases.files import REMOVED_SCHEMA, TAKEN_DOWN_SCHEMA
from scoring.labels.label_files import bounded_table

OF_PICTURE = ("shard", "key", "sha256")
"""Columns that name a picture, in `decisions.parquet` and in `taken_down.parquet`."""

Tombstones = Sequence[Mapping[str, Any]]
"""Rows of `removed.parquet` or `taken_down.parquet`."""

_SHA256 = re.compile("[0-9a-f]{64}")


def tombstones_of(content: bytes, url: str) -> list[dict[str, Any]]:
    """Return the rows of an untrusted `removed.parquet` or `taken_down.parquet`. PrivsieveError if it is something
    else."""
    wrong = PrivsieveError(f"{url} is not the {REMOVED} of a release, or it is damaged")
    try:
        there = pq.read_schema(pa.BufferReader(content))
        schema = TAKEN_DOWN_SCHEMA if "sha256" in there.names else REMOVED_SCHEMA
        if any(field not in there for field in schema):  # 1.0 wrote more columns
            raise wrong
        rows: list[dict[str, Any]] = bounded_table(content, url, there.names).select(schema.names).to_pylist()
    except (pa.ArrowException, LabelsError, OSError, ValueError):
        raise wrong from None
    if any(_SHA256.fullmatch(row["released_sha256"] or "") is None for row in rows):
        raise wrong
    return rows


def write_tombstones(root: Place, staged: Place, removed: pa.Table) -> dict[str, str]:
    """Write the tombstones of a release and those of this takedown, and return each file -> its hash. removed: the
    decisions on the removed pictures, as they were before."""
    before = root.at(TAKEN_DOWN)
    rows = tombstones_of(before.read(), before.path) if before.exists() else []
    rows += [row | {"done": date.today()} for row in removed.to_pylist()]
    table = pa.Table.from_pylist(rows, TAKEN_DOWN_SCHEMA)
    tables = {REMOVED: table.select(REMOVED_SCHEMA.names), TAKEN_DOWN: table}
    return {name: write_checked(staged.at(name), rows) for name, rows in tables.items()}


MAX_LIST_BYTES = 64 * 2**20

_LIST = (
    "LIST is a text file with one picture a line: its sha256, its key, SHARD/KEY, its URL, or domain and a domain; or "
    f"the {REMOVED} of a release"
)

_SUM = re.compile("([0-9a-fA-F]{64})( [ *].+)?")
"""A sha256, or a line that `sha256sum` prints."""

_URL = re.compile("https?://", re.IGNORECASE)
_DOMAIN = re.compile(r"domain\s+(\S+)", re.IGNORECASE)


@dataclass(frozen=True)
class Entry:
    """One line that names pictures."""

    number: int
    """The number of the line, or of the row of `removed.parquet`, from 1."""

    kind: Literal["picture", "url", "domain"]
    """picture: a sha256, a key or SHARD/KEY."""

    name: str
    """What is looked for: for a URL its sha256."""


def given_list(url: str) -> bytes:
    """Read a list. MissingFileError says what a list is."""
    try:
        return given_content(place(url), f"LIST {url}", MAX_LIST_BYTES)
    except MissingFileError as error:
        raise MissingFileError(f"{error}; {_LIST}") from None


def entries_of(url: str) -> tuple[Entry, ...]:
    """Read a list. PrivsieveError names the first wrong line, by its number only."""
    content = given_list(url)
    if content.startswith(b"PAR1"):
        rows = enumerate(tombstones_of(content, url), 1)
        entries = [Entry(number, "picture", row["released_sha256"]) for number, row in rows]
    else:
        try:
            lines = io.StringIO(content.decode("utf-8-sig"), newline="\n")
        except UnicodeDecodeError:
            raise PrivsieveError(f"{url} is not text in UTF-8; {_LIST}") from None
        # A key may hold, or end in, any other character at which Python divides or strips text.
        stripped = ((number, line.strip(" \t\r\n")) for number, line in enumerate(lines, 1))
        entries = [_entry(number, line, url) for number, line in stripped if line and not line.startswith("#")]
    if not entries:
        raise PrivsieveError(f"{url} names no picture; {_LIST}")
    return tuple(entries)


def is_url(text: str) -> bool:
    return _URL.match(text) is not None


def _entry(number: int, line: str, url: str) -> Entry:
    if _SUM.fullmatch(line):
        return Entry(number, "picture", line[:64].lower())
    if is_url(line):
        return Entry(number, "url", url_sha256_of(line) or "")
    if (named := _DOMAIN.fullmatch(line)) is not None:
        registered = domain_of(f"http://{named[1]}")
        if registered is None or registered != named[1].lower():
            raise PrivsieveError(
                f"{url}, line {number}: is no registered domain, such as example.org; a part of one, such as "
                "www.example.org, cannot be taken down alone"
            )
        return Entry(number, "domain", registered)
    return Entry(number, "picture", line)


_NAMED = """
    WITH
        names AS (
            SELECT "row", 'hash' AS way, unnest([sha256, released_sha256]) AS "name" FROM decisions
            UNION ALL SELECT "row", 'key', unnest(["key", concat(shard, '/', "key")]) FROM decisions
            UNION ALL SELECT "row", 'url', url_sha256 FROM decisions
            UNION ALL SELECT "row", 'domain', domain FROM decisions
        ),
        named AS (SELECT DISTINCT "number", way, "row" FROM entries JOIN names USING (way, "name")),
        copies AS (
            SELECT named."number", way, copy."row"
            FROM named
            JOIN decisions AS picture USING ("row")
            JOIN decisions AS copy ON copy.released_sha256 = picture.released_sha256
            WHERE way IN ('hash', 'url')
        )
    SELECT "number", "row", bool_or(way = 'key') AS is_key
    FROM (FROM named UNION FROM copies) GROUP BY ALL ORDER BY ALL
"""
"""The rows that each line names: those whose name it is, and, but for a key or a domain, their copies."""


def named_rows(url: str, decisions: pa.Table, entries: Sequence[Entry]) -> list[tuple[int, int]]:
    """Return the number of a line and the row of a decision that it names, for all such pairs.

    url: the release. PrivsieveError if a key is that of several released pictures, or if the release does not record
    what a line names.
    """
    for entry in entries:
        column = {"url": "url_sha256", "domain": "domain"}.get(entry.kind)
        if column is not None and 0 < decisions.num_rows == decisions[column].null_count:
            raise PrivsieveError(
                f"line {entry.number} of the list names a {'URL' if entry.kind == 'url' else 'domain'}, and {url} "
                "records none, since its source or its policy gives none; write the sha256, or SHARD/KEY"
            )
    ways = {"picture": ("hash", "key"), "url": ("url",), "domain": ("domain",)}
    lines = [{"number": e.number, "way": way, "name": e.name} for e in entries for way in ways[e.kind]]
    with duckdb.connect() as connection:
        connection.execute("SET enable_external_access = false")
        connection.register("entries", pa.Table.from_pylist(lines))
        connection.register("decisions", decisions.append_column("row", pa.array(np.arange(decisions.num_rows))))
        found: list[tuple[int, int, bool]] = connection.sql(_NAMED).fetchall()
    is_released = decisions["released_sha256"].is_valid()
    of_key = Counter(number for number, row, is_key in found if is_key and is_released[row].as_py())
    for number, num_pictures in of_key.items():
        if num_pictures > 1:
            raise PrivsieveError(
                f"line {number} of the list is the key of {num_pictures:,} pictures; write SHARD/KEY, or the sha256"
            )
    return [(number, row) for number, row, _ in found]
