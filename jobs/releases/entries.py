"""The list of a takedown, what each of its lines names, and the tables that say what was removed.

A line is a sha256 (or a line of `sha256sum`), a key, SHARD/KEY, a URL, `domain` and a registered domain, or `pdq` and a
PDQ hash. The list may also be the `removed.parquet` of a release, whose rows then count as lines. That file says which
pictures were removed, when and why, and nothing of what they showed. Holders of older copies find these pictures by it.
"""

import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any, Literal, get_args

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import Field

from ingest.errors import LabelsError, MissingFileError, PrivsieveError
from ingest.formats.released import REMOVED, TAKEN_DOWN
from ingest.images.pdq import Hashes, hashes_of
from ingest.sample import domain_of, url_sha256_of
from ingest.storage.given_files import given_content
from ingest.storage.parquet_tables import write_checked
from ingest.storage.place import Place, place
from jobs.releases.files import REMOVED_SCHEMA, TAKEN_DOWN_SCHEMA
from scoring.labels.label_files import bounded_table

Why = Literal["objection", "erasure", "copyright", "safety", "other"]

OF_PICTURE = ("shard", "key", "sha256")
"""Columns that name a picture, in `decisions.parquet` and in `taken_down.parquet`."""

Tombstones = Sequence[Mapping[str, Any]]
"""Rows of `removed.parquet` or `taken_down.parquet`."""

_SHA256 = re.compile("[0-9a-f]{64}")


def tombstones_of(content: bytes, url: str) -> list[dict[str, Any]]:
    """Return the rows of an untrusted `removed.parquet` or `taken_down.parquet`. PrivsieveError if it is something
    else."""
    wrong = PrivsieveError(f"{url} is Parquet, and not the {REMOVED} of a release, or it is damaged")
    try:
        schema = pq.read_schema(pa.BufferReader(content))
        if schema not in (REMOVED_SCHEMA, TAKEN_DOWN_SCHEMA):
            raise wrong
        rows: list[dict[str, Any]] = bounded_table(content, url, schema.names).to_pylist()
    except (pa.ArrowException, LabelsError, OSError, ValueError):
        raise wrong from None
    if any(_SHA256.fullmatch(row["released_sha256"] or "") is None for row in rows):
        raise wrong
    if any(row["why"] not in (None, *get_args(Why)) for row in rows):
        raise wrong
    return rows


def write_tombstones(root: Place, staged: Place, removed: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Write the tombstones of a release and those of this takedown, and return each file -> its hash. removed: rows of
    this takedown, without `done`."""
    before = root.at(TAKEN_DOWN)
    rows = tombstones_of(before.read(), before.path) if before.exists() else []
    rows += [{**row, "done": date.today()} for row in removed]
    table = pa.Table.from_pylist(rows, TAKEN_DOWN_SCHEMA)
    tables = {REMOVED: table.select(REMOVED_SCHEMA.names), TAKEN_DOWN: table}
    return {name: write_checked(staged.at(name), rows) for name, rows in tables.items()}


_MAGIC = b"PAR1"

MAX_LIST_BYTES = 64 * 2**20

_LIST = (
    "LIST is a text file with one picture a line: its sha256, its key, SHARD/KEY, its URL, domain and a domain, or pdq "
    "and a PDQ hash"
)

SHA256 = re.compile("[0-9a-fA-F]{64}")
_SUM = re.compile("([0-9a-fA-F]{64}) [ *].+")
"""A line that `sha256sum` prints."""

_URL = re.compile("https?://", re.IGNORECASE)
_DOMAIN = re.compile(r"domain\s+(\S+)", re.IGNORECASE)
_PDQ = re.compile(r"pdq\s+(\S+)", re.IGNORECASE)

MAX_PDQ = 10_000
"""Limit on the PDQ hashes, since each is compared with every picture."""

PdqDistance = Annotated[int, Field(ge=0, le=64)]
"""Unrelated pictures differ in about half of the bits."""

Kind = Literal["sha256", "key", "url", "domain", "pdq"]
"""key: a key or SHARD/KEY."""


@dataclass(frozen=True)
class Entry:
    """One line that names pictures."""

    number: int
    """The number of the line, or of the row of `removed.parquet`, from 1."""

    kind: Kind

    name: str
    """What is looked for: for a URL its sha256; in lower case unless it is a key."""

    received: date | None = None
    """As `removed.parquet` says it."""

    why: Why | None = None
    """As `removed.parquet` says it."""

    place: tuple[str, str] | None = None
    """Shard and key of the picture that a row of `removed.parquet` is about."""


def entries_of(url: str) -> tuple[Entry, ...]:
    """Read a list. PrivsieveError names the first wrong line, by its number only."""
    try:
        content = given_content(place(url), f"LIST {url}", MAX_LIST_BYTES)
    except MissingFileError as error:
        raise MissingFileError(f"{error}; {_LIST}") from None
    if content.startswith(_MAGIC):
        rows = enumerate(tombstones_of(content, url), 1)
        entries = [
            Entry(number, "sha256", row["released_sha256"], row["received"], row["why"], (row["shard"], row["key"]))
            for number, row in rows
        ]
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
    if sum(entry.kind == "pdq" for entry in entries) > MAX_PDQ:
        raise PrivsieveError(f"{url} has more than {MAX_PDQ:,} PDQ hashes; divide it into several lists")
    return tuple(entries)


def is_of_rows(entries: Iterable[Entry]) -> bool:
    """Return whether a list is the `removed.parquet` of a release."""
    return all(entry.place is not None for entry in entries)


def pdq_names(entries: Iterable[Entry]) -> tuple[str, ...]:
    """Return the PDQ hashes that a list names, each once, in the order of `looked_for`."""
    return tuple(dict.fromkeys(entry.name for entry in entries if entry.kind == "pdq"))


def looked_for(names: Sequence[str]) -> Hashes:
    """Return PDQ hashes in hex as numbers; shape (hashes, 4)."""
    return hashes_of(names)


def is_url(text: str) -> bool:
    return _URL.match(text) is not None


def _entry(number: int, line: str, url: str) -> Entry:
    if SHA256.fullmatch(line) or _SUM.fullmatch(line):
        return Entry(number, "sha256", line[:64].lower())
    if is_url(line):
        return Entry(number, "url", url_sha256_of(line) or "")
    if (pdq := _PDQ.fullmatch(line)) is not None:
        if not SHA256.fullmatch(pdq[1]):
            raise PrivsieveError(f"{url}, line {number}: a PDQ hash has 64 hexadecimal digits")
        return Entry(number, "pdq", pdq[1].lower())
    if (named := _DOMAIN.fullmatch(line)) is not None:
        registered = domain_of(f"http://{named[1]}")
        if registered is None or registered != named[1].lower():
            raise PrivsieveError(
                f"{url}, line {number}: is no registered domain, such as example.org; a part of one, such as "
                "www.example.org, cannot be taken down alone"
            )
        return Entry(number, "domain", registered)
    return Entry(number, "key", line)
