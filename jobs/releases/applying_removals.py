"""`privsieve apply-removals COPY LIST`: removes from an older copy of a release's shards what the release has removed.

The copy may be the shards alone. It may be interrupted at any moment, as a takedown may (`jobs.releases.journal`).
"""

import posixpath
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated

import numpy as np

from ingest.errors import IncompleteError, PrivsieveError
from ingest.formats import Source, open_source
from ingest.formats.released import PRIVATE, RELEASE, RELEASE_LEASE, TAKEDOWN_JOURNAL, TAKEDOWN_STAGED, Kept
from ingest.formats.tree import RELEASED_WITH_IMAGE, ROOT
from ingest.images.pdq import MAX_DISTANCE
from ingest.sample import printable
from ingest.storage.place import Place, place
from jobs.console.requests import Option, Url, checked_request
from jobs.releases.entries import Entry, entries_of, looked_for, pdq_names
from jobs.releases.journal import Journal, finish_takedown, put_in_place, write_rest
from jobs.releases.matching import HeldPicture, NearMatch, held_pictures
from jobs.releases.taking_down import PdqDistance
from jobs.runtime.progress import SILENT, Feedback
from scoring.runs.lease import lease


@checked_request
class ApplyRemovalsRequest:
    copy: Annotated[Url, Option(argument="COPY")]
    """Folder or fsspec URL of a copy of a release's shards."""

    listed: Annotated[Url, Option(argument="LIST")]
    """The removed.parquet of the release as it is now, or a text file as for takedown."""

    pdq_distance: PdqDistance = MAX_DISTANCE
    """Number of bits, of 256, in which a picture may differ from a PDQ hash of the list."""

    dry_run: bool = False
    """Say what would be removed; write nothing."""


@dataclass(frozen=True)
class RemovalsResult:
    num_entries: int
    """Lines of the list."""

    num_pictures: int
    """Pictures that were removed, copies too."""

    num_shards: int
    """Shards that held them."""

    absent: tuple[int, ...]
    """Numbers of lines that name no picture of the copy."""

    near: tuple[NearMatch, ...]
    """Pictures that PDQ hashes found."""

    num_not_compared: int
    """Pictures that cannot be decoded, so that no PDQ hash finds them."""


@dataclass
class _Shard:
    """What a shard holds."""

    kept: dict[int, str] = field(default_factory=dict)
    """Index of each picture that stays -> its sha256."""

    removed: dict[int, str] = field(default_factory=dict)
    """Index of each picture to remove -> its key."""

    num_samples: int = 0
    """Samples without a picture included."""


def run_apply_removals(request: ApplyRemovalsRequest, feedback: Feedback = SILENT) -> RemovalsResult:
    """Remove what the list names. PrivsieveError if the list or the copy does not allow it."""
    root = place(request.copy)
    entries = entries_of(request.listed)
    if not root.is_dir():
        raise PrivsieveError(f"{request.copy} is no folder; give the folder that holds the copied shards")
    if root.at(RELEASE).exists() and root.at(PRIVATE).exists():
        raise PrivsieveError(
            f"{request.copy} is a whole release, whose records name its pictures; privsieve takedown removes them from "
            f"both: privsieve takedown {request.copy} {request.listed}"
        )
    if request.dry_run:
        if root.at(TAKEDOWN_JOURNAL).exists() or root.at(TAKEDOWN_STAGED).exists():
            raise PrivsieveError(f"{request.copy}: an apply-removals is unfinished; run it again without --dry-run")
        return _matched(open_source(request.copy, None, None), entries, request, feedback)[1]
    with lease(root.at(RELEASE_LEASE), request.copy, takeover=None) as own_lease:
        finish_takedown(root)
        source = open_source(request.copy, None, None)
        shards, result = _matched(source, entries, request, feedback)
        if shards:
            put_in_place(root, own_lease, lambda folder: _staged(root, folder, source, shards))
    return result


def _matched(
    source: Source, entries: Sequence[Entry], request: ApplyRemovalsRequest, feedback: Feedback
) -> tuple[dict[str, _Shard], RemovalsResult]:
    """Return the shards that hold something to remove, and the result if that is removed."""
    pdq = pdq_names(entries)
    by_name: dict[tuple[str, str], Entry] = {(entry.kind, entry.name): entry for entry in reversed(entries)}
    shards, near, num_not_compared = dict[str, _Shard](), list[NearMatch](), 0
    pictures_of = Counter[tuple[str, str]]()
    current, contents = "", _Shard()
    with feedback.meter("search pictures", None) as meter:
        for picture in held_pictures(source, looked_for(pdq), meter):
            if picture.shard != current:
                current, contents = picture.shard, _Shard()
            contents.num_samples += 1
            if picture.sha256 is None:
                continue
            names = [name for name in _names(picture) if name in by_name]
            if pdq and picture.distances is None:
                num_not_compared += 1
            elif picture.distances is not None:
                for number in np.flatnonzero(picture.distances <= request.pdq_distance).tolist():
                    names.append(("pdq", pdq[number]))
                    shown = f"{printable(picture.shard)}/{picture.key}"
                    near.append(NearMatch(by_name[names[-1]].number, shown, int(picture.distances[number])))
            pictures_of.update(names)
            if names:
                contents.removed[picture.index] = picture.key
                shards[picture.shard] = contents
            else:
                contents.kept[picture.index] = picture.sha256
    for named, num_pictures in pictures_of.items():
        if named[0] == "key" and num_pictures > 1:
            raise PrivsieveError(
                f"line {by_name[named].number} of the list is the key of {num_pictures:,} pictures; write SHARD/KEY, "
                "or the sha256"
            )
    absent = [entry.number for entry in entries if (entry.kind, entry.name) not in pictures_of]
    num_pictures = sum(len(shard.removed) for shard in shards.values())
    return shards, RemovalsResult(len(entries), num_pictures, len(shards), tuple(absent), tuple(near), num_not_compared)


def _names(picture: HeldPicture) -> tuple[tuple[str, str], ...]:
    """Return kind and name of the entries that would name this picture."""
    path = f"{printable(picture.shard)}/{picture.key}"
    of_sha256 = (picture.sha256, picture.key, path)
    return (
        *(("sha256", name) for name in of_sha256 if name is not None),
        *(("key", name) for name in dict.fromkeys((picture.key, path))),
        *([("url", picture.url_sha256)] if picture.url_sha256 is not None else ()),
        *([("domain", picture.domain)] if picture.domain is not None else ()),
    )


def _staged(root: Place, folder: str, source: Source, shards: Mapping[str, _Shard]) -> Journal:
    """Write the shards again, without the pictures to remove, into a folder below `takedown.unfinished/`."""
    replaced, removed = dict[str, str](), list[str]()
    for shard, contents in shards.items():
        if source.format == "tree":
            removed += _files_of(root, source, shard, contents)
            continue
        if contents.num_samples > len(contents.kept) + len(contents.removed):
            raise IncompleteError(
                f"{printable(shard)} holds samples without a picture, so it is no shard of a release; nothing is "
                "removed"
            )
        rest = Kept(contents.kept, contents.num_samples, members="all")
        replaced |= write_rest(source, shard, rest, root.at(TAKEDOWN_STAGED, folder))
    return Journal(folder=folder, replaced=replaced, removed=removed)


def _files_of(root: Place, source: Source, shard: str, contents: _Shard) -> list[str]:
    """Return the files to remove: the pictures, and the texts of a stem that no other picture has."""
    folder = "" if shard == ROOT else shard
    names = {locator["index"]: locator["name"] for slice_ in source.slices(shard) for locator in slice_.locators}
    gone = {names[index] for index in contents.removed}
    stems = {posixpath.splitext(name)[0] for name in gone}
    stems -= {posixpath.splitext(name)[0] for name in names.values() if name not in gone}
    files = set(root.at(folder).names() if folder else root.names())
    texts = {f"{stem}{extension}" for stem in stems for extension in RELEASED_WITH_IMAGE} & files
    return [posixpath.join(folder, name) for name in sorted(gone | texts)]
