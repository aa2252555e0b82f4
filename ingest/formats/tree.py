"""Image folder trees, Places365's `a/airfield/0001.jpg` included.

A folder that holds files is a shard; its files in the order of their names are the samples. Every file that is
not hidden is a sample, sidecars apart, so that a web page named .jpg becomes a row instead of vanishing.
"""

import errno
import hashlib
import os
import posixpath
import stat
from collections.abc import Iterator, Set

from ingest.formats.shard import MAX_IMAGE_BYTES, TOO_MANY_BYTES, folders_below, listed, storage_faults
from ingest.release import Kept, Written, changed
from ingest.sample import Sample, printable
from ingest.slices import Locator, Slice, cut
from ingest.storage import Place, reason_of, stamp_of

SIDECAR_EXTENSIONS = frozenset([".txt", ".json", ".csv", ".md", ".parquet"])
RELEASED_WITH_IMAGE = (".txt", ".json")
"""Sidecars that go with the images of their stem, if all of these are kept; a listing may name what was dropped."""

ROOT = "."

LINK_FAULTS = (errno.ELOOP, errno.ENAMETOOLONG)
"""What a single file can be wrong with, beside missing, forbidden and being a folder; all else is the storage's."""


def shards(root: Place) -> list[str]:
    """Every folder that holds a sample, as paths relative to the root ("." is the root itself), sorted."""
    return sorted(folder or ROOT for folder, names in folders_below(root) if any(map(_is_sample, names)))


def _is_sample(name: str) -> bool:
    return posixpath.splitext(name)[1].lower() not in SIDECAR_EXTENSIONS


def _listed(here: Place) -> tuple[list[tuple[str, int]], list[str]]:
    """(name, size in bytes) of the samples in a folder and the names of its folders, both sorted, none hidden."""
    files, folders = listed(here)
    return [(name, size) for name, size in files if _is_sample(name)], folders


def slices(root: Place, shard: str, category: str | None) -> Iterator[Slice]:
    with storage_faults(shard):
        files = _listed(root if shard == ROOT else root.at(shard))[0]
    yield from cut(shard, (_located(index, name, size) for index, (name, size) in enumerate(files)))


def stamps(root: Place, shard: str) -> str:
    """Names, sizes and times or hashes of the last change of a folder's samples."""
    with storage_faults(shard):
        entries = (root if shard == ROOT else root.at(shard)).entries()
    files = [(posixpath.basename(e["name"]), stamp_of(e)) for e in entries if e["type"] != "directory"]
    return repr(sorted((name, stamp) for name, stamp in files if not name.startswith(".") and _is_sample(name)))


def _located(index: int, name: str, size: int) -> tuple[Locator, int]:
    locator: Locator = {"index": index, "name": name}
    if size <= MAX_IMAGE_BYTES:
        return locator, size
    return locator | {"fault": list(TOO_MANY_BYTES)}, 0


def read(root: Place, piece: Slice, category: str | None) -> Iterator[Sample]:
    here = root if piece.shard == ROOT else root.at(piece.shard)
    for locator in piece.locators:
        encoded, fault = b"", locator.get("fault")
        if fault is None:
            with storage_faults(piece.shard):
                encoded, fault = _content(here, locator["name"])
        yield Sample(
            shard=printable(piece.shard),
            index=locator["index"],
            key=printable(locator["name"]),
            category=None if piece.shard == ROOT else printable(piece.shard),
            encoded=encoded,
            fault=None if fault is None else (fault[0], fault[1]),
        )


def _content(here: Place, name: str) -> tuple[bytes, tuple[str, str] | None]:
    """The file's bytes, or why it has none. OSError and StorageError where the storage fails."""
    where = here.at(name)
    try:
        if where.is_local:
            mode = os.stat(where.path).st_mode  # opening a pipe would wait for a writer
            if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
                return b"", ("not_a_file", "a pipe, socket or device, not a file")
        return where.content(), None
    except (FileNotFoundError, NotADirectoryError) as error:
        if not here.is_dir():
            raise  # the whole folder is gone
        return b"", ("unreadable", reason_of(error))
    except (PermissionError, IsADirectoryError) as error:
        return b"", ("unreadable", reason_of(error))
    except OSError as error:
        if error.errno not in LINK_FAULTS:
            raise
        return b"", ("unreadable", reason_of(error))


def write(root: Place, shard: str, kept: Kept, out: Place) -> Written:
    """Copies the kept files, and the sidecars that tell of kept files only, byte for byte."""
    here, there = (root, out) if shard == ROOT else (root.at(shard), out.at(shard))
    hashes: dict[str, str] = {}
    with storage_faults(shard):
        files = _listed(here)[0]
        kept.check_number(shard, len(files))
        names = {index: name for index, (name, _) in enumerate(files) if index in kept.sha256}
        sidecars = _sidecars(here, {name for name, _ in files}, set(names.values()))
    for index, name in names.items():
        encoded = _present(here, name, shard)
        hashes[name] = hashlib.sha256(encoded).hexdigest()
        kept.check_image(shard, index, name, hashes[name])
        there.at(name).write(encoded)
    for name in sidecars:
        beside = _present(here, name, shard)
        hashes[name] = hashlib.sha256(beside).hexdigest()
        there.at(name).write(beside)
    in_folder = "" if shard == ROOT else shard
    return Written(len(names), {posixpath.join(in_folder, name): sha256 for name, sha256 in hashes.items()})


def _sidecars(here: Place, samples: Set[str], kept: Set[str]) -> list[str]:
    stems = {posixpath.splitext(name)[0] for name in kept} - {posixpath.splitext(name)[0] for name in samples - kept}
    split = [(name, *posixpath.splitext(name)) for name in here.names()]
    found = [name for name, stem, extension in split if stem in stems and extension.lower() in RELEASED_WITH_IMAGE]
    return [name for name in found if here.fs.isfile(here.at(name).path)]


def _present(here: Place, name: str, shard: str) -> bytes:
    """The bytes of a file that could be read when it was scanned, or lies beside one."""
    with storage_faults(shard):
        content, fault = _content(here, name)
    if fault is not None:
        raise changed(shard, f"{printable(name)} cannot be read")
    return content
