"""Compares a release with what `filter` wrote: files, counts, pictures, tombstones. Of a published copy, which lacks
what must not be published, that is checked which its own files say."""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated

import pyarrow as pa
import pyarrow.compute as pc

from ingest.errors import IncompleteError, OutageError, PrivsieveError, StorageError
from ingest.formats.released import (
    DECISIONS,
    PRIVATE,
    RELEASE,
    RELEASE_LEASE,
    REMOVED,
    SHA256SUMS,
    TAKEDOWN_JOURNAL,
    TAKEDOWN_STAGED,
    TAKEN_DOWN,
    UNFINISHED,
    UNHASHED,
)
from ingest.formats.shard import storage_faults
from ingest.sample import printable
from ingest.storage.place import Place, place
from jobs.console.requests import Option, Url, checked_request
from jobs.releases.destination import everything_below
from jobs.releases.entries import OF_PICTURE, Tombstones, tombstones_of
from jobs.releases.files import (
    REMOVED_SCHEMA,
    content_of,
    is_public,
    is_published_copy,
    read_own,
    record_of,
    sha256_of,
    sums,
)
from jobs.releases.plan import counts_in
from jobs.releases.record import ReleaseRecord
from jobs.releases.url_list import kind_of
from jobs.runtime.progress import SILENT, Feedback
from scoring.policies.reserved import ReservedRule
from scoring.runs.lease import holder

COLUMNS = ("shard", "key", "sha256", "action", "rule", "released_sha256", "url_sha256", "unseen")
"""Columns of `decisions.parquet` that are compared with something."""

UNCHECKED = (
    f"a published copy, without {PRIVATE}/: not checked is whether its pictures are those that the policy released, "
    "and whether all that was taken down is gone"
)


@checked_request
class VerifyRequest:
    release: Annotated[Url, Option(argument="RELEASE")]
    """Folder or fsspec URL of a release."""


@dataclass(frozen=True)
class Verified:
    num_files: int
    """Files that `release.json` names."""

    num_pictures: int = 0
    """Pictures that were read and compared."""

    faults: tuple[str, ...] = ()
    """What is wrong, one line each."""

    is_published_copy: bool = False
    """What must not be published is missing, so nothing was compared with the decisions."""

    compared: str = ""
    """What was compared, in words: its pictures, or the rows of a list of URLs."""


def run_verify(request: VerifyRequest, feedback: Feedback = SILENT) -> Verified:
    """Compare every file with its hash, the decisions with the counts, and the pictures with the decisions.
    StorageError or PrivsieveError if there is no release that could be verified."""
    root, url = place(request.release), request.release
    if root.at(UNFINISHED).exists():
        raise PrivsieveError(f"{url} is unfinished, so it cannot be verified; run its filter again with --resume")
    content = content_of(root, url)
    release = record_of(content, url)
    if root.at(TAKEDOWN_JOURNAL).exists():
        return Verified(len(release.sha256), faults=("a takedown is unfinished; run the same takedown again",))
    is_copy, kind = is_published_copy(root), kind_of(release.urls)
    expected = {name: sha256 for name, sha256 in release.hashes.items() if is_public(name) or not is_copy}
    faults, num_pictures = list(_file_faults(root, expected, feedback)), 0
    if not faults:
        compared = kind.counted(root, release, feedback) if is_copy else _compared(root, url, release, feedback)
        num_pictures, faults = compared
    if not faults:
        listed = hashlib.sha256(sums(release, content)).hexdigest()
        faults = _content_faults(root, SHA256SUMS, listed, f"its hashes are not those of {RELEASE} and its files")
    return Verified(len(release.sha256), num_pictures, tuple(faults), is_copy, kind.in_words(num_pictures))


def _file_faults(root: Place, expected: Mapping[str, str], feedback: Feedback) -> Iterator[str]:
    """Compare all that is in the folder, hidden or not, with what must be there. expected: file -> its hash."""
    there = dict(everything_below(root))
    if RELEASE_LEASE in there:
        who = holder(root.at(RELEASE_LEASE))
        is_active = who is not None and not who.is_stale()
        remedy = (
            f"{who} is at work; wait for it" if is_active else "a command was killed; run it again, or remove this file"
        )
        yield f"{RELEASE_LEASE}: {remedy}"
    staged = {name for name in there if f"{name}/".startswith(f"{TAKEDOWN_STAGED}/")}
    if staged:
        yield f"{TAKEDOWN_STAGED}: a takedown was stopped before it changed anything; run the same takedown again"
    for name, kind in sorted(there.items()):
        if name in staged or name == RELEASE_LEASE:
            continue
        if kind != "file":
            yield f"{printable(name)}: filter writes no {kind}"
        elif name not in expected and name not in UNHASHED:
            yield f"{printable(name)}: {RELEASE} does not name it"
    with feedback.meter("verify files", len(expected)) as meter:
        for name, sha256 in expected.items():
            if name not in there:
                yield f"{printable(name)}: it is not there"
            elif there[name] == "file":
                yield from _content_faults(root, name, sha256)
            meter.advance(1)
    if SHA256SUMS not in there:
        yield f"{SHA256SUMS}: it is not there"


def _content_faults(
    root: Place, name: str, sha256: str, if_other: str = "its content is not what was released"
) -> list[str]:
    """Return no line if a file has this hash, else one. OutageError if the store does not answer."""
    try:
        with storage_faults(name):
            return [] if sha256_of(root.at(name)) == sha256 else [f"{printable(name)}: {if_other}"]
    except OutageError:
        raise
    except StorageError as error:  # a pipe, or not readable by this user
        return [str(error)]


def _compared(root: Place, url: str, release: ReleaseRecord, feedback: Feedback) -> tuple[int, list[str]]:
    """Compare decisions, counts, tombstones and pictures; return how many pictures were compared, and the faults."""
    try:
        decisions = read_own(root, DECISIONS, url, COLUMNS)
    except IncompleteError:
        return 0, [f"{DECISIONS}: it cannot be read"]
    counts = counts_in(decisions)
    said = {"num_images": counts.num_images} | counts.as_json(is_clean=release.files == "clean")
    faults = _takedown_faults(root, release, decisions)
    if any(getattr(release, name) != value for name, value in said.items()):
        faults.append(f"{DECISIONS}: its decisions are not those that {RELEASE} counts")
    return (0, faults) if faults else kind_of(release.urls).compared(root, release, decisions, feedback)


def _takedown_faults(root: Place, release: ReleaseRecord, decisions: pa.Table) -> list[str]:
    """Compare the pictures that were taken down by `release.json`, by the tombstones and by the decisions."""
    tombstones = dict[str, Tombstones]()
    for name in (REMOVED, TAKEN_DOWN):
        try:
            tombstones[name] = tombstones_of(root.at(name).read(), name) if root.at(name).exists() else []
        except OutageError:
            raise
        except PrivsieveError:
            return [f"{name}: it cannot be read"]
    taken_down = tombstones[TAKEN_DOWN]
    faults = list[str]()
    if [dict(row) for row in tombstones[REMOVED]] != [{n: row[n] for n in REMOVED_SCHEMA.names} for row in taken_down]:
        faults.append(f"{REMOVED}: its rows are not those of {TAKEN_DOWN}")
    num_logged = release.num_removed_before + sum(takedown.num_pictures for takedown in release.takedowns)
    marked = decisions.filter(pc.equal(decisions["rule"], ReservedRule.TAKEDOWN)).select(OF_PICTURE).to_pylist()
    of_release = [tuple(row[name] for name in OF_PICTURE) for row in taken_down[release.num_removed_before :]]
    if len(taken_down) != num_logged or Counter(of_release) != Counter(tuple(row.values()) for row in marked):
        faults.append(f"{TAKEN_DOWN}: its pictures are not those of the takedowns in {RELEASE} and of {DECISIONS}")
    return faults
