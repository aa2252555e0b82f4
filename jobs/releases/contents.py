"""Which files in the folder of a release are of privsieve, finished or not, and which are somebody's own."""

import posixpath
import re
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress

from ingest.errors import IncompleteError, StorageError, number_of
from ingest.formats.released import (
    CARD,
    CHANGES,
    CROISSANT,
    DATASHEET,
    DECISIONS,
    DONE,
    MADE_FROM,
    REDACTIONS,
    RELEASE,
    RELEASE_LEASE,
    REMOVED,
    SHA256SUMS,
    SIGNATURE,
    TAKEDOWN_JOURNAL,
    TAKEDOWN_STAGED,
    UNFINISHED,
    Written,
)
from ingest.formats.shard import folders_below
from ingest.sample import printable
from ingest.storage.place import PART, Place, unfinished_stem
from ingest.storage.removal import remove_tree
from jobs.releases.record import facts_of, release_record
from jobs.releases.url_list import FOLDER
from scoring.runs.lease import Lease

_OWN = frozenset(
    [RELEASE, DECISIONS, REDACTIONS, REMOVED, CHANGES, MADE_FROM, SHA256SUMS, SIGNATURE, RELEASE_LEASE],
)
_WHILE_AT_WORK = frozenset([UNFINISHED, TAKEDOWN_JOURNAL])
_DOCUMENTS = frozenset([CARD, CROISSANT, DATASHEET])
_FOLDERS_AT_WORK = (f"{DONE}/", f"{TAKEDOWN_STAGED}/")
_OF_LIST = re.compile(rf"{FOLDER}/\d{{5,}}\.parquet")
_HALF_WRITTEN = re.compile(rf"\.[0-9a-f]{{8}}{re.escape(PART)}$")


def unnamed(there: Iterable[str], named: Collection[str]) -> list[str]:
    """Return the files in the folder of a finished release that are not of it, sorted.

    named: the shards and documents, as `release.json` names them.
    """
    return sorted(name for name in there if name not in named and name not in _OWN)


def refuse_others(out: Place, url: str, source: Place) -> None:
    """Raise StorageError if the folder of a release, finished or not, holds a file that no filter wrote: to replace the
    release would delete it.

    source: of the filter that replaces it. A filter that was killed has not recorded all that it wrote, but its files
    have the names of those in the source, unless they were removed there since.
    """
    begun, named = release_record(out.at(UNFINISHED)), set[str](_WHILE_AT_WORK)
    if out.at(RELEASE).exists():
        facts = facts_of(out.at(RELEASE).read(), url)
        named |= {*facts["sha256"], *(facts.get("documents") or {})}
    if begun is not None:
        named |= {*_recorded(out), *_DOCUMENTS}
    whole_names = {_HALF_WRITTEN.sub("", name): name for name in _everything(out)}
    for name in unnamed(whole_names, named):
        of_list = begun is not None and begun.urls is not None and _OF_LIST.fullmatch(name)
        of_shard = begun is not None and not posixpath.basename(name).startswith(".") and _is_in(source, name)
        if not (of_list or of_shard or name.startswith(_FOLDERS_AT_WORK)):
            of = "is not of the release" if begun is None else "may not be of the unfinished release"
            raise StorageError(
                f"{url} holds {printable(whole_names[name])}, which {of}, and --overwrite would delete it; move it "
                "elsewhere, or give a new folder"
            )


def _is_in(source: Place, name: str) -> bool:
    """Return whether a folder holds a file of this name, or one whose unfinished files begin so."""
    folder, stem = source.at(posixpath.dirname(name)), posixpath.basename(name)
    return source.at(name).exists() or (
        folder.is_dir() and any(len(other) > len(stem) and unfinished_stem(other) == stem for other in folder.names())
    )


def removed_release(out: Place) -> bool:
    """Remove what an earlier filter left in the folder. Return whether that was a finished release."""
    was_finished = out.at(RELEASE).exists()
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
        left = "; the earlier release is removed" if is_replaced else ""
        if isinstance(error, IncompleteError) and not own_lease.is_lost:
            with suppress(StorageError, OSError):  # the error itself says more than a storage that cannot be listed
                left += _unfinished_in_words(out, url)
        error.args = (f"{error}{left}",)
        raise


def _unfinished_in_words(out: Place, url: str) -> str:
    if not out.at(UNFINISHED).exists():
        return ""
    own = unnamed(_everything(out), _WHILE_AT_WORK | _DOCUMENTS)
    num_files = sum(not name.startswith(_FOLDERS_AT_WORK) for name in own)
    return (
        f"; {url} holds {number_of(num_files, 'file')} of an unfinished release: continue with --resume, or delete the "
        "folder"
    )


def _everything(out: Place) -> Iterator[str]:
    """Yield every file below the folder; of what is hidden, a link or too deep, the folder alone."""
    for folder, listing in folders_below(out):
        for name in (*(name for name, _ in listing.files), *listing.closed, *listing.hidden):
            yield posixpath.join(folder, name)


def _recorded(out: Place) -> Iterator[str]:
    """Yield the files of the shards that an interrupted filter has finished."""
    folder = out.at(DONE)
    for name in folder.names() if folder.is_dir() else ():
        if name.endswith(".json"):
            try:
                yield from Written.from_json(folder.at(name).read()).files
            except ValueError:  # damaged
                continue
