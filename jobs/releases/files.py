"""The files that a release has beside its shards: where each is, what it holds, which releases have it; and how
`release.json` and `SHA256SUMS` are read and written.

Whatever must not be published is in one folder, `not-for-publication/`; the rest may be published as it is, and
`SHA256SUMS` lists it. `release.json` has the hashes of both, so a signature is of both. Source of the format of
`SHA256SUMS`: the manual of GNU coreutils (sha256sum).
"""

import hashlib
import json
from collections.abc import Collection, Mapping
from io import BufferedReader
from typing import Any, TypeVar, cast

import pyarrow as pa
from pydantic import BaseModel, ValidationError

from ingest.errors import IncompleteError, PrivsieveError
from ingest.formats.released import (
    CHANGES,
    DATASHEET,
    DECISIONS,
    HASHED,
    PRIVATE,
    REDACTIONS,
    RELEASE,
    REMOVED,
    SHA256SUMS,
    TAKEN_DOWN,
)
from ingest.sample import printable
from ingest.storage.file_format import refuse_other_format
from ingest.storage.parquet_tables import read_checked
from ingest.storage.place import Place
from jobs.releases.record import ReleaseIdentity, ReleaseRecord

DECISIONS_SCHEMA = pa.schema(
    {
        "shard": pa.string(),
        "index": pa.int64(),
        "key": pa.string(),
        "sha256": pa.string(),
        "action": pa.string(),
        "rule": pa.string(),
        "reason": pa.string(),
        "released_sha256": pa.string(),
        "url_sha256": pa.string(),
        "domain": pa.string(),
        "unseen": pa.list_(pa.string()),
        "pdq": pa.list_(pa.string()),
        "colours": pa.string(),
    }
)
"""`released_sha256`: of the picture in the release, null if it is dropped. `url_sha256`, `domain`: as in the row. Null
if the picture is dropped, since a URL with a reason would lead to it; null with `members: image-only` too, since
nothing else in the release says them then. `unseen`: kinds of content in the file that may not have been scanned;
null if there are none, or if it is dropped or covered. `pdq`: PDQ hashes of a covered picture as it was scanned, as
`jobs.releases.matching` gives them, so that its owner finds it by another copy; null for other pictures. `colours`:
removed, if `ingest.images.rewriting` could not keep the colour profile; else null."""

REDACTIONS_SCHEMA = pa.schema(
    {
        "shard": pa.string(),
        "index": pa.int64(),
        "key": pa.string(),
        "number": pa.int32(),
        "step": pa.string(),
        "num_areas": pa.int32(),
        "share_covered": pa.float32(),
        "is_examined": pa.bool_(),
        "left": pa.list_(pa.string()),
        "released": pa.bool_(),
    }
)
"""One row per step of `scoring.engines.detectors.covering`. `number`: from 1. `left`: what the second look still found.
`released`: whether the picture is released as it was after this step."""

CHANGES_SCHEMA = pa.schema(
    {
        "shard": pa.string(),
        "key": pa.string(),
        "change": pa.string(),
        "rule": pa.string(),
        "previous_sha256": pa.string(),
        "released_sha256": pa.string(),
    }
)
"""One row per picture that differs from the previous release. `change`: added, removed or changed. `rule`: that dropped
a removed one, null if the run no longer has it."""

REMOVED_SCHEMA = pa.schema(
    {"shard": pa.string(), "key": pa.string(), "released_sha256": pa.string(), "done": pa.date32()}
)
"""One row per removed picture, for holders of older copies. `done`: the day of the takedown. It has no hash of the URL
or of the scanned picture: those of public tables can be hashed, too, so they would lead to the picture."""

TAKEN_DOWN_SCHEMA = REMOVED_SCHEMA.append(pa.field("sha256", pa.string()))
"""The same with the hash of the scanned picture, so that it never comes back."""

SCHEMAS: Mapping[str, pa.Schema] = {
    REMOVED: REMOVED_SCHEMA,
    DECISIONS: DECISIONS_SCHEMA,
    REDACTIONS: REDACTIONS_SCHEMA,
    CHANGES: CHANGES_SCHEMA,
    TAKEN_DOWN: TAKEN_DOWN_SCHEMA,
}
"""Columns of the tables of a release, by path."""


BLOCK_BYTES = 2**22

Facts = TypeVar("Facts", bound=BaseModel)


def is_public(name: str) -> bool:
    """Return whether a file of a release may be published."""
    return not name.startswith(f"{PRIVATE}/")


def is_published_copy(root: Place) -> bool:
    """Return whether the folder of what must not be published is missing."""
    return not root.at(PRIVATE).exists()


def record_of(content: bytes, what: str) -> ReleaseRecord:
    """Return what `release.json` says. PrivsieveError, with `what` it is of, if it has another format or is damaged."""
    try:
        fields = json.loads(content)
        refuse_other_format(fields, f"{what}: {RELEASE}", "filter again", PrivsieveError)
        release = ReleaseRecord.model_validate(fields)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        where = printable(".".join(map(str, fault["loc"])))
    except (ValueError, RecursionError):
        where = "no JSON"
    else:
        has_removed = bool(release.num_removed_before or release.takedowns)
        has = {REMOVED: has_removed, TAKEN_DOWN: has_removed}
        has |= {DATASHEET: DATASHEET in release.own_sha256}
        has |= {REDACTIONS: release.second_look is not None, CHANGES: release.previous_sha256 is not None}
        differing = release.own_sha256.keys() ^ {path for path in HASHED if has.get(path, True)}
        if not differing:
            return release
        where = f"own_sha256.{min(differing)}"
    raise PrivsieveError(f"{what}: {RELEASE} is damaged, or no filter wrote it ({where[:200]})")


def read_release(root: Place, what: str) -> ReleaseRecord:
    """Read `release.json` of a release that somebody relies on. PrivsieveError as in `record_of`, and if it is not the
    one that `SHA256SUMS` lists."""
    content = content_of(root, what)
    release, listed = record_of(content, what), root.at(SHA256SUMS)
    if not listed.exists() or listed.read() != sums(release, content):
        raise PrivsieveError(
            f"{what}: {RELEASE} is not the one of {SHA256SUMS}; privsieve release verify {what} says more"
        )
    return release


def content_of(root: Place, what: str) -> bytes:
    """Return the content of `release.json`. PrivsieveError if there is none."""
    if not root.at(RELEASE).exists():
        raise PrivsieveError(f"{what} is no finished release: it has no {RELEASE}")
    return root.at(RELEASE).read()


def identity_of(file: Place) -> ReleaseIdentity | None:
    """Read `release.unfinished.json`; None if there is none, or the file is something else. StorageError if it cannot
    be read."""
    try:
        return ReleaseIdentity.model_validate(json.loads(file.read())) if file.exists() else None
    except (ValueError, RecursionError):
        return None


def read_own(root: Place, name: str, what: str, columns: Collection[str] | None = None) -> pa.Table:
    """Read a table of `SCHEMAS`, or some columns of it. IncompleteError, with `what` release it is of, if it is
    damaged or has other columns; PrivsieveError if all that must not be published is missing."""
    if not is_public(name) and is_published_copy(root):
        raise PrivsieveError(f"{what} is a published copy, without {PRIVATE}/; give the release as filter wrote it")
    try:
        table = read_checked(root.at(name), columns)
    except (pa.ArrowException, FileNotFoundError, NotADirectoryError):
        table = None
    schema = SCHEMAS[name]
    wanted = schema if columns is None else pa.schema([schema.field(column) for column in columns])
    if table is None or not table.schema.equals(wanted):
        raise IncompleteError(f"{what}: {name} cannot be read; privsieve release verify {what} says more")
    return table


def sha256_of(file: Place) -> str:
    """Return the hash of a file of a release, in hex."""
    with file.open() as stream:
        return hashlib.file_digest(cast(BufferedReader, stream), "sha256").hexdigest()


def as_json(content: BaseModel | Mapping[str, Any]) -> bytes:
    facts = content.model_dump() if isinstance(content, BaseModel) else content
    return (json.dumps(facts, indent=2) + "\n").encode()


def sums(release: ReleaseRecord, content: bytes) -> bytes:
    """Return the content of `SHA256SUMS`: the hash of each file that may be published. content: of `release.json`."""
    hashes = {name: sha256 for name, sha256 in release.hashes.items() if is_public(name)}
    hashes[RELEASE] = hashlib.sha256(content).hexdigest()
    lines = "".join(f"{sha256}  {name}\n" for name, sha256 in sorted(hashes.items()))
    return lines.encode("utf-8", "surrogateescape")  # names that are not UTF-8, as the system has them
