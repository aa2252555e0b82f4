"""`privsieve release apply COPY LIST`: removes from an older copy of a release's shards what the release has removed.

The copy may be the shards alone. It may be interrupted at any moment, as a takedown may (`jobs.releases.journal`).
"""

import posixpath
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated

import numpy as np

from ingest.errors import IncompleteError, PrivsieveError
from ingest.formats import Source, open_source
from ingest.formats.released import PRIVATE, RELEASE, Kept
from ingest.formats.tar_samples import key_and_extension
from ingest.formats.tree import RELEASED_WITH_IMAGE, ROOT
from ingest.images.pdq import MAX_DISTANCE
from ingest.sample import printable
from ingest.storage.place import Place, place
from ingest.storage.removal import refuse_links
from jobs.console.requests import Option, Url, checked_request
from jobs.releases.entries import Entry, PdqDistance, entries_of, is_of_rows, looked_for, pdq_names
from jobs.releases.journal import Found, Replaced, remove_safely, write_rest
from jobs.releases.matching import MAX_NAMED, HeldPicture, NearMatch, RemovalResult, held_pictures
from jobs.runtime.progress import SILENT, Feedback


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


@dataclass
class _Shard:
    """What a shard holds."""

    kept: dict[int, str] = field(default_factory=dict)
    """Index of each picture that stays -> its sha256."""

    removed: dict[int, str] = field(default_factory=dict)
    """Index of each picture to remove -> its key."""

    num_samples: int = 0
    """Samples without a picture included."""


def run_apply_removals(request: ApplyRemovalsRequest, feedback: Feedback = SILENT) -> RemovalResult:
    """Remove what the list names. PrivsieveError if the list or the copy does not allow it."""
    root = place(request.copy)
    entries = entries_of(request.listed)
    if not root.is_dir():
        raise PrivsieveError(f"{request.copy} is no folder; give the folder that holds the copied shards")
    if root.at(RELEASE).exists() and root.at(PRIVATE).exists():
        raise PrivsieveError(
            f"{request.copy} is a whole release, whose records name its pictures; this removes them from both: "
            f"privsieve release takedown {request.copy} {request.listed}"
        )
    refuse_links(root)

    def find() -> Found[RemovalResult]:
        source, shards, result = _matched(root, entries, request, feedback)
        return result, partial(_staged, root, source, shards) if shards else None

    return remove_safely(root, repr((request, entries)), RemovalResult, find, is_dry=request.dry_run)


def _matched(
    root: Place, entries: Sequence[Entry], request: ApplyRemovalsRequest, feedback: Feedback
) -> tuple[Source, dict[str, _Shard], RemovalResult]:
    """Return the copy, its shards that hold something to remove, and the result if that is removed."""
    source, pdq = open_source(request.copy, None, None), pdq_names(entries)
    shards_there = {entry.place[0] for entry in entries if entry.place is not None and root.at(entry.place[0]).exists()}
    names_of = [_name_of(entry, shards_there, source.format) for entry in entries]
    by_name = dict(reversed([*zip(names_of, entries, strict=True)]))
    removed_hashes, copies_left = {entry.name for entry in entries if entry.place is not None}, list[str]()
    shards, near, num_not_compared = dict[str, _Shard](), list[NearMatch](), 0
    pictures_of = Counter[tuple[str, ...]]()
    current, contents = "", _Shard()
    with feedback.meter("search pictures", None) as meter:
        for picture in held_pictures(source, looked_for(pdq), meter):
            if picture.shard != current:
                current, contents = picture.shard, _Shard()
            contents.num_samples += 1
            if picture.sha256 is None:
                continue
            names = [name for name in _names(picture, source.format) if name in by_name]
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
                if picture.sha256 in removed_hashes:
                    copies_left.append(f"{printable(picture.shard)}/{picture.key}")
    for named, num_pictures in pictures_of.items():
        if named[0] == "key" and num_pictures > 1:
            raise PrivsieveError(
                f"line {by_name[named].number} of the list is the key of {num_pictures:,} pictures; write SHARD/KEY, "
                "or the sha256"
            )
    removed = [f"{printable(name)}/{key}" for name, shard in shards.items() for key in shard.removed.values()]
    absent = [entry.number for name, entry in zip(names_of, entries, strict=True) if name not in pictures_of]
    counts = (len(entries), len(removed), len(shards), tuple(removed[:MAX_NAMED]), tuple(absent), tuple(near))
    return source, shards, RemovalResult(*counts, num_not_compared, tuple(copies_left), is_of_rows(entries))


def _name_of(entry: Entry, shards_there: Collection[str], format_: str) -> tuple[str, ...]:
    """Return the one of `_names` by which an entry names a picture. A row of `removed.parquet` names that in its shard
    with its key and hash, in any shard if the copy has none of this name. shards_there: those that the copy has."""
    if entry.place is None:
        return entry.kind, entry.name
    shard, key = entry.place
    return "row", entry.name, shard if shard in shards_there else "", _lasting(key, format_)


def _lasting(key: str, format_: str) -> str:
    """Return the key of a picture; empty if it is the number of a row of Parquet, which differs between copies."""
    return "" if format_ == "parquet" and re.fullmatch(r"\d{9,}", key) else key


def _names(picture: HeldPicture, format_: str) -> Iterator[tuple[str, ...]]:
    """Yield the names of the entries that would name this picture: kind and name, or what `_name_of` says of a row."""
    shard = printable(picture.shard)
    path = f"{shard}/{picture.key}"
    for name in (picture.sha256, picture.key, path):
        if name is not None:
            yield "sha256", name
    keys = [picture.key]
    if format_ == "tree":  # a tar that was extracted: its keys have no extension, and those with / lead into folders
        parts = key_and_extension(path)[0].split("/")
        keys += ["/".join(parts[first:]) for first in range(len(parts))]
    yield from (("key", name) for name in dict.fromkeys((*keys, path)))
    if picture.url_sha256 is not None:
        yield "url", picture.url_sha256
    if picture.domain is not None:
        yield "domain", picture.domain
    if picture.sha256 is not None:
        yield from (("row", picture.sha256, named, _lasting(key, format_)) for named in (shard, "") for key in keys)


def _staged(root: Place, source: Source, shards: Mapping[str, _Shard], staged: Place) -> Replaced:
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
        replaced |= write_rest(source, shard, rest, staged)
    return replaced, removed


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
