"""Image folder trees, Places365's `a/airfield/0001.jpg` included.

A folder that holds files is a shard; its files in the order of their names are the samples. Every file that is
not hidden is a sample, sidecars apart, so that a web page named .jpg becomes a row instead of vanishing.
"""

import os
import posixpath
from collections.abc import Iterator

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


def write(root: Place, shard: str, kept: frozenset[int], out: Place) -> list[str]:
    """Copies the kept files, and the sidecars of the same stem, byte for byte. Returns the names written."""
    here, there = (root, out) if shard == ROOT else (root.at(shard), out.at(shard))
    names = [name for index, (name, _) in enumerate(_listed(here)[0]) if index in kept]
    stems = {posixpath.splitext(name)[0] for name in names}
    beside = [s + e for s in sorted(stems) for e in RELEASED_WITH_IMAGE if here.at(s + e).exists()]
    for name in names + beside:
        there.at(name).write(here.at(name).read())
    return [name if shard == ROOT else posixpath.join(shard, name) for name in names + beside]
