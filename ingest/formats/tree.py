"""Image folder trees, Places365's `a/airfield/0001.jpg` included.

A folder that holds files is a shard; its files in the order of their names are the samples. Every file that is
not hidden is a sample, sidecars apart, so that a web page named .jpg becomes a row instead of vanishing.
"""

import hashlib
import os
import posixpath
from collections.abc import Iterable, Iterator

from ingest.release import Kept, Written, changed
from ingest.sample import Sample, printable
from ingest.slices import Locator, Slice, cut
from ingest.storage import Place, reason_of

SIDECAR_EXTENSIONS = frozenset([".txt", ".json", ".csv", ".md", ".parquet"])
RELEASED_WITH_IMAGE = (".txt", ".json")
"""Sidecars of the same stem that go with a kept image; listings of the whole folder may name what was dropped."""

ROOT = "."


def shards(root: Place) -> list[str]:
    """Every folder that holds a sample, as paths relative to the root ("." is the root itself), sorted."""
    return sorted(_folders(root, ROOT, frozenset()))


def _folders(root: Place, folder: str, above: frozenset[str]) -> Iterator[str]:
    here = root if folder == ROOT else root.at(folder)
    real = os.path.realpath(here.path) if here.is_local else here.path
    if real in above:
        return  # a link back to a folder that it lies in
    files, folders = _listed(here)
    if files:
        yield folder
    for name in folders:
        yield from _folders(root, name if folder == ROOT else posixpath.join(folder, name), above | {real})


def _listed(here: Place) -> tuple[list[tuple[str, int]], list[str]]:
    """(name, size in bytes) of the samples in a folder and the names of its folders, both sorted, none hidden."""
    files, folders = list[tuple[str, int]](), list[str]()
    for entry in here.fs.ls(here.path, detail=True):
        name = posixpath.basename(entry["name"].rstrip("/"))
        if name.startswith("."):
            continue
        if entry["type"] == "directory" or (here.is_local and os.path.isdir(entry["name"])):
            folders.append(name)
        elif posixpath.splitext(name)[1].lower() not in SIDECAR_EXTENSIONS:
            files.append((name, int(entry.get("size") or 0)))
    return sorted(files), sorted(folders)


def slices(root: Place, shard: str, category: str | None) -> Iterator[Slice]:
    here = root if shard == ROOT else root.at(shard)
    files = _listed(here)[0]
    numbered = ((_locator(index, name), size) for index, (name, size) in enumerate(files))
    yield from cut(shard, numbered)


def _locator(index: int, name: str) -> Locator:
    return {"index": index, "name": name}


def read(root: Place, piece: Slice, category: str | None) -> Iterator[Sample]:
    here = root if piece.shard == ROOT else root.at(piece.shard)
    for locator in piece.locators:
        encoded, fault = b"", None
        try:
            encoded = here.fs.cat_file(here.at(locator["name"]).path)
        except (OSError, ValueError) as error:
            fault = ("unreadable", reason_of(error) if isinstance(error, OSError) else type(error).__name__)
        yield Sample(
            shard=printable(piece.shard),
            index=locator["index"],
            key=printable(locator["name"]),
            category=None if piece.shard == ROOT else printable(piece.shard),
            encoded=encoded,
            fault=fault,
        )


def write(root: Place, shard: str, kept: Kept, out: Place) -> Written:
    """Copies the kept files, and the sidecars of the same stem, byte for byte."""
    here, there = (root, out) if shard == ROOT else (root.at(shard), out.at(shard))
    listed = _listed(here)[0]
    kept.check_number(shard, len(listed))
    names = {index: name for index, (name, _) in enumerate(listed) if index in kept.sha256}
    hashes: dict[str, str] = {}
    for index, name in names.items():
        hashes[name] = _copy(here.at(name), there.at(name), shard, index, kept)
    for name in _sidecars(here, names.values()):
        hashes[name] = _copy(here.at(name), there.at(name), shard)
    in_folder = "" if shard == ROOT else shard
    return Written(len(names), {posixpath.join(in_folder, name): sha256 for name, sha256 in hashes.items()})


def _sidecars(here: Place, names: Iterable[str]) -> list[str]:
    stems = {posixpath.splitext(name)[0] for name in names}
    split = [(name, *posixpath.splitext(name)) for name in here.names()]
    found = [name for name, stem, extension in split if stem in stems and extension.lower() in RELEASED_WITH_IMAGE]
    return [name for name in found if here.fs.isfile(here.at(name).path)]


def _copy(source: Place, target: Place, shard: str, index: int | None = None, kept: Kept | None = None) -> str:
    """Copies a file, checked first if it is a sample's image; returns its hash."""
    try:
        content = source.fs.cat_file(source.path)
    except (OSError, ValueError):
        raise changed(shard, f"{printable(source.name)} cannot be read") from None
    sha256 = hashlib.sha256(content).hexdigest()
    if index is not None and kept is not None:
        kept.check_image(shard, index, source.name, sha256)
    target.write(content)
    return sha256
