"""The folder of a release: what is in it, and where none may be written."""

import os
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from ingest.errors import StorageError
from ingest.formats.released import RELEASE_LEASE, UNFINISHED, own_names_among
from ingest.formats.shard import storage_faults
from ingest.storage.place import PART, Place
from jobs.releases.files import identity_of
from jobs.releases.plan import Plan
from jobs.releases.record import ReleaseIdentity
from scoring.runs.lease import STALE_S, holder

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


def refuse_misplaced(out: Place, url: str, run: Place, source: Place, is_folder: bool) -> None:
    """Raise StorageError if the release would be inside the source or the run, or hold them. is_folder: whether
    everything below `source` is part of the corpus, or only some of its files."""
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


_JUST_BEGUN = re.compile(
    rf"{re.escape(RELEASE_LEASE)}|({re.escape(RELEASE_LEASE)}|{re.escape(UNFINISHED)})\.[0-9a-f]{{8}}{re.escape(PART)}"
)
"""Name of a file that a filter leaves that was killed before it wrote anything to resume (`Place.create`)."""


def refuse_loss(out: Place, url: str, identity: ReleaseIdentity, resume: bool) -> None:
    """Raise StorageError if data in `out` would be lost, or if there is nothing to resume."""
    if not out.exists():
        return
    worker = holder(out.at(RELEASE_LEASE))
    is_active = worker is not None and not worker.is_stale()
    there = everything_below(out) if out.is_dir() else iter(())
    if out.is_dir() and not is_active and all(kind == "file" and _JUST_BEGUN.fullmatch(name) for name, kind in there):
        return
    if not resume:
        raise StorageError(f"{url} exists; give a new folder, or --resume")
    if is_active:
        raise StorageError(
            f"{url} is being written by {worker}; wait for it, or stop it "
            f"(one that was killed on another machine is given up after {STALE_S} s)"
        )
    begun = identity_of(out.at(UNFINISHED))
    if begun is None:
        raise StorageError(f"{url} holds no unfinished release to resume; give a new folder")
    if begun != identity:
        raise StorageError(
            f"{url} was begun with another run, policy or guarantee, by another version, or images were scanned again "
            "since; delete it, or give a new folder"
        )
