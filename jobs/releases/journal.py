"""How pictures are removed from a release, or a copy of its shards, so that it may be interrupted at any moment.

All that changes is written into a folder of this takedown below `takedown.unfinished/`. Once all of it is there,
`takedown.unfinished.json` says what replaces what. Until then nothing has changed. From then on, `verify` says that a
takedown is unfinished, and the next one first does what that file says.

A lease keeps others out. Two that begin at the same moment may both get it. So each has its own folder, and the file
has the hashes of what it puts into place.
"""

import json
import shutil
from collections.abc import Callable
from typing import TypeVar

from pydantic import BaseModel

from ingest.errors import IncompleteError, PrivsieveError
from ingest.formats import FORMATS, Source
from ingest.formats.released import RELEASE_LEASE, TAKEDOWN_JOURNAL, TAKEDOWN_STAGED, Kept
from ingest.sample import printable
from ingest.storage.place import Place
from ingest.storage.removal import remove_half_written_of, remove_tree
from jobs.releases.files import BLOCK_BYTES, sha256_of
from jobs.releases.record import FileName, Sha256
from jobs.runtime.progress import Feedback
from scoring.runs.lease import Lease, lease

Result = TypeVar("Result")


class Journal(BaseModel):
    """What is left to do once everything is written."""

    folder: FileName
    """Folder below `takedown.unfinished/` with the new files."""

    replaced: dict[FileName, Sha256]
    """New files that replace those of the release, and their hashes."""

    removed: list[FileName]
    """Files of the release to remove."""


def write_rest(source: Source, shard: str, rest: Kept, staged: Place) -> dict[str, str]:
    """Write a shard without the pictures to remove, and return file -> sha256. IncompleteError if it has changed."""
    try:
        written = FORMATS[source.format].write(source.root, shard, rest, staged)
    except IncompleteError:  # it speaks of a scan
        raise IncompleteError(
            f"{printable(shard)} is not what was released; nothing was taken down; restore it from a copy"
        ) from None
    if written.num_samples != len(rest.sha256):
        raise IncompleteError(f"{printable(shard)} cannot be written again as it is; nothing was taken down")
    return written.files


Replaced = tuple[dict[str, str], list[str]]
"""`Journal.replaced` and `Journal.removed`."""

Found = tuple[Result, Callable[[Place], Replaced] | None]
"""What a command says in the end, and what writes all that changes into a folder; None if nothing does."""


def refuse_unfinished(root: Place) -> None:
    """Raise PrivsieveError if an interrupted removal has to be finished before anything can be said."""
    if root.at(TAKEDOWN_JOURNAL).exists() or root.at(TAKEDOWN_STAGED).exists():
        raise PrivsieveError(f"{root.url}: a takedown or apply is unfinished; run the same command again")


def remove_safely(root: Place, find: Callable[[], Found[Result]], feedback: Feedback, *, is_dry: bool) -> Result:
    """Remove what `find` has found. If anything fails before all is written, nothing has changed. If a command was
    interrupted once all was written, this ends it first. is_dry: only say what would be removed."""
    if is_dry:
        refuse_unfinished(root)
        return find()[0]
    with lease(root.at(RELEASE_LEASE), root.url, takeover=None) as own_lease:
        if _finish(root):
            feedback.notice("an interrupted takedown or apply was ended first; what it removed is no longer found")
        result, write = find()
        if write is not None:
            _put_in_place(root, own_lease, write)
    return result


def _put_in_place(root: Place, own_lease: Lease, write: Callable[[Place], Replaced]) -> None:
    try:
        replaced, removed = write(root.at(TAKEDOWN_STAGED, own_lease.id))
        own_lease.confirm()
    except BaseException:
        remove_tree(root.at(TAKEDOWN_STAGED, own_lease.id))
        if not root.at(TAKEDOWN_STAGED).names():
            remove_tree(root.at(TAKEDOWN_STAGED))
        raise
    journal = Journal(folder=own_lease.id, replaced=replaced, removed=removed)
    root.at(TAKEDOWN_JOURNAL).write(json.dumps(journal.model_dump()).encode())
    _finish(root)


def _finish(root: Place) -> bool:
    """Do what the journal says. Return whether there was one."""
    file = root.at(TAKEDOWN_JOURNAL)
    for name in (RELEASE_LEASE, TAKEDOWN_JOURNAL):
        remove_half_written_of(root.at(name))
    if has_journal := file.exists():
        try:
            journal = Journal.model_validate(json.loads(file.read()))
        except (ValueError, RecursionError):  # pydantic's error is a ValueError, too
            raise IncompleteError(f"{file.path} is damaged; restore the release from a copy") from None
        for name, sha256 in journal.replaced.items():
            staged = root.at(TAKEDOWN_STAGED, journal.folder, name)
            if staged.exists():
                if sha256_of(staged) != sha256:
                    raise IncompleteError(f"{staged.path} is damaged; restore the release from a copy")
                with staged.open() as stream, root.at(name).create() as target:
                    shutil.copyfileobj(stream, target, BLOCK_BYTES)
                staged.remove()
            elif not root.at(name).exists() or sha256_of(root.at(name)) != sha256:
                raise IncompleteError(
                    f"{printable(name)} is not what the takedown wrote, and its copy below {TAKEDOWN_STAGED}/ is gone; "
                    "restore the release from a copy"
                )
        for name in journal.replaced:
            remove_half_written_of(root.at(name))
        for name in journal.removed:
            if root.at(name).exists():
                root.at(name).remove()
    remove_tree(root.at(TAKEDOWN_STAGED))
    if has_journal:
        file.remove()
    return has_journal
