"""WebDataset shards: plain tar files as img2dataset and LAION write them.

Consecutive members with the same key (the path up to the first dot of the base name) are one sample. Members are
told apart by an allow-list of extensions and are never decoded by extension nor unpickled; all others are carried
along untouched. Damage in a tar becomes a sample of its own that cannot be read, so that it shows in every count.
"""

import hashlib
import json
import posixpath
from collections.abc import Iterator
from typing import Any

from ingest.release import Kept, Written, changed
from ingest.sample import Sample, printable
from ingest.slices import Locator, Slice, cut
from ingest.storage import NewFile, Place
from ingest.tar import BLOCK, END, Damage, Member, walk

IMAGE_EXTENSIONS = frozenset(
    ["jpg", "jpeg", "png", "webp", "gif", "bmp", "tif", "tiff", "avif", "ppm", "svg", "heic", "jxl", "jp2"]
)
"""Member extensions that hold the image; what it really is, the decoder tells from the content."""

CATEGORY_MEMBERS = ("cls", "json")
DEFAULT_FIELD = "category"
MAX_SIDECAR_BYTES = 2**20

SUFFIX = ".tar"
RECORD = 20 * BLOCK
"""Tars are filled up with zeros to whole records."""


def shards(root: Place) -> list[str]:
    """Every tar below the folder, as paths relative to it, sorted."""
    found = root.fs.find(root.path)
    return sorted(posixpath.relpath(p, root.path) for p in found if p.endswith(SUFFIX))


def slices(root: Place, shard: str, category: str | None) -> Iterator[Slice]:
    with root.at(shard).open() as stream:
        size = stream.seek(0, 2)
        yield from cut(shard, _samples(walk(stream, size), category))


def read(root: Place, piece: Slice, category: str | None) -> Iterator[Sample]:
    with root.at(piece.shard).open() as stream:
        for locator in piece.locators:
            encoded, fault = b"", locator.get("fault")
            if fault is None:
                stream.seek(locator["image"][0])
                encoded = stream.read(locator["image"][1])
            if fault is None and len(encoded) != locator["image"][1]:
                encoded, fault = b"", ("unreadable", "the shard is shorter than when it was listed")
            yield Sample(
                shard=printable(piece.shard),
                index=locator["index"],
                key=printable(locator["key"]),
                category=_category(stream, locator, category),
                encoded=encoded,
                fault=None if fault is None else (fault[0], fault[1]),
            )


def write(root: Place, shard: str, kept: Kept, out: Place) -> Written:
    """The shard with the kept samples only: members byte for byte, order kept."""
    with root.at(shard).open() as stream:
        size = stream.seek(0, 2)
        samples = [locator for locator, _ in _samples(walk(stream, size), None)]
        kept.check_number(shard, len(samples))
        taken = [locator for locator in samples if locator["index"] in kept.sha256]
        with out.at(shard).create() as released:
            for locator in taken:
                sha256 = _copy_sample(stream, locator, released, shard)
                kept.check_image(shard, locator["index"], locator["key"], sha256)
            end = b"\0" * (-released.tell() % BLOCK) + END
            released.write(end + b"\0" * (-(released.tell() + len(end)) % RECORD))
    return Written(len(taken), {shard: released.sha256})


def _copy_sample(stream: Any, locator: Locator, released: NewFile, shard: str) -> str | None:
    """Every member with its headers and padding. Returns the hash of the image, None where there is none."""
    sha256 = None
    image_start, image_bytes = locator.get("image", (0, 0))
    for start, end in locator["span"]:
        if start < image_start <= end:
            _copy(stream, released, start, image_start, shard)
            sha256 = _copy(stream, released, image_start, image_start + image_bytes, shard)
            start = image_start + image_bytes
        _copy(stream, released, start, end, shard)
    return sha256


def _copy(stream: Any, released: NewFile, start: int, end: int, shard: str) -> str:
    """Copies bytes start…end; returns their hash."""
    digest = hashlib.sha256()
    stream.seek(start)
    while start < end:
        block = stream.read(min(end - start, 2**22))
        if not block:
            raise changed(shard, "it became shorter while it was read")
        released.write(block)
        digest.update(block)
        start += len(block)
    return digest.hexdigest()


def _samples(found: Iterator[Member | Damage], category: str | None) -> Iterator[tuple[Locator, int]]:
    index, group, key = 0, list[Member](), ""
    for item in found:
        if isinstance(item, Member) and item.name and _split(item.name)[0] == key and group:
            group.append(item)
            continue
        if group:
            yield _sample(index, key, group, category)
            index, group = index + 1, []
        if isinstance(item, Damage):
            yield _damaged(index, item)
            index += 1
        elif not item.is_folder and (item.is_file or _is_image(item)):
            key, group = _split(item.name)[0], [item]
    if group:
        yield _sample(index, key, group, category)


def _split(name: str) -> tuple[str, str]:
    """Member name -> (key, lower-case extension): everything up to, and after, the first dot of the base name."""
    folder, base = posixpath.split(name)
    stem, _, extension = base.partition(".")
    return posixpath.join(folder, stem), extension.lower()


def _is_image(member: Member) -> bool:
    return _split(member.name)[1].rpartition(".")[2] in IMAGE_EXTENSIONS


def _sample(index: int, key: str, group: list[Member], category: str | None) -> tuple[Locator, int]:
    images = [m for m in group if _is_image(m)]
    locator: Locator = {"index": index, "key": key, "span": [[m.start, m.end] for m in group]}
    for m in group:
        extension = _split(m.name)[1]
        if extension in CATEGORY_MEMBERS and m.is_file and m.size <= MAX_SIDECAR_BYTES:
            locator[extension] = [m.data_start, m.size]
    if len(images) == 1 and images[0].is_file:
        locator["image"] = [images[0].data_start, images[0].size]
        return locator, images[0].size
    if len(images) > 1:
        locator["fault"] = ["several_images", f"{len(images)} members with an image extension, one is expected"]
    elif images:
        locator["fault"] = ["not_a_file", "the image member is a link or a device, not a file"]
    else:
        locator["fault"] = ["no_image", "no member with an image extension (.jpg .png .webp …)"]
    return locator, 0


def _damaged(index: int, damage: Damage) -> tuple[Locator, int]:
    where = f"bytes {damage.start} to {damage.end}"
    if damage.name is not None:
        fault = ["truncated_shard", f"the tar ends inside this sample ({where})"]
        key = _split(damage.name)[0]
    else:
        fault, key = ["corrupt_shard", f"{where} of the tar hold no readable header"], f"@{damage.start}"
    return {"index": index, "key": key, "span": [], "fault": fault}, 0


def _category(stream: Any, locator: Locator, field: str | None) -> str | None:
    """From the JSON member's field, or the .cls member (asked for as "cls", or where no field is named)."""
    if "cls" in locator and field in (None, "cls"):
        stream.seek(locator["cls"][0])
        text = stream.read(locator["cls"][1]).decode("utf-8", "backslashreplace").strip()
        return printable(text) or None
    if "json" not in locator:
        return None
    stream.seek(locator["json"][0])
    try:
        beside = json.loads(stream.read(locator["json"][1]))
    except (ValueError, RecursionError):  # hostile nesting is no JSON either
        return None
    value = beside.get(field or DEFAULT_FIELD) if isinstance(beside, dict) else None
    return printable(str(value)) if isinstance(value, str | int) and str(value) else None
