"""Image folder trees, Places365's `a/airfield/0001.jpg` included.

A folder that holds files is a shard; its files in the order of their names are the samples. Every file that is
not hidden is a sample, except sidecars, so that a web page named .jpg becomes a row instead of vanishing. So does a
link to a folder, which is not followed: a row without a score says that it is there.
"""

import errno
import hashlib
import os
import posixpath
import stat
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from contextlib import suppress
from typing import Any

from ingest.errors import Fault
from ingest.formats import members
from ingest.formats.released import CHECKSUMS, RELEASE, Kept, ReleasedMember, RewriteRecord, Written, changed
from ingest.formats.shard import (
    MAX_IMAGE_BYTES,
    TOO_MANY_BYTES,
    FolderListing,
    folders_below,
    listed,
    storage_faults,
    warn_of_hidden,
)
from ingest.sample import Locator, Sample, Slice, cut, printable
from ingest.storage import streams
from ingest.storage.given_files import NotAFileError, TooLargeError, plain_content
from ingest.storage.place import Place, reason_of, version_mark_of

SIDECAR_EXTENSIONS = frozenset([".txt", ".json", ".csv", ".md", ".parquet"])
RELEASED_WITH_IMAGE = (".txt", ".json")
"""Extensions of sidecars that are released with the images of the same stem, if all of these are kept. The other
sidecars are often lists of the whole folder, which would name dropped images."""

ROOT = "."

LINK_FAULTS = (errno.ELOOP, errno.ENAMETOOLONG)
"""Errors of a single file, in addition to missing, forbidden and being a folder; others are the storage's."""

NOT_A_FILE = Fault("not_a_file", "a pipe, socket or device, not a file")
LINKED_FOLDER = Fault("linked_folder", "a link to a folder, which is not followed; scan the folder itself")


def _folder(root: Place, shard: str) -> tuple[Place, str | None]:
    """Return the folder of a shard, and its only file if the shard is a single picture given as the source."""
    location = root if shard == ROOT else root.at(shard)
    if members.extension_of(shard) in members.IMAGE_EXTENSIONS and not location.is_dir():
        return root.at(posixpath.dirname(shard)), posixpath.basename(shard)
    return location, None


def _listed(root: Place, shard: str) -> tuple[Place, FolderListing]:
    """Return the folder of a shard and the entries that belong to the shard. OSError if it cannot be listed."""
    here, only = _folder(root, shard)
    listing = listed(here)
    if only is None:
        return here, listing
    stem = posixpath.splitext(only)[0]
    files = [(n, size) for n, size in listing.files if n == only or (not _is_sample(n) and n.startswith(f"{stem}."))]
    return here, FolderListing(files, [], [], [])


def category_of(root: Place, shard: str) -> str | None:
    """Return the folder's name; None at the root, and for a picture that is the source."""
    return None if shard == ROOT or _folder(root, shard)[1] else printable(shard)


def shards(root: Place) -> list[str]:
    """Return every folder that holds a sample, as paths relative to the root ("." is the root itself), sorted. Logs a
    line with the number of hidden entries."""
    folders, hidden = list[str](), list[str]()
    for folder, listing in folders_below(root):
        folders += [folder or ROOT] if _samples(listing) else []
        hidden += [posixpath.join(folder, name) for name in listing.hidden]
    warn_of_hidden(hidden)
    return sorted(folders)


def _is_sample(name: str) -> bool:
    return posixpath.splitext(name)[1].lower() not in SIDECAR_EXTENSIONS


def _samples(listing: FolderListing) -> list[tuple[str, int]]:
    """Return (name, size in bytes) of the samples in a folder, sorted; a release's checksums are none."""
    checksums = CHECKSUMS if RELEASE in {name for name, _ in listing.files} else frozenset[str]()
    files = [(name, size) for name, size in listing.files if _is_sample(name) and name not in checksums]
    return sorted(files + [(name, 0) for name in listing.closed])


def slices(root: Place, shard: str, category: str | None, image_names: Sequence[str] = ()) -> Iterator[Slice]:
    with storage_faults(shard):
        files = _samples(_listed(root, shard)[1])
    yield from cut(shard, (_located(index, name, size) for index, (name, size) in enumerate(files)))


def version_mark(root: Place, shard: str) -> str:
    return (root if shard == ROOT else root.at(shard)).version_mark()


def version_marks(root: Place, shard: str) -> str:
    """Join names and version marks of all samples in a folder; a link has the mark of its target."""
    here, only = _folder(root, shard)
    entries = [_followed(entry) for entry in here.entries() if entry["type"] != "directory"]
    if only is not None:
        entries = [entry for entry in entries if posixpath.basename(entry["name"]) == only]
    files = [(posixpath.basename(entry["name"]), version_mark_of(entry)) for entry in entries]
    return repr(sorted((name, mark) for name, mark in files if not name.startswith(".") and _is_sample(name)))


def blocks_sha256(root: Place, shard: str) -> str:
    """Hash a few blocks of the samples in a folder, as if they were one file (`ingest.storage.streams`).

    Empty if the storage gives a hash of each file with its version mark. What cannot be read counts as empty: the
    scan has a row that says so. OSError or StorageError if the storage fails.
    """
    here, listing = _listed(root, shard)
    if not here.is_local and any(here.hashes_content(entry) for entry in here.entries()):
        return ""
    files = [(name, size) for name, size in _samples(listing) if size <= MAX_IMAGE_BYTES]

    def read(number: int, start: int, end: int) -> bytes:
        location = here.at(files[number][0])
        try:
            is_file = not location.is_local or stat.S_ISREG(os.stat(location.path).st_mode)
            return location.read_range(start, end) if is_file else b""
        except OSError as error:
            if not _is_of_the_file(here, location, error):
                raise
            return b""

    return streams.blocks_sha256([size for _, size in files], read)


def _followed(entry: dict[str, Any]) -> dict[str, Any]:
    """Give a link the time of its target: fsspec reports the link's own, but the content is the target's."""
    if not entry.get("islink"):
        return entry
    try:
        return entry | {"mtime": os.stat(entry["name"]).st_mtime}
    except OSError:
        return entry  # the link is broken


def _located(index: int, name: str, size: int) -> tuple[Locator, int]:
    locator: Locator = {"index": index, "name": name}
    if size <= MAX_IMAGE_BYTES:
        return locator, size
    return locator | {"fault": [TOO_MANY_BYTES.reason, TOO_MANY_BYTES.message]}, 0


def read(root: Place, slice_: Slice, category: str | None) -> Iterator[Sample]:
    here, folder_category = _folder(root, slice_.shard)[0], category_of(root, slice_.shard)
    for locator in slice_.locators:
        encoded, fault = b"", Fault(*locator["fault"]) if "fault" in locator else None
        if fault is None:
            with storage_faults(slice_.shard):
                encoded, fault = _content(here, locator["name"])
        key = printable(locator["name"])
        yield Sample(printable(slice_.shard), locator["index"], key, folder_category, encoded, fault)


def names(
    root: Place, shard: str, category: str | None, image_names: Sequence[str] = ()
) -> Iterator[tuple[str, str | None]]:
    folder_category = category_of(root, shard)
    for slice_ in slices(root, shard, category):
        yield from ((printable(locator["name"]), folder_category) for locator in slice_.locators)


def _content(here: Place, name: str) -> tuple[bytes, Fault | None]:
    """Return the file's bytes, or why it has none. OSError and StorageError if the storage fails."""
    location = here.at(name)
    try:
        if not location.is_local:
            return location.content(), None
        if os.path.islink(location.path) and os.path.isdir(location.path):
            return b"", LINKED_FOLDER
        return plain_content(location.path, MAX_IMAGE_BYTES, with_unsized=False), None  # some below /proc never end
    except NotAFileError:
        return b"", NOT_A_FILE
    except TooLargeError:
        return b"", TOO_MANY_BYTES
    except OSError as error:
        if not _is_of_the_file(here, location, error):
            raise
        return b"", Fault("unreadable", reason_of(error))


def _is_of_the_file(here: Place, location: Place, error: OSError) -> bool:
    """Return whether the error concerns one file of the folder, and not the storage."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return here.is_dir()  # else the whole folder is gone
    if isinstance(error, PermissionError | IsADirectoryError) or error.errno in LINK_FAULTS:
        return True
    with suppress(OSError):  # reading a file without storage, as below /proc, may fail without a fault of a disk
        return location.is_local and os.statvfs(location.path).f_blocks == 0
    return False


def captions(root: Place, shard: str, image_names: Sequence[str] = ()) -> Iterator[str | None]:
    """Yield None for each sample: a folder tree has no captions."""
    for slice_ in slices(root, shard, None):
        yield from [None] * len(slice_.locators)


OWN_NAME = "its name is that of a file that the release has of its own"


def write(root: Place, shard: str, kept: Kept, out: Place) -> Written:
    """Copy the kept files, byte for byte without a `Kept.rewrite`, and the sidecars that `Kept.members` allows."""
    folder_name = posixpath.dirname(shard) if _folder(root, shard)[1] else "" if shard == ROOT else shard
    target_folder = out.at(folder_name)
    hashes, left_out, num_masked = dict[str, str](), Counter[str](), 0
    with storage_faults(shard):
        here, listing = _listed(root, shard)
        files = _samples(listing)
        kept.check_number(shard, len(files))
        names = {index: name for index, (name, _) in enumerate(files) if index in kept.sha256}
        reserved = kept.reserved if shard == ROOT else frozenset[str]()
        faults = {index: f"it has {fault}" for index, name in names.items() if (fault := members.name_fault(name))}
        faults |= {index: OWN_NAME for index, name in names.items() if name in reserved}
        sound = {index: name for index, name in names.items() if index not in faults}
    pictures = RewriteRecord()
    for index, name in sound.items():
        with storage_faults(shard):
            encoded, unreadable = _content(here, name)
        if unreadable is not None:  # it could be read when it was scanned
            raise changed(shard, f"{printable(name)} cannot be read")
        kept.check_image(shard, index, name, hashlib.sha256(encoded).hexdigest())
        released = kept.released(index, encoded, pictures)
        if released is not None:
            hashes[name] = hashlib.sha256(released).hexdigest()
            target_folder.at(name).write(released)
    replaced, without_origin = dict[str, list[str | None]](), set[str]()
    for index, name in sound.items():
        replaced.setdefault(posixpath.splitext(name)[0], []).append(kept.replaced_by(index, pictures))
    for name in _sidecars(listing, {name for name, _ in files}, set(hashes)):
        stem = posixpath.splitext(name)[0]
        replaced_by = replaced[stem][0] if len(replaced[stem]) == 1 else "" if any(replaced[stem]) else None
        with storage_faults(posixpath.join(shard, name)):
            copied = None
            if name not in reserved:
                copied = _copied_sidecar(here.at(name), target_folder.at(name), kept, replaced_by)
        if copied is None:
            left_out[members.kind_of(name)] += 1
        else:
            hashes[name], is_masked, lost_origin = copied
            num_masked += is_masked
            without_origin |= {stem} if lost_origin else set()
    pictures.num_without_origin = sum(len([*filter(None, replaced[stem])]) for stem in without_origin)
    num_written = len(sound) - len(pictures.refused)
    written = {posixpath.join(folder_name, name): sha256 for name, sha256 in hashes.items()}
    return Written(num_written, written, faults, dict(left_out), pictures, num_masked)


def _sidecars(listing: FolderListing, samples: Set[str], kept: Set[str]) -> list[str]:
    stems = {posixpath.splitext(name)[0] for name in kept} - {posixpath.splitext(name)[0] for name in samples - kept}
    split = [(name, *posixpath.splitext(name)) for name, _ in listing.files]
    return [name for name, stem, extension in split if stem in stems and extension.lower() in RELEASED_WITH_IMAGE]


def _copied_sidecar(file: Place, copy: Place, kept: Kept, replaced_by: str | None) -> tuple[str, bool, bool] | None:
    """Copy a sidecar and return its hash, whether something in it is masked, and whether it lost what leads to a
    scanned file; None if it is not released. Links are not followed: they may lead anywhere. replaced_by: of `Kept`."""
    if kept.members == "image-only" or (file.is_local and not stat.S_ISREG(os.lstat(file.path).st_mode)):
        return None
    with file.open() as stream:
        head = stream.read(members.MAX_LISTED_BYTES + 1)
        released: ReleasedMember | None = None
        if kept.members == "all":
            if not members.begins_like_picture(file.name, head):
                released = ReleasedMember(head, False, False)
        elif members.is_listed(file.name, len(head)) and members.holds_what_it_says(file.name, head):
            released = kept.member(file.name, head, replaced_by)
        if released is None:
            return None
        with copy.create() as target:
            target.write(released.content)
            while block := stream.read(members.MAX_LISTED_BYTES):
                target.write(block)
    return target.sha256, released.is_masked, released.lost_origin
