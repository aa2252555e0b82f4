"""Compares a release with what `filter` wrote: files, counts, pictures, tombstones.

Of a published copy, which lacks what must not be published, that is checked which its own files say.
"""

import hashlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated

import pyarrow as pa
import pyarrow.compute as pc

from ingest.errors import IncompleteError, OutageError, PrivsieveError, StorageError, number_of
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

    StorageError or PrivsieveError if there is no release that could be verified.
    """
    root, url = place(request.release), request.release
    if root.at(UNFINISHED).exists():
        raise PrivsieveError(f"{url} is unfinished, so it cannot be verified; run its filter again with --resume")
    content = content_of(root, url)
    release = record_of(content, url)
    if root.at(TAKEDOWN_JOURNAL).exists():
        return Verified(len(release.sha256), faults=("a takedown is unfinished; run the same takedown again",))
    is_copy, kind = is_published_copy(root), kind_of(release.urls)
    expected = {name: sha256 for name, sha256 in release.hashes.items() if is_public(name) or not is_copy}
    of_files = list(_file_faults(root, expected, feedback))
    faults = [fault for _, fault in of_files]
    num_pictures = 0
    if not is_copy:
        wrong = {name for name, _ in of_files}
        num_pictures, more = _decided(root, url, release, wrong, feedback)
        faults += more
    elif not faults:
        removed, faults = _tombstones(root, REMOVED)
        num_pictures, more = kind.counted(root, release, feedback)
        faults += [*_log_faults(release, removed), *more]
    if not faults:
        listed = hashlib.sha256(sums(release, content)).hexdigest()
        faults += _content_faults(root, SHA256SUMS, listed, f"its hashes are not those of {RELEASE} and its files")
    return Verified(
        len(release.sha256),
        num_pictures,
        tuple(faults),
        is_copy,
        kind.in_words(num_pictures),
    )


def _file_faults(root: Place, expected: Mapping[str, str], feedback: Feedback) -> Iterator[tuple[str, str]]:
    """Compare all that is in the folder, hidden or not, with what must be there. expected: file -> its hash.

    Yields the name of each file that is wrong, and the fault.
    """
    there = dict(everything_below(root))
    if RELEASE_LEASE in there:
        who = holder(root.at(RELEASE_LEASE))
        is_active = who is not None and not who.is_stale()
        remedy = (
            f"{who} is at work; wait for it" if is_active else "a command was killed; run it again, or remove this file"
        )
        yield RELEASE_LEASE, f"{RELEASE_LEASE}: {remedy}"
    staged = {name for name in there if f"{name}/".startswith(f"{TAKEDOWN_STAGED}/")}
    if staged:
        yield (
            TAKEDOWN_STAGED,
            f"{TAKEDOWN_STAGED}: a takedown was stopped before it changed anything; run the same takedown again",
        )
    wrong = set[str]()
    for name, kind in sorted(there.items()):
        if name in staged or name == RELEASE_LEASE:
            continue
        if kind != "file":
            wrong.add(name)
            yield name, f"{printable(name)}: filter writes no {kind}"
        elif name not in expected and name not in UNHASHED:
            yield name, f"{printable(name)}: {RELEASE} does not name it"
    with feedback.meter("verify files", len(expected)) as meter:
        for name, sha256 in expected.items():
            if name not in there:
                yield name, f"{printable(name)}: it is not there"
            elif name not in wrong:
                yield from ((name, fault) for fault in _content_faults(root, name, sha256))
            meter.advance(1)
    if SHA256SUMS not in there:
        yield SHA256SUMS, f"{SHA256SUMS}: it is not there"


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


def _decided(
    root: Place, url: str, release: ReleaseRecord, wrong: Collection[str], feedback: Feedback
) -> tuple[int, list[str]]:
    """Compare the decisions with the counts and the tombstones, and the pictures with the decisions. wrong: files.

    Returns how many pictures were compared, and the faults.
    """
    kind = kind_of(release.urls)
    if DECISIONS in wrong:
        return 0, []
    try:
        decisions = read_own(root, DECISIONS, url, COLUMNS)
    except IncompleteError:
        return 0, [f"{DECISIONS}: it cannot be read"]
    faults = _decision_faults(release, decisions)
    removed, removed_faults = _tombstones(root, TAKEN_DOWN)
    if not removed_faults:
        removed_faults = [*_log_faults(release, removed), *_takedown_faults(root, release, decisions, removed)]
    faults += removed_faults
    if faults or wrong:
        # Whatever else is wrong: which shard holds a removed picture again.
        again = kind.removed_again(root, decisions, removed, feedback) if removed else ()
        return 0, [*faults, *again]
    return kind.compared(root, release, decisions, removed, feedback)


def _decision_faults(release: ReleaseRecord, decisions: pa.Table) -> list[str]:
    counts = counts_in(decisions)
    counted = counts.as_json(is_clean=release.files == "clean")
    names = [name for name, value in counted.items() if getattr(release, name) != value]
    if counts.num_images != release.num_images or not {"actions", "rules"}.isdisjoint(names):
        return [f"{DECISIONS}: its decisions are not those that {RELEASE} counts"]
    return [f"{RELEASE}: its {name} is not what {DECISIONS} counts" for name in names]


def _tombstones(root: Place, name: str) -> tuple[Tombstones, list[str]]:
    """Return the tombstones, none if nothing was taken down, and what is wrong with their file."""
    if not root.at(name).exists():
        return [], []
    try:
        return tombstones_of(root.at(name).read(), name), []
    except OutageError:
        raise
    except PrivsieveError:
        return [], [f"{name}: it cannot be read"]


def _log_faults(release: ReleaseRecord, removed: Tombstones) -> list[str]:
    """Compare the number of tombstones with the log of takedowns."""
    num_logged = release.num_removed_before + sum(takedown.num_pictures for takedown in release.takedowns)
    faults = list[str]()
    if len(removed) != num_logged:
        shown = number_of(len(removed), "picture")
        faults.append(f"{REMOVED}: it has {shown}, and the takedowns in {RELEASE} count {num_logged:,}")
    num_rows = sum(takedown.num_rows for takedown in release.takedowns)
    if release.urls is not None and num_rows != (counted := release.urls.num_taken_down):
        faults.append(f"{RELEASE}: its takedowns removed {number_of(num_rows, 'row')}, and its list counts {counted:,}")
    return faults


def _takedown_faults(root: Place, release: ReleaseRecord, decisions: pa.Table, removed: Tombstones) -> Iterator[str]:
    """Compare the tombstones with the decisions, and those for publication with the others."""
    of_removed = Counter(tuple(row[name] for name in OF_PICTURE) for row in removed[release.num_removed_before :])
    rows = decisions.filter(pc.equal(decisions["rule"], ReservedRule.TAKEDOWN))
    marked = Counter(zip(*(rows[name].to_pylist() for name in OF_PICTURE), strict=True))
    if num_missing := (of_removed - marked).total():
        yield f"{DECISIONS}: {number_of(num_missing, 'picture')} of {REMOVED} not marked as taken down"
    if num_more := (marked - of_removed).total():
        yield f"{REMOVED}: without {number_of(num_more, 'picture')} that {DECISIONS} marks as taken down"
    published, faults = _tombstones(root, REMOVED)
    yield from faults
    if not faults and [dict(row) for row in published] != [
        {n: v for n, v in row.items() if n != "sha256"} for row in removed
    ]:
        yield f"{REMOVED}: its rows are not those of {TAKEN_DOWN}"
