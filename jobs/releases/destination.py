"""The folder of a release: what is in it, which of that is somebody's own, and where none may be written: over other
data, inside the input, or while another filter writes there."""

import os
import posixpath
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal

from ingest.errors import IncompleteError, PrivsieveError, StorageError, number_of
from ingest.formats.released import (
    DONE,
    HASHED,
    RELEASE,
    RELEASE_LEASE,
    REMOVED,
    SHA256SUMS,
    TAKEDOWN_JOURNAL,
    TAKEDOWN_STAGED,
    UNFINISHED,
    UNHASHED,
    Written,
    own_names_among,
)
from ingest.formats.shard import storage_faults
from ingest.sample import printable
from ingest.storage.place import PART, Place
from ingest.storage.removal import remove_tree
from jobs.releases.files import identity_of, record_of
from jobs.releases.plan import Plan
from jobs.releases.record import ReleaseIdentity
from jobs.releases.url_list import kind_of
from scoring.runs.lease import STALE_S, Lease, holder

_OWN = frozenset([*HASHED, *UNHASHED, RELEASE_LEASE, UNFINISHED, TAKEDOWN_JOURNAL])
_FOLDERS_AT_WORK = (f"{DONE}/", f"{TAKEDOWN_STAGED}/")
_HALF_WRITTEN = re.compile(rf"\.[0-9a-f]{{8}}{re.escape(PART)}$")

Kind = Literal["file", "link", "empty folder"]


def everything_below(root: Place) -> Iterator[tuple[str, Kind]]:
    """Yield path and kind of all that is below a folder, hidden or not; links are not followed. StorageError if a
    folder cannot be listed."""
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        with storage_faults(folder or root.path):
            entries = sorted(_entries(root.at(folder)))
        if folder and not entries:
            yield folder, "empty folder"
        for name, kind in entries:
            if kind == "folder":
                waiting.append(posixpath.join(folder, name))
            else:
                yield posixpath.join(folder, name), kind


def _entries(folder: Place) -> Iterator[tuple[str, Literal["file", "link", "folder"]]]:
    if folder.is_local:
        with os.scandir(folder.path) as entries:
            for entry in entries:
                is_folder = entry.is_dir(follow_symlinks=False)
                yield entry.name, "link" if entry.is_symlink() else "folder" if is_folder else "file"
        return
    for described in folder.entries():
        path = described["name"].rstrip("/")
        if path != folder.path.rstrip("/"):  # object stores list a folder in itself
            yield posixpath.basename(path), "folder" if described["type"] == "directory" else "file"


def refuse_others(out: Place, url: str, source: Place) -> None:
    """Raise StorageError if the folder of a release, finished or not, holds a file that no filter wrote: to replace the
    release would delete it.

    source: of the filter that replaces it. A filter that was killed has not recorded all that it wrote, but its files
    have the names of those in the source, unless they were removed there since.
    """
    begun, named = identity_of(out.at(UNFINISHED)), set(_OWN)
    if out.at(RELEASE).exists():
        named |= record_of(out.at(RELEASE).read(), url).sha256.keys()
    if begun is not None:
        folder = out.at(DONE)
        for file in (folder.at(name) for name in (folder.names() if folder.is_dir() else ()) if name.endswith(".json")):
            with suppress(ValueError):  # damaged
                named |= Written.from_json(file.read()).files.keys()
    for there, kind in everything_below(out):
        name = _HALF_WRITTEN.sub("", there)
        is_begun = begun is not None and kind_of(begun.urls).may_hold(name, source)
        if kind != "empty folder" and not (name in named or is_begun or f"{name}/".startswith(_FOLDERS_AT_WORK)):
            fate = "is not of the release" if begun is None else "may not be of the unfinished release"
            raise StorageError(
                f"{url} holds {printable(there)}, which {fate}, and --overwrite would delete it; move it elsewhere, or "
                "give a new folder"
            )


def removed_release(out: Place) -> bool:
    """Remove what an earlier filter left in the folder. Return whether that was a finished release."""
    was_finished = out.at(RELEASE).exists()
    out.at(SHA256SUMS).remove()  # first: without its private files alone it would pass for a published copy
    remove_tree(out, last=(RELEASE, UNFINISHED))  # what remains after a kill is known as a release
    return was_finished


@contextmanager
def failures_say_what_is_left(out: Place, url: str, own_lease: Lease, is_replaced: bool) -> Iterator[None]:
    """Add to the error of a filter that fails how many files it leaves; is_replaced: and that it removed a release.

    Where another command has taken over, the files are of that one.
    """
    try:
        yield
    except (IncompleteError, StorageError) as error:
        remains = "; the earlier release is removed" if is_replaced else ""
        if isinstance(error, IncompleteError) and not own_lease.is_lost and out.at(UNFINISHED).exists():
            with suppress(StorageError, OSError):  # the error itself says more than a storage that cannot be listed
                names = {name for name, _ in everything_below(out)} - _OWN
                num_files = sum(not f"{name}/".startswith(_FOLDERS_AT_WORK) for name in names)
                remains += (
                    f"; {url} holds {number_of(num_files, 'file')} of an unfinished release: continue with --resume, "
                    "or delete the folder"
                )
        error.args = (f"{error}{remains}",)
        raise


_JUST_BEGUN = re.compile(
    rf"{re.escape(RELEASE_LEASE)}|({re.escape(RELEASE_LEASE)}|{re.escape(UNFINISHED)})\.[0-9a-f]{{8}}{re.escape(PART)}"
)
"""Name of a file that a filter leaves that was killed before its record was complete (`Place.create`)."""


def refuse_misplaced(out: Place, url: str, run: Place, source: Place, is_folder: bool) -> None:
    """Raise StorageError if the release would be inside the source or the run, or hold them.

    is_folder: whether everything below `source` is part of the corpus, or only some of its files.
    """
    if out.is_local and any(above.exists() and not above.is_dir() for above in Path(out.path).parents):
        raise StorageError(f"cannot write {url}: it is below a file")
    if out.is_within(source) and (is_folder or source.is_within(out)):
        raise StorageError(f"{url} is inside the source; write the release to a folder outside of it")
    for name, read in (("source", source), ("run", run)):
        if read.is_within(out):
            raise StorageError(f"{url} holds the {name}; write the release to a folder of its own")
    if out.is_within(run):
        raise StorageError(f"{url} is inside the run; write the release to a folder outside of it")


def refuse_own_names(plan: Plan) -> None:
    """Raise StorageError if a shard would take the name of one of the release's own files."""
    names = own_names_among(share.shard for share in plan.shares if share.num_kept)
    if names:
        raise StorageError(f"the source holds {names[0]}, which a release has of its own; rename it and scan again")


def refuse_loss(out: Place, url: str, source: Place, identity: ReleaseIdentity, resume: bool, overwrite: bool) -> None:
    """Raise StorageError if data in `out` would be lost. source: where the pictures are."""
    begun = identity_of(out.at(UNFINISHED))
    is_release = begun is not None or _is_finished(out)
    if out.exists() and not resume and not overwrite:
        raise StorageError(f"{url} exists; give a new folder, or --resume, or --overwrite")
    worker = holder(out.at(RELEASE_LEASE))
    if worker is not None and not worker.is_stale():
        raise StorageError(
            f"{url} is being written by {worker}; wait for it, or stop it "
            f"(one that was killed on another machine is given up after {STALE_S} s)"
        )
    if out.exists() and not is_release and not _was_just_begun(out):
        foreign = [name for name in (RELEASE, UNFINISHED) if out.at(name).exists()]
        why = f" (its {foreign[0]} is of something else)" if foreign else ""
        remedy = (
            ", so --overwrite leaves it alone; remove it yourself" if overwrite else " to resume; give a new folder"
        )
        raise StorageError(f"{url} holds no release of privsieve{why}{remedy}")
    if overwrite and is_release:
        refuse_others(out, url, source)
        if out.at(REMOVED).exists():
            raise StorageError(
                f"{url} has taken pictures down, and --overwrite would bring them back; write to another folder with "
                f"--previous {url}, or remove {url}"
            )
    if resume and is_release and begun is None:
        raise StorageError(f"{url} is a finished release, with nothing left to resume")
    if resume and begun not in (None, identity):
        raise StorageError(
            f"{url} was begun with another run, policy or guarantee, by another version, or images were scanned "
            "again since; use --overwrite"
        )


def _is_finished(out: Place) -> bool:
    try:
        return out.at(RELEASE).exists() and bool(record_of(out.at(RELEASE).read(), ""))
    except StorageError:
        raise
    except PrivsieveError:
        return False


def _was_just_begun(out: Place) -> bool:
    """Return whether a folder holds nothing but what a filter leaves that was killed before it wrote its record."""
    return out.is_dir() and all(
        entry["type"] == "file" and _JUST_BEGUN.fullmatch(posixpath.basename(entry["name"])) for entry in out.entries()
    )
