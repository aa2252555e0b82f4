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

from pydantic import BaseModel

from ingest.errors import IncompleteError
from ingest.formats import FORMATS, Source
from ingest.formats.released import RELEASE_LEASE, TAKEDOWN_JOURNAL, TAKEDOWN_STAGED, Kept
from ingest.sample import printable
from ingest.storage.place import Place
from ingest.storage.removal import remove_half_written_of, remove_tree
from jobs.releases.files import BLOCK_BYTES, sha256_of
from jobs.releases.record import FileName, Sha256
from scoring.runs.lease import Lease


class Journal(BaseModel):
    """What is left to do once everything is written."""

    folder: FileName
    """Folder below `takedown.unfinished/` with the new files."""

    replaced: dict[FileName, Sha256]
    """New files that replace those of the release, and their hashes."""

    removed: list[FileName]
    """Files of the release to remove."""


def write_rest(source: Source, shard: str, rest: Kept, staged: Place) -> dict[str, str]:
    """Write a shard without the pictures to remove, and return file -> sha256."""
    written = FORMATS[source.format].write(source.root, shard, rest, staged)
    if written.num_samples != len(rest.sha256):
        raise IncompleteError(f"{printable(shard)} cannot be written again as it is; nothing was taken down")
    return written.files


def put_in_place(root: Place, own_lease: Lease, write: Callable[[str], Journal]) -> None:
    """Write all that changes, then put it into its place. If writing fails, nothing has changed.

    own_lease: lease of the release. write: takes the name of the folder below `takedown.unfinished/` to write into.
    """
    try:
        journal = write(own_lease.id)
        own_lease.confirm()
    except BaseException:
        remove_tree(root.at(TAKEDOWN_STAGED, own_lease.id))
        if not root.at(TAKEDOWN_STAGED).names():
            remove_tree(root.at(TAKEDOWN_STAGED))
        raise
    root.at(TAKEDOWN_JOURNAL).write(json.dumps(journal.model_dump()).encode())
    finish_takedown(root)


def finish_takedown(root: Place) -> None:
    """Do what the journal of an interrupted takedown says. Without a journal, remove what was written for it."""
    journal = root.at(TAKEDOWN_JOURNAL)
    for name in (RELEASE_LEASE, TAKEDOWN_JOURNAL):
        remove_half_written_of(root.at(name))
    if journal.exists():
        try:
            left = Journal.model_validate(json.loads(journal.read()))
        except (ValueError, RecursionError):  # pydantic's error is a ValueError, too
            raise IncompleteError(f"{journal.path} is damaged; restore the release from a copy") from None
        for name, sha256 in left.replaced.items():
            staged = root.at(TAKEDOWN_STAGED, left.folder, name)
            if staged.exists():
                with staged.open() as stream, root.at(name).create() as target:
                    shutil.copyfileobj(stream, target, BLOCK_BYTES)
                staged.remove()
            elif not root.at(name).exists() or sha256_of(root.at(name)) != sha256:
                raise IncompleteError(
                    f"{printable(name)} is not what the takedown wrote, and its copy below {TAKEDOWN_STAGED}/ is gone; "
                    "restore the release from a copy"
                )
        for name in left.replaced:
            remove_half_written_of(root.at(name))
        for name in left.removed:
            if root.at(name).exists():
                root.at(name).remove()
    remove_tree(root.at(TAKEDOWN_STAGED))
    if journal.exists():
        journal.remove()
