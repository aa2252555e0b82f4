"""`privsieve release apply COPY LIST`: removes from an older copy of a release's shards what the release has removed.
The copy may be the shards alone. It may be interrupted at any moment, as a takedown may (`jobs.releases.journal`)."""

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Annotated

import numpy as np

from ingest.errors import IncompleteError, PrivsieveError
from ingest.formats import Source, open_source
from ingest.formats.released import PRIVATE, RELEASE, Kept
from ingest.formats.tar_samples import key_and_extension
from ingest.formats.tree import RELEASED_WITH_IMAGE, ROOT
from ingest.sample import printable
from ingest.storage.place import Place, place
from ingest.storage.removal import refuse_links
from jobs.console.requests import Option, Url, checked_request
from jobs.releases.entries import Tombstones, given_list, tombstones_of
from jobs.releases.journal import Found, Replaced, remove_safely, write_rest
from jobs.releases.matching import HeldPicture, held_pictures
from jobs.releases.taking_down import MAX_NAMED, RemovalResult
from jobs.runtime.progress import SILENT, Feedback


@checked_request
class ApplyRemovalsRequest:
    copy: Annotated[Url, Option(argument="COPY")]
    """Folder or fsspec URL of a copy of a release's shards."""

    listed: Annotated[Url, Option(argument="LIST")]
    """The removed.parquet of the release as it is now."""

    dry_run: bool = False
    """Say what would be removed; write nothing."""


@dataclass
class _Shard:
    kept: dict[int, str] = field(default_factory=dict)
    """Index of each picture that stays -> its sha256."""

    removed: dict[int, str] = field(default_factory=dict)
    """Index of each picture to remove -> its key."""

    num_samples: int = 0
    """Samples without a picture included."""


def run_apply_removals(request: ApplyRemovalsRequest, feedback: Feedback = SILENT) -> RemovalResult:
    """Remove what the list names. PrivsieveError if the list or the copy does not allow it."""
    root, removed = place(request.copy), tombstones_of(given_list(request.listed), request.listed)
    if not root.is_dir():
        raise PrivsieveError(f"{request.copy} is no folder; give the folder that holds the copied shards")
    if root.at(RELEASE).exists() and root.at(PRIVATE).exists():
        raise PrivsieveError(
            f"{request.copy} is a whole release, whose records name its pictures; this removes them from both: "
            f"privsieve release takedown {request.copy} {request.listed}"
        )
    refuse_links(root)

    def find() -> Found[RemovalResult]:
        source, shards, result = _matched(root, removed, request.copy, feedback)
        return result, partial(_staged, root, source, shards) if shards else None

    return remove_safely(root, find, feedback, is_dry=request.dry_run)


def _matched(
    root: Place, tombstones: Tombstones, url: str, feedback: Feedback
) -> tuple[Source, dict[str, _Shard], RemovalResult]:
    """Return the copy, its shards that hold something to remove, and the result if that is removed. A tombstone names
    the picture in its shard with its key and hash, in any shard if the copy has none of this name."""
    source = open_source(url, None, None)
    named = [
        (
            row["released_sha256"],
            row["shard"] if root.at(row["shard"]).exists() else "",
            _lasting(row["key"], source.format),
        )
        for row in tombstones
    ]
    wanted, hashes = {*named}, {row["released_sha256"] for row in tombstones}
    shards, copies_left, found = dict[str, _Shard](), list[str](), set[tuple[str, str, str]]()
    current, contents = "", _Shard()
    with feedback.meter("search pictures", None) as meter:
        for picture in held_pictures(source, np.empty((0, 4), np.uint64), meter):
            if picture.shard != current:
                current, contents = picture.shard, _Shard()
            contents.num_samples += 1
            if picture.sha256 is None:
                continue
            names = wanted.intersection(_names(picture, picture.sha256, source.format))
            found |= names
            if names:
                contents.removed[picture.index] = picture.key
                shards[picture.shard] = contents
            else:
                contents.kept[picture.index] = picture.sha256
                if picture.sha256 in hashes:
                    copies_left.append(f"{printable(picture.shard)}/{picture.key}")
    removed = [f"{printable(name)}/{key}" for name, shard in shards.items() for key in shard.removed.values()]
    absent = tuple(number for number, name in enumerate(named, 1) if name not in found)
    result = RemovalResult(
        len(named), len(removed), len(shards), tuple(removed[:MAX_NAMED]), absent, tuple(copies_left)
    )
    return source, shards, result


def _lasting(key: str, format_: str) -> str:
    """Return the key of a picture; empty if it is the number of a row of Parquet, which differs between copies."""
    return "" if format_ == "parquet" and re.fullmatch(r"\d{9,}", key) else key


def _names(picture: HeldPicture, sha256: str, format_: str) -> Iterator[tuple[str, str, str]]:
    """Yield the hash, the shard and the key of each tombstone that would name this picture."""
    shard, keys = printable(picture.shard), [picture.key]
    if format_ == "tree":  # a tar that was extracted: its keys have no extension, and those with / lead into folders
        parts = key_and_extension(f"{shard}/{picture.key}")[0].split("/")
        keys += ["/".join(parts[first:]) for first in range(len(parts))]
    yield from ((sha256, named, _lasting(key, format_)) for named in (shard, "") for key in keys)


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
