"""WebDataset shards: tar files as img2dataset and LAION write them, plain or compressed as a whole (gzip, Zstandard).

Consecutive members with the same key (the path up to the first dot of the base name) are one sample. Its image is
the member whose extension or first bytes are an image's; no member is decoded by extension or unpickled.
Damage in a tar becomes a sample of its own that cannot be read, so that it shows in every count. A release has new
headers, and of the members next to the image only those that `ingest.formats.members` allows.
"""

import hashlib
import json
import posixpath
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any, BinaryIO, cast

import pyarrow as pa

from ingest.domains import domain_of
from ingest.fault import CORRUPT_SHARD, TRUNCATED_SHARD, Fault
from ingest.formats.compressed import Decompressed, codec_of
from ingest.formats.members import (
    IMAGE_EXTENSIONS,
    MAX_LISTED_BYTES,
    Names,
    begins_like_picture,
    extension_of,
    holds_what_it_says,
    is_listed,
    kind_of,
    name_fault,
)
from ingest.formats.released import Kept, Written, changed
from ingest.formats.shard import MAX_IMAGE_BYTES, TOO_MANY_BYTES, files_below, opened
from ingest.formats.tar import BLOCK, END, MAX_NAME_BYTES, Damage, Member, header, walk
from ingest.images.magic import HEAD_BYTES
from ingest.sample import Sample, caption_of, printable, url_sha256_of
from ingest.slices import Locator, Slice, cut
from ingest.storage.place import NewFile, Place

MAX_MEMBERS = 1000
"""Limit of one sample; a key that more members share is one row that cannot be read."""

USUAL_KEY = 255
"""Characters of a key above this count as bytes of the slice that holds it."""

READ_MEMBERS = ("cls", "json", "txt")
"""Members next to the image that are read: category, fields and caption."""
CAPTION_FIELD = "caption"
URL_FIELDS = ("url", "URL")
DEFAULT_FIELD = "category"
MAX_PROBED_SAMPLES = 100
"""Number of samples of a shard that `looked_at` reads."""

SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.zst", ".tar.zstd")
"""Suffixes of shards. Compression is recognised by content."""

TAR_RECORD_BYTES = 20 * BLOCK
"""Size of a record: tars are padded with zeros to whole records."""


def shards(root: Place) -> list[str]:
    """Return every tar below the folder, as paths relative to it, sorted."""
    return [path for path in files_below(root) if path.lower().endswith(SUFFIXES)]


@contextmanager
def content(root: Place, shard: str) -> Iterator[BinaryIO]:
    """Open the tar, decompressed if needed, as a seekable stream."""
    with opened(root, shard) as stream:
        codec = codec_of(stream.read(4))
        stream.seek(0)
        yield cast(BinaryIO, Decompressed(stream, codec)) if codec else stream


@dataclass(frozen=True)
class _Part:
    """One member of a sample."""

    member: Member

    is_image: bool
    """Whether its extension or its first bytes are an image's. It may still be a link."""

    @property
    def is_plain(self) -> bool:
        return self.member.is_file and not self.member.is_sparse

    def fault(self) -> str | None:
        """Return why the member may not be in a release, or None."""
        if self.member.is_folder:
            return "a member is a folder"
        if not self.is_plain:
            return "a member is a link, a device or a sparse file"
        if self.member.has_set_id:
            return "a member is a program that runs as another user (set-uid or set-gid)"
        fault = name_fault(self.member.name)
        return f"a member has {fault}" if fault else None


@dataclass(frozen=True)
class _Group:
    """The members of one sample, in order; only the first ones of a key that too many share."""

    key: str
    parts: list[_Part]

    @cached_property
    def images(self) -> list[_Part]:
        return [part for part in self.parts if part.is_image]

    @property
    def image(self) -> Member | None:
        """Member of the image, or None if the sample has none that can be read."""
        if len(self.images) != 1 or self.fault() is not None:
            return None
        return self.images[0].member

    def fault(self) -> Fault | None:
        """Return why the sample has no image to decode, as in `Sample`."""
        if any(part.member.is_name_shortened for part in self.parts):
            return Fault("name_too_long", f"a member's name has more than {MAX_NAME_BYTES} bytes")
        if len(self.parts) > MAX_MEMBERS:
            return Fault("too_many_members", f"more than {MAX_MEMBERS} members share this key")
        if not self.images:
            return Fault("no_image", "no member is an image, by its extension (.jpg .png .webp …) or how it begins")
        if len(self.images) > 1:
            return Fault("several_images", f"{len(self.images)} members are images, one is expected")
        if self.images[0].member.size > MAX_IMAGE_BYTES:
            return TOO_MANY_BYTES
        if not self.images[0].is_plain:
            return Fault("not_a_file", "the image member is a link, a device or a sparse file, not a plain file")
        return None


def _found(stream: BinaryIO) -> Iterator[_Part | Damage]:
    """Yield the content of the tar; a part that cannot be decompressed is damage after its last byte."""
    size = stream.seek(0, 2)
    for item in walk(stream, size, stream.fault if isinstance(stream, Decompressed) else None):
        yield item if isinstance(item, Damage) else _Part(item, _is_image(stream, item))


def _is_image(stream: BinaryIO, member: Member) -> bool:
    """Return whether a member is an image. An image's extension is enough, whatever it holds; other members are judged
    by their first bytes, which are read only here."""
    if extension_of(member.name) in IMAGE_EXTENSIONS:
        return True
    if not member.is_file or member.is_sparse:
        return False
    stream.seek(member.data_start)
    return begins_like_picture(member.name, stream.read(min(member.size, HEAD_BYTES)))


def _groups(items: Iterator[_Part | Damage]) -> Iterator[_Group | Damage]:
    """Yield the samples in order. Folders are not samples, nor are links and devices whose key no file has."""
    group = _Group("", [])
    for item in items:
        if isinstance(item, _Part) and group.parts and item.member.name and _split(item.member.name)[0] == group.key:
            if len(group.parts) <= MAX_MEMBERS:
                group.parts.append(item)
            continue
        yield from _samples_of(group)
        group = _Group("", [])
        if isinstance(item, Damage):
            yield item
        elif not item.member.is_folder:
            group = _Group(_split(item.member.name)[0], [item])
    yield from _samples_of(group)


def _samples_of(group: _Group) -> Iterator[_Group]:
    if any(part.member.is_file or part.is_image or part.member.is_name_shortened for part in group.parts):
        yield group


def slices(root: Place, shard: str, category: str | None) -> Iterator[Slice]:
    with content(root, shard) as stream:
        yield from cut(shard, (_located(index, item) for index, item in enumerate(_groups(_found(stream)))))


def read(root: Place, slice_: Slice, category: str | None) -> Iterator[Sample]:
    with content(root, slice_.shard) as stream:
        for locator in slice_.locators:
            parts = _parts(stream, locator, category)
            encoded, fields = parts.get("image", b""), _parsed(parts.get("json", b""))
            fault = Fault(*locator["fault"]) if "fault" in locator else None
            if fault is None and len(encoded) != locator["image"][1]:
                encoded, fault = b"", Fault("unreadable", "the shard is shorter than when it was listed")
            url = _url(fields)
            yield Sample(
                shard=printable(slice_.shard),
                index=locator["index"],
                key=printable(locator["key"]),
                category=_category(parts, fields, category),
                encoded=encoded,
                fault=fault,
                caption=_caption(parts, fields),
                url_sha256=None if url is None else url_sha256_of(url),
                domain=None if url is None else domain_of(url),
            )


def names(root: Place, shard: str, category: str | None) -> Iterator[tuple[str, str | None]]:
    with content(root, shard) as stream:
        for slice_ in slices(root, shard, category):
            for locator in slice_.locators:
                parts = _parts(stream, {name: span for name, span in locator.items() if name in READ_MEMBERS}, category)
                yield printable(locator["key"]), _category(parts, _parsed(parts.get("json", b"")), category)


def captions(root: Place, shard: str) -> Iterator[str | None]:
    with content(root, shard) as stream:
        for slice_ in slices(root, shard, None):
            for locator in slice_.locators:
                members = {name: span for name, span in locator.items() if name in ("json", "txt")}
                parts = _parts(stream, members, None)
                yield _caption(parts, _parsed(parts.get("json", b"")))


def write(root: Place, shard: str, kept: Kept, out: Place) -> Written:
    """Write the kept samples in order, byte for byte; the shard is compressed again if it was."""
    with opened(root, shard) as stream:
        codec = codec_of(stream.read(4))
    with content(root, shard) as stream:
        num_found, taken = 0, dict[int, _Group | Damage]()
        for item in _groups(_found(stream)):
            if num_found in kept.sha256:
                taken[num_found] = item
            num_found += 1
        kept.check_number(shard, num_found)
        with out.at(shard).create() as released, _compressing(released, codec) as target:
            release = _Release(stream, shard, kept, target)
            for index, item in taken.items():
                release.add(index, item)
            release.end()
    num_written = len(taken) - len(release.dropped)
    return Written(num_written, {shard: released.sha256}, release.dropped, dict(release.left_out))


@contextmanager
def _compressing(released: NewFile, codec: str | None) -> Iterator[Any]:
    """Open the file itself, or a stream that compresses into it."""
    if codec is None:
        yield released
        return
    with pa.CompressedOutputStream(pa.PythonFile(released, "w"), codec) as target:
        yield target


class _Release:
    """The tar of a release while it is written: plain files under safe names, with new headers."""

    def __init__(self, stream: BinaryIO, shard: str, kept: Kept, target: Any):
        self.dropped, self.left_out = dict[int, str](), Counter[str]()
        self._stream, self._shard, self._kept, self._target = stream, shard, kept, target
        self._names, self._num_bytes = Names(), 0

    def add(self, index: int, item: _Group | Damage) -> None:
        """Add a sample, or note why it is dropped. IncompleteError if an image is not the one that was scanned."""
        group = _Group(_damaged(index, item)["key"], []) if isinstance(item, Damage) else item
        fault = self._fault(group)
        if fault is not None:
            self.dropped[index] = fault
            return
        image = group.image
        if image is None:
            self._kept.check_image(self._shard, index, group.key, None)
        for member in (part.member for part in group.parts):
            if member == image:
                self._kept.check_image(self._shard, index, group.key, self._copy(member))
            elif self._kept.members == "all":
                self._copy(member)
            elif not self._taken(member) or not self._copy_listed(member):
                self.left_out[kind_of(member.name)] += 1

    def end(self) -> None:
        end = END + b"\0" * (-(self._num_bytes + len(END)) % TAR_RECORD_BYTES)
        self._target.write(end)

    def _fault(self, group: _Group) -> str | None:
        if len(group.images) > 1:  # a scan by an older version knew fewer kinds of images
            return f"{len(group.images)} members are images, and only one was scanned"
        fault = next((fault for part in group.parts if (fault := part.fault())), None)
        image = group.image
        wanted = [m.name for m in (part.member for part in group.parts) if m == image or self._taken(m)]
        if fault is None and not self._names.add(wanted):
            fault = "a member has the name of another file or folder of the release"
        return fault

    def _taken(self, member: Member) -> bool:
        """Return whether name and size allow the member in the release."""
        by_name = self._kept.members == "listed" and is_listed(member.name, member.size)
        return by_name or self._kept.members == "all"

    def _copy_listed(self, member: Member) -> bool:
        """Write the member if it holds what its name says; return whether it does."""
        self._stream.seek(member.data_start)
        content = self._stream.read(member.size)
        if len(content) < member.size:
            raise changed(self._shard, "it became shorter while it was read")
        if not holds_what_it_says(member.name, content):
            return False
        self._write(header(member) + content + b"\0" * (-member.size % BLOCK))
        return True

    def _copy(self, member: Member) -> str:
        """Copy the member and return the hash of its content."""
        self._write(header(member))
        digest, num_left = hashlib.sha256(), member.size
        self._stream.seek(member.data_start)
        while num_left:
            block = self._stream.read(min(num_left, 2**22))
            if not block:
                raise changed(self._shard, "it became shorter while it was read")
            self._write(block)
            digest.update(block)
            num_left -= len(block)
        self._write(b"\0" * (-member.size % BLOCK))
        return digest.hexdigest()

    def _write(self, content: bytes) -> None:
        self._target.write(content)
        self._num_bytes += len(content)


def _split(name: str) -> tuple[str, str]:
    """Split a member name at the first dot of its base name into key and lower-case extension."""
    folder, base = posixpath.split(name)
    stem, _, extension = base.partition(".")
    return posixpath.join(folder, stem), extension.lower()


def _located(index: int, item: _Group | Damage) -> tuple[Locator, int]:
    if isinstance(item, Damage):
        return _damaged(index, item), 0
    fault = item.fault()
    # The span is not read, but it is part of the hash by which a continued scan recognises its slices.
    span = [[part.member.start, part.member.end] for part in item.parts[:MAX_MEMBERS]]
    locator: Locator = {"index": index, "key": item.key, "span": span}
    for part in item.parts[:MAX_MEMBERS]:
        extension = _split(part.member.name)[1]
        if extension in READ_MEMBERS and part.is_plain and part.member.size <= MAX_LISTED_BYTES:
            locator[extension] = [part.member.data_start, part.member.size]
    long_key = max(0, len(item.key) - USUAL_KEY)
    if item.image is None:
        return locator | {"fault": [fault.reason, fault.message] if fault else []}, long_key
    return locator | {"image": [item.image.data_start, item.image.size]}, item.image.size + long_key


def _damaged(index: int, damage: Damage) -> Locator:
    byte_range = f"bytes {damage.start} to {damage.end}"
    if damage.name is not None:
        fault = [TRUNCATED_SHARD, f"the tar ends inside this sample ({byte_range})"]
        key = _split(damage.name)[0]
    elif damage.cause is not None:
        fault = [CORRUPT_SHARD, f"the tar cannot be decompressed after byte {damage.start}: {damage.cause}"]
        key = f"@{damage.start}"
    elif damage.start == damage.end:
        fault = [TRUNCATED_SHARD, f"the tar ends at byte {damage.start} without an end marker: the rest is lost"]
        key = f"@{damage.start}"
    else:
        fault, key = [CORRUPT_SHARD, f"{byte_range} of the tar hold no readable header"], f"@{damage.start}"
    return {"index": index, "key": key, "span": [], "fault": fault}


@dataclass(frozen=True)
class Beside:
    """Facts about the first samples of a shard from which categories may be derived."""

    num_samples: int

    fields: list[str]
    """Names of the fields of JSON members, each once, printable, in order of appearance."""

    num_with_category: int
    """Number of samples that have a category."""

    num_contradicting: int
    """Number of samples whose `.cls` member and JSON field contradict each other."""


def looked_at(root: Place, shard: str, category: str | None) -> Beside:
    """Probe the first `MAX_PROBED_SAMPLES` samples of a shard. StorageError if the storage fails."""
    fields, num_with_category, num_contradicting = dict[str, None](), 0, 0
    with content(root, shard) as stream:
        locators = [_located(0, sample)[0] for sample in islice(_groups(_found(stream)), MAX_PROBED_SAMPLES)]
        for locator in locators:
            members = {name: span for name, span in locator.items() if name in ("cls", "json")}
            parts = _parts(stream, members, None)
            parsed = _parsed(parts.get("json", b""))
            fields |= dict.fromkeys(map(printable, parsed))
            member = _category({"cls": parts["cls"]}, {}, None) if "cls" in parts else None
            field = _category({}, parsed, None if category == "cls" else category)
            chosen = {None: member if "cls" in parts else field, "cls": member}.get(category, field)
            num_with_category += chosen is not None
            num_contradicting += None not in (member, field) and member != field
    return Beside(len(locators), list(fields), num_with_category, num_contradicting)


def _parts(stream: BinaryIO, locator: Locator, field: str | None) -> dict[str, bytes]:
    """Read the image and the members used with it, in the order of their offsets; `.cls` only if it counts."""
    wanted = ("image", "json", "txt", *(("cls",) if field in (None, "cls") else ()))
    parts = dict[str, bytes]()
    for (start, num_bytes), name in sorted((locator[name], name) for name in wanted if name in locator):
        stream.seek(start)
        parts[name] = stream.read(num_bytes)
    return parts


def _category(parts: dict[str, bytes], fields: dict[str, Any], field: str | None) -> str | None:
    """Return the JSON member's field, or the .cls member (named as "cls", or if no field is named)."""
    if "cls" in parts:
        text = parts["cls"].decode("utf-8", "backslashreplace").strip()
        return printable(text) or None
    value = field_at(fields, field or DEFAULT_FIELD)
    return printable(str(value)) if isinstance(value, str | int) and str(value) else None


def field_at(fields: dict[str, Any], name: str) -> Any:
    """Return the field of this name, else the nested field that its dotted path leads to, or None.

    >>> field_at({"scene": {"kind": "street"}}, "scene.kind")
    'street'
    """
    if name in fields:
        return fields[name]
    outer, _, inner = name.partition(".")
    child = fields.get(outer)
    return field_at(child, inner) if inner and isinstance(child, dict) else None


def _caption(parts: dict[str, bytes], fields: dict[str, Any]) -> str | None:
    """Return the caption of the .txt member, else of the JSON member."""
    written = caption_of(parts.get("txt", b""))
    field = fields.get(CAPTION_FIELD)
    return written if written is not None or not isinstance(field, str) else caption_of(field)


def _url(fields: dict[str, Any]) -> str | None:
    given = (fields.get(name) for name in URL_FIELDS)
    return next((url for url in given if isinstance(url, str)), None)


def _parsed(member: bytes) -> dict[str, Any]:
    """Return the fields of a JSON member; none if it holds anything else."""
    try:
        fields = json.loads(member)
    except (ValueError, RecursionError):  # hostile nesting is not JSON either
        return {}
    return fields if isinstance(fields, dict) else {}
