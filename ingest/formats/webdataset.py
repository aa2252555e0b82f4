"""WebDataset shards: tar files as img2dataset and LAION write them, plain or compressed as a whole (gzip, Zstandard).

Consecutive members with the same key (the path up to the first dot of the base name) are one sample. Members are
told apart by an allow-list of extensions and are never decoded by extension nor unpickled; all others are carried
along untouched. Damage in a tar becomes a sample of its own that cannot be read, so that it shows in every count.
"""

import hashlib
import json
import posixpath
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any, BinaryIO, cast

import pyarrow as pa

from ingest.compressed import Decompressed, codec_of
from ingest.formats.shard import MAX_IMAGE_BYTES, TOO_MANY_BYTES, files_below, opened
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
MAX_LOOKED_AT = 100
"""Samples in which `json_fields` looks for fields."""

SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.zst", ".tar.zstd")
"""How shards are found; whether one is compressed, and how, is told from its content."""

RECORD = 20 * BLOCK
"""Tars are filled up with zeros to whole records."""


def shards(root: Place) -> list[str]:
    """Every tar below the folder, as paths relative to it, sorted."""
    return [path for path in files_below(root) if path.lower().endswith(SUFFIXES)]


@contextmanager
def content(root: Place, shard: str) -> Iterator[BinaryIO]:
    """The tar, decompressed where it is compressed, as a seekable stream."""
    with opened(root, shard) as stream:
        codec = codec_of(stream.read(4))
        stream.seek(0)
        yield cast(BinaryIO, Decompressed(stream, codec)) if codec else stream


def members(stream: BinaryIO) -> Iterator[Member | Damage]:
    """What the tar holds; what cannot be decompressed is damage after its last byte."""
    size = stream.seek(0, 2)
    yield from walk(stream, size, stream.fault if isinstance(stream, Decompressed) else None)


def slices(root: Place, shard: str, category: str | None) -> Iterator[Slice]:
    with content(root, shard) as stream:
        yield from cut(shard, _samples(members(stream), category))


def read(root: Place, piece: Slice, category: str | None) -> Iterator[Sample]:
    with content(root, piece.shard) as stream:
        for locator in piece.locators:
            parts = _parts(stream, locator, category)
            encoded, fault = parts.get("image", b""), locator.get("fault")
            if fault is None and len(encoded) != locator["image"][1]:
                encoded, fault = b"", ("unreadable", "the shard is shorter than when it was listed")
            yield Sample(
                shard=printable(piece.shard),
                index=locator["index"],
                key=printable(locator["key"]),
                category=_category(parts, category),
                encoded=encoded,
                fault=None if fault is None else (fault[0], fault[1]),
            )


def write(root: Place, shard: str, kept: Kept, out: Place) -> Written:
    """The shard with the kept samples only: members byte for byte, order kept, compressed again if it was."""
    with opened(root, shard) as stream:
        codec = codec_of(stream.read(4))
    with content(root, shard) as stream:
        samples = [locator for locator, _ in _samples(members(stream), None)]
        kept.check_number(shard, len(samples))
        taken = [locator for locator in samples if locator["index"] in kept.sha256]
        num_bytes = sum(end - start for locator in taken for start, end in locator["span"])
        with out.at(shard).create() as released, _compressing(released, codec) as target:
            for locator in taken:
                sha256 = _copy_sample(stream, locator, target, shard)
                kept.check_image(shard, locator["index"], locator["key"], sha256)
            end = b"\0" * (-num_bytes % BLOCK) + END
            target.write(end + b"\0" * (-(num_bytes + len(end)) % RECORD))
    return Written(len(taken), {shard: released.sha256})


@contextmanager
def _compressing(released: NewFile, codec: str | None) -> Iterator[Any]:
    """The file itself, or a stream that compresses into it."""
    if codec is None:
        yield released
        return
    with pa.CompressedOutputStream(pa.PythonFile(released, "w"), codec) as target:
        yield target


def _copy_sample(stream: BinaryIO, locator: Locator, target: Any, shard: str) -> str | None:
    """Every member with its headers and padding. Returns the hash of the image, None where there is none."""
    sha256 = None
    image_start, image_bytes = locator.get("image", (0, 0))
    for start, end in locator["span"]:
        if start < image_start <= end:
            _copy(stream, target, start, image_start, shard)
            sha256 = _copy(stream, target, image_start, image_start + image_bytes, shard)
            start = image_start + image_bytes
        _copy(stream, target, start, end, shard)
    return sha256


def _copy(stream: BinaryIO, target: Any, start: int, end: int, shard: str) -> str:
    """Copies bytes start…end; returns their hash."""
    digest = hashlib.sha256()
    stream.seek(start)
    while start < end:
        block = stream.read(min(end - start, 2**22))
        if not block:
            raise changed(shard, "it became shorter while it was read")
        target.write(block)
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
        if extension in CATEGORY_MEMBERS and m.is_file and not m.is_sparse and m.size <= MAX_SIDECAR_BYTES:
            locator[extension] = [m.data_start, m.size]
    if len(images) == 1 and images[0].size > MAX_IMAGE_BYTES:
        locator["fault"] = list(TOO_MANY_BYTES)
    elif len(images) == 1 and images[0].is_file and not images[0].is_sparse:
        locator["image"] = [images[0].data_start, images[0].size]
        return locator, images[0].size
    elif len(images) > 1:
        locator["fault"] = ["several_images", f"{len(images)} members with an image extension, one is expected"]
    elif images:
        locator["fault"] = ["not_a_file", "the image member is a link, a device or a sparse file, not a plain file"]
    else:
        locator["fault"] = ["no_image", "no member with an image extension (.jpg .png .webp …)"]
    return locator, 0


def _damaged(index: int, damage: Damage) -> tuple[Locator, int]:
    where = f"bytes {damage.start} to {damage.end}"
    if damage.name is not None:
        fault = ["truncated_shard", f"the tar ends inside this sample ({where})"]
        key = _split(damage.name)[0]
    elif damage.cause is not None:
        fault = ["corrupt_shard", f"the tar cannot be decompressed after byte {damage.start}: {damage.cause}"]
        key = f"@{damage.start}"
    elif damage.start == damage.end:
        fault = ["truncated_shard", f"the tar ends at byte {damage.start} without an end marker: the rest is lost"]
        key = f"@{damage.start}"
    else:
        fault, key = ["corrupt_shard", f"{where} of the tar hold no readable header"], f"@{damage.start}"
    return {"index": index, "key": key, "span": [], "fault": fault}, 0


def json_fields(root: Place, shard: str) -> list[str]:
    """Names of the fields beside the first of the shard's first samples that has any; none where none has."""
    with content(root, shard) as stream:
        found = [locator for locator, _ in islice(_samples(members(stream), None), MAX_LOOKED_AT)]
        for start, num_bytes in (locator["json"] for locator in found if "json" in locator):
            stream.seek(start)
            beside = _parsed(stream.read(num_bytes))
            if beside:
                return [printable(name) for name in beside]
    return []


def _parts(stream: BinaryIO, locator: Locator, field: str | None) -> dict[str, bytes]:
    """The image, and the member that gives the category, read in the order in which they lie."""
    label = "cls" if "cls" in locator and field in (None, "cls") else "json"
    places = sorted((locator[name], name) for name in ("image", label) if name in locator)
    parts = dict[str, bytes]()
    for (start, num_bytes), name in places:
        stream.seek(start)
        parts[name] = stream.read(num_bytes)
    return parts


def _category(parts: dict[str, bytes], field: str | None) -> str | None:
    """From the JSON member's field, or the .cls member (asked for as "cls", or where no field is named)."""
    if "cls" in parts:
        text = parts["cls"].decode("utf-8", "backslashreplace").strip()
        return printable(text) or None
    if "json" not in parts:
        return None
    value = _parsed(parts["json"]).get(field or DEFAULT_FIELD)
    return printable(str(value)) if isinstance(value, str | int) and str(value) else None


def _parsed(member: bytes) -> dict[str, Any]:
    """The fields of a JSON member, none where it holds anything else."""
    try:
        beside = json.loads(member)
    except (ValueError, RecursionError):  # hostile nesting is no JSON either
        return {}
    return beside if isinstance(beside, dict) else {}
