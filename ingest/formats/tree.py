"""Image folder trees, Places365's `a/airfield/0001.jpg` included.

A folder that holds files is a shard; its files in the order of their names are the samples. Every file that is
not hidden is a sample, sidecars apart, so that a web page named .jpg becomes a row instead of vanishing. So does a
link to a folder, which is not followed: a row without a score says that it is there.
"""

import errno
import hashlib
import os
import posixpath
import stat
from collections import Counter
from collections.abc import Iterator, Set
from typing import Any

from ingest.fault import Fault
from ingest.formats.members import (
    IMAGE_EXTENSIONS,
    MAX_LISTED_BYTES,
    Members,
    begins_like_picture,
    extension_of,
    holds_what_it_says,
    is_listed,
    kind_of,
    name_fault,
)
from ingest.formats.released import Kept, Written, changed
from ingest.formats.shard import (
    MAX_IMAGE_BYTES,
    TOO_MANY_BYTES,
    Listing,
    folders_below,
    listed,
    storage_faults,
    warn_of_hidden,
)
from ingest.sample import Sample, printable
from ingest.slices import Locator, Slice, cut
from ingest.storage import blocks
from ingest.storage.place import Place, reason_of, version_mark_of

SIDECAR_EXTENSIONS = frozenset([".txt", ".json", ".csv", ".md", ".parquet"])
RELEASED_WITH_IMAGE = (".txt", ".json")
"""Extensions of sidecars that are released with the images of the same stem, if all of these are kept. The other
sidecars are often lists of the whole folder, which would name dropped images."""

ROOT = "."

LINK_FAULTS = (errno.ELOOP, errno.ENAMETOOLONG)
"""What a single file can be wrong with, beside missing, forbidden and being a folder; all else is the storage's."""

NOT_A_FILE = Fault("not_a_file", "a pipe, socket or device, not a file")
LINKED_FOLDER = Fault("linked_folder", "a link to a folder, which is not followed; scan the folder itself")


def _folder(root: Place, shard: str) -> tuple[Place, str | None]:
    """The folder of a shard, and the one file that it is, where it is no folder: a picture given as the source."""
    where = root if shard == ROOT else root.at(shard)
    if extension_of(shard) in IMAGE_EXTENSIONS and not where.is_dir():
        return root.at(posixpath.dirname(shard)), posixpath.basename(shard)
    return where, None


def _listed(root: Place, shard: str) -> tuple[Place, Listing]:
    """The folder of a shard and what of it belongs to the shard. OSError where it cannot be listed."""
    here, only = _folder(root, shard)
    found = listed(here)
    if only is None:
        return here, found
    stem = posixpath.splitext(only)[0]
    beside = [(n, size) for n, size in found.files if n == only or (not _is_sample(n) and n.startswith(f"{stem}."))]
    return here, Listing(beside, [], [], [])


def category_of(root: Place, shard: str) -> str | None:
    """The folder's name; None at the root, and of a picture that is the source."""
    return None if shard == ROOT or _folder(root, shard)[1] else printable(shard)


def shards(root: Place) -> list[str]:
    """Every folder that holds a sample, as paths relative to the root ("." is the root itself), sorted.

    A line in the log says how much is hidden.
    """
    folders, hidden = list[str](), list[str]()
    for folder, found in folders_below(root):
        folders += [folder or ROOT] if _samples(found) else []
        hidden += [posixpath.join(folder, name) for name in found.hidden]
    warn_of_hidden(hidden)
    return sorted(folders)


def _is_sample(name: str) -> bool:
    return posixpath.splitext(name)[1].lower() not in SIDECAR_EXTENSIONS


def _samples(found: Listing) -> list[tuple[str, int]]:
    """(name, size in bytes) of the samples in a folder, sorted."""
    return sorted([(name, size) for name, size in found.files if _is_sample(name)] + [(n, 0) for n in found.closed])


def slices(root: Place, shard: str, category: str | None) -> Iterator[Slice]:
    with storage_faults(shard):
        files = _samples(_listed(root, shard)[1])
    yield from cut(shard, (_located(index, name, size) for index, (name, size) in enumerate(files)))


def version_marks(root: Place, shard: str) -> str:
    """Names and version marks of all samples in a folder, as one text; a link has the mark of its target."""
    with storage_faults(shard):
        here, only = _folder(root, shard)
        entries = here.entries()
    entries = [_followed(entry) for entry in entries if entry["type"] != "directory"]
    if only is not None:
        entries = [entry for entry in entries if posixpath.basename(entry["name"]) == only]
    files = [(posixpath.basename(entry["name"]), version_mark_of(entry)) for entry in entries]
    return repr(sorted((name, mark) for name, mark in files if not name.startswith(".") and _is_sample(name)))


def blocks_sha256(root: Place, shard: str) -> str:
    """Hash of a few blocks of the samples in a folder, as if they were one file (`ingest.storage.blocks`).

    Empty where the storage gives a hash of each file with its version mark. What cannot be read counts as empty: the
    scan has a row that says so. StorageError if the storage fails.
    """
    with storage_faults(shard):
        here, found = _listed(root, shard)
        if not here.is_local and any(here.hashes_content(entry) for entry in here.entries()):
            return ""
        files = [(name, size) for name, size in _samples(found) if size <= MAX_IMAGE_BYTES]

        def read(number: int, start: int, end: int) -> bytes:
            where = here.at(files[number][0])
            try:
                is_file = not where.is_local or stat.S_ISREG(os.stat(where.path).st_mode)
                return where.read_range(start, end) if is_file else b""
            except OSError as error:
                if not _is_of_the_file(here, where, error):
                    raise
                return b""

        return blocks.blocks_sha256([size for _, size in files], read)


def _followed(entry: dict[str, Any]) -> dict[str, Any]:
    """fsspec gives a link its own time, although its content is read from elsewhere."""
    if not entry.get("islink"):
        return entry
    try:
        return entry | {"mtime": os.stat(entry["name"]).st_mtime}
    except OSError:
        return entry  # it leads nowhere


def _located(index: int, name: str, size: int) -> tuple[Locator, int]:
    locator: Locator = {"index": index, "name": name}
    if size <= MAX_IMAGE_BYTES:
        return locator, size
    return locator | {"fault": [TOO_MANY_BYTES.reason, TOO_MANY_BYTES.message]}, 0


def read(root: Place, slice_: Slice, category: str | None) -> Iterator[Sample]:
    here, of = _folder(root, slice_.shard)[0], category_of(root, slice_.shard)
    for locator in slice_.locators:
        encoded, fault = b"", Fault(*locator["fault"]) if "fault" in locator else None
        if fault is None:
            with storage_faults(slice_.shard):
                encoded, fault = _content(here, locator["name"])
        yield Sample(
            shard=printable(slice_.shard),
            index=locator["index"],
            key=printable(locator["name"]),
            category=of,
            encoded=encoded,
            fault=fault,
        )


def names(root: Place, shard: str, category: str | None) -> Iterator[tuple[str, str | None]]:
    of = category_of(root, shard)
    for slice_ in slices(root, shard, category):
        yield from ((printable(locator["name"]), of) for locator in slice_.locators)


def _content(here: Place, name: str) -> tuple[bytes, Fault | None]:
    """The file's bytes, or why it has none. OSError and StorageError where the storage fails."""
    where = here.at(name)
    try:
        return _local_content(where.path) if where.is_local else (where.content(), None)
    except OSError as error:
        if not _is_of_the_file(here, where, error):
            raise
        return b"", Fault("unreadable", reason_of(error))


def _is_of_the_file(here: Place, where: Place, error: OSError) -> bool:
    """Whether one file of the folder cannot be read, or the storage fails."""
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return here.is_dir()  # else the whole folder is gone
    if isinstance(error, PermissionError | IsADirectoryError) or error.errno in LINK_FAULTS:
        return True
    return where.is_local and _is_of_the_system(where.path)


def _local_content(path: str) -> tuple[bytes, Fault | None]:
    """As `_content`. Never waits for a writer, and reads no more than an image may have, whatever the file says."""
    mode = os.stat(path).st_mode  # opening alone can do something to a device
    if stat.S_ISDIR(mode) and os.path.islink(path):
        return b"", LINKED_FOLDER
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        return b"", NOT_A_FILE
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            return b"", NOT_A_FILE
        if found.st_size == 0:  # files below /proc say so too, and some of them never end
            return b"", None
        content = file.read(min(found.st_size, MAX_IMAGE_BYTES) + 1) or b""
        if len(content) > found.st_size:  # it is larger than its stated size
            content += file.read(MAX_IMAGE_BYTES + 1 - len(content)) or b""
        return (content, None) if len(content) <= MAX_IMAGE_BYTES else (b"", TOO_MANY_BYTES)


def _is_of_the_system(path: str) -> bool:
    """Whether a link leads to a file without any storage, as below /proc and /sys; to fail is its own fault."""
    try:
        return os.statvfs(path).f_blocks == 0
    except OSError:
        return False


def captions(root: Place, shard: str) -> Iterator[str | None]:
    """A folder tree has none."""
    for slice_ in slices(root, shard, None):
        yield from [None] * len(slice_.locators)


def write(root: Place, shard: str, kept: Kept, out: Place) -> Written:
    """The kept files byte for byte, and of the sidecars that are of kept files only what `Kept.members` says."""
    there = _folder(out, shard)[0] if _folder(root, shard)[1] else (out if shard == ROOT else out.at(shard))
    hashes, left_out = dict[str, str](), Counter[str]()
    with storage_faults(shard):
        here, found = _listed(root, shard)
        files = _samples(found)
        kept.check_number(shard, len(files))
        names = {index: name for index, (name, _) in enumerate(files) if index in kept.sha256}
        faults = {index: f"it has {fault}" for index, name in names.items() if (fault := name_fault(name))}
        taken = {index: name for index, name in names.items() if index not in faults}
        sidecars = _sidecars(found, {name for name, _ in files}, set(taken.values()))
    for index, name in taken.items():
        encoded = _present(here, name, shard)
        hashes[name] = hashlib.sha256(encoded).hexdigest()
        kept.check_image(shard, index, name, hashes[name])
        there.at(name).write(encoded)
    for name in sidecars:
        with storage_faults(posixpath.join(shard, name)):
            sha256 = _copied_sidecar(here.at(name), there.at(name), kept.members)
        if sha256 is None:
            left_out[kind_of(name)] += 1
        else:
            hashes[name] = sha256
    in_folder = posixpath.dirname(shard) if _folder(root, shard)[1] else "" if shard == ROOT else shard
    written = {posixpath.join(in_folder, name): sha256 for name, sha256 in hashes.items()}
    return Written(len(taken), written, faults, dict(left_out))


def _sidecars(found: Listing, samples: Set[str], kept: Set[str]) -> list[str]:
    stems = {posixpath.splitext(name)[0] for name in kept} - {posixpath.splitext(name)[0] for name in samples - kept}
    split = [(name, *posixpath.splitext(name)) for name, _ in found.files]
    return [name for name, stem, extension in split if stem in stems and extension.lower() in RELEASED_WITH_IMAGE]


def _copied_sidecar(file: Place, copy: Place, members: Members) -> str | None:
    """The hash of a copied sidecar, None where it stays behind. A link is not followed: it may lead anywhere."""
    if members == "image-only" or (file.is_local and not stat.S_ISREG(os.lstat(file.path).st_mode)):
        return None
    with file.open() as stream:
        head = stream.read(MAX_LISTED_BYTES + 1)
        if members == "all":
            goes = not begins_like_picture(file.name, head)
        else:
            goes = is_listed(file.name, len(head)) and holds_what_it_says(file.name, head)
        if not goes:
            return None
        with copy.create() as target:
            target.write(head)
            while block := stream.read(MAX_LISTED_BYTES):
                target.write(block)
    return target.sha256


def _present(here: Place, name: str, shard: str) -> bytes:
    """The bytes of a file that could be read when it was scanned."""
    with storage_faults(shard):
        content, fault = _content(here, name)
    if fault is not None:
        raise changed(shard, f"{printable(name)} cannot be read")
    return content
