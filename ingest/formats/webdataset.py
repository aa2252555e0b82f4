"""WebDataset shards: tar files as img2dataset and LAION write them, plain or compressed as a whole (gzip, Zstandard).

Consecutive members with the same key (the path up to the first dot of the base name) are one sample. Its image is
the member whose extension or first bytes are an image's; no member is decoded by extension or unpickled.
Damage in a tar becomes a sample of its own that cannot be read, so that it shows in every count. A release has new
headers, and of the members next to the image only those that `ingest.formats.members` allows.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, BinaryIO

import pyarrow as pa

from ingest.errors import Fault
from ingest.formats.members import MAX_LISTED_BYTES, ArchiveNames, holds_what_it_says, is_listed, kind_of
from ingest.formats.released import Kept, RewriteRecord, Written, changed
from ingest.formats.shard import blocks_sha256 as blocks_sha256
from ingest.formats.shard import files_below, opened
from ingest.formats.shard import version_mark as version_mark
from ingest.formats.shard import version_marks as version_marks
from ingest.formats.tar import BLOCK, END, Member, TarDamage, header
from ingest.formats.tar_samples import (
    MAX_MEMBERS,
    Group,
    codec_of,
    content,
    damaged,
    groups,
    key_and_extension,
    release_fault,
)
from ingest.sample import Locator, Sample, Slice, caption_of, columns_of_url, cut, printable
from ingest.storage.place import NewFile, Place

USUAL_KEY = 255
"""Characters of a key above this count as bytes of the slice that holds it."""

READ_MEMBERS = ("cls", "json", "txt")
"""Members next to the image that are read: category, fields and caption."""
CAPTION_FIELD = "caption"
URL_FIELDS = ("url", "URL")
DEFAULT_FIELD = "category"
MAX_PROBED_SAMPLES = 100
"""Number of samples of a shard that `category_probe` reads."""

SUFFIXES = (".tar", ".tar.gz", ".tgz", ".tar.zst", ".tar.zstd")
"""Suffixes of shards. Compression is recognised by content."""


def shards(root: Place) -> list[str]:
    """Return every tar below the folder, as paths relative to it, sorted."""
    return [path for path in files_below(root) if path.lower().endswith(SUFFIXES)]


def slices(root: Place, shard: str, category: str | None, image_names: Sequence[str] = ()) -> Iterator[Slice]:
    hidden = list[str]()
    with content(root, shard) as stream:
        for slice_ in cut(shard, (_located(index, item) for index, item in enumerate(groups(stream, hidden)))):
            yield replace(slice_, num_hidden=len(hidden)) if slice_.is_last else slice_


def read(root: Place, slice_: Slice, category: str | None) -> Iterator[Sample]:
    with content(root, slice_.shard) as stream:
        for locator in slice_.locators:
            parts = _parts(stream, locator, category)
            encoded, fields = parts.get("image", b""), _parsed(parts.get("json", b""))
            fault = Fault(*locator["fault"]) if "fault" in locator else None
            if fault is None and len(encoded) != locator["image"][1]:
                encoded, fault = b"", Fault("unreadable", "the shard is shorter than when it was listed")
            url = next((given for given in map(fields.get, URL_FIELDS) if isinstance(given, str)), None)
            place_of = (printable(slice_.shard), locator["index"], printable(locator["key"]))
            label, caption = _category(parts, fields, category), _caption(parts, fields)
            yield Sample(*place_of, label, encoded, fault, caption, *columns_of_url(url))


def names(
    root: Place, shard: str, category: str | None, image_names: Sequence[str] = ()
) -> Iterator[tuple[str, str | None]]:
    with content(root, shard) as stream:
        for slice_ in slices(root, shard, category):
            for locator in slice_.locators:
                parts = _parts(stream, {name: span for name, span in locator.items() if name in READ_MEMBERS}, category)
                yield printable(locator["key"]), _category(parts, _parsed(parts.get("json", b"")), category)


def captions(root: Place, shard: str, image_names: Sequence[str] = ()) -> Iterator[str | None]:
    with content(root, shard) as stream:
        for slice_ in slices(root, shard, None):
            for locator in slice_.locators:
                spans = {name: span for name, span in locator.items() if name in ("json", "txt")}
                parts = _parts(stream, spans, None)
                yield _caption(parts, _parsed(parts.get("json", b"")))


def _located(index: int, item: Group | TarDamage) -> tuple[Locator, int]:
    if isinstance(item, TarDamage):
        return damaged(index, item), 0
    fault = item.fault()
    # The span is not read, but it is part of the hash by which a continued scan recognises its slices.
    members = item.members[:MAX_MEMBERS]
    span = [[member.start, member.end] for member in members]
    locator: Locator = {"index": index, "key": item.key, "span": span}
    for member in members:
        extension = key_and_extension(member.name)[1]
        if extension in READ_MEMBERS and member.is_plain and member.size <= MAX_LISTED_BYTES:
            locator[extension] = [member.data_start, member.size]
    long_key = max(0, len(item.key) - USUAL_KEY)
    if item.image is None:
        return locator | {"fault": [fault.reason, fault.message] if fault else []}, long_key
    return locator | {"image": [item.image.data_start, item.image.size]}, item.image.size + long_key


@dataclass(frozen=True)
class CategoryProbe:
    """Facts about the first samples of a shard from which categories may be derived."""

    num_samples: int

    fields: list[str]
    """Names of the fields of JSON members, each once, printable, in order of appearance."""

    num_with_category: int


def category_probe(root: Place, shard: str, category: str | None) -> CategoryProbe:
    """Probe the first `MAX_PROBED_SAMPLES` samples of a shard. StorageError if the storage fails."""
    fields, num_with_category = dict[str, None](), 0
    with content(root, shard) as stream:
        locators = [_located(0, item)[0] for item in islice(groups(stream), MAX_PROBED_SAMPLES)]
        for locator in locators:
            spans = {name: span for name, span in locator.items() if name in ("cls", "json")}
            parts = _parts(stream, spans, None)
            parsed = _parsed(parts.get("json", b""))
            fields |= dict.fromkeys(map(printable, parsed))
            member = _category({"cls": parts["cls"]}, {}, None) if "cls" in parts else None
            field = _category({}, parsed, None if category == "cls" else category)
            chosen = {None: member if "cls" in parts else field, "cls": member}.get(category, field)
            num_with_category += chosen is not None
    return CategoryProbe(len(locators), list(fields), num_with_category)


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


def _parsed(member: bytes) -> dict[str, Any]:
    """Return the fields of a JSON member; none if it holds anything else."""
    try:
        fields = json.loads(member)
    except (ValueError, RecursionError):  # hostile nesting is not JSON either
        return {}
    return fields if isinstance(fields, dict) else {}


MAX_PIECE_BYTES = 2**22
"""A larger member is copied in pieces of this size."""

TAR_RECORD_BYTES = 20 * BLOCK
"""Size of a record: tars are padded with zeros to whole records."""


def write(root: Place, shard: str, kept: Kept, out: Place) -> Written:
    """Write the kept samples in order, pictures byte for byte unless `Kept.rewrite` is given; compress as it was."""
    with opened(root, shard) as stream:
        codec = codec_of(stream.read(4))
    with content(root, shard) as stream:
        num_found, chosen = 0, dict[int, Group | TarDamage]()
        for item in groups(stream):
            if num_found in kept.sha256:
                chosen[num_found] = item
            num_found += 1
        kept.check_number(shard, num_found)
        with out.at(shard).create() as released, _compressing(released, codec) as target:
            release = _Release(stream, shard, kept, target)
            for index, item in chosen.items():
                release.add(index, item)
            release.end()
    num_written = len(chosen) - len(release.dropped) - len(release.pictures.refused)
    facts = (release.dropped, dict(release.left_out), release.pictures, release.num_masked)
    return Written(num_written, {shard: released.sha256}, *facts)


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
        self.pictures, self.num_masked = RewriteRecord(), 0
        self._without_origin = set[int]()
        self._stream, self._shard, self._kept, self._target = stream, shard, kept, target
        self._names, self._num_bytes = ArchiveNames(), 0

    def add(self, index: int, item: Group | TarDamage) -> None:
        """Add a sample, or note why it is dropped. IncompleteError if an image is not the one that was scanned."""
        group = Group(damaged(index, item)["key"], [], []) if isinstance(item, TarDamage) else item
        fault = self._fault(group)
        if fault is not None:
            self.dropped[index] = fault
            return
        image, rewritten = group.image, None
        if image is None:
            self._kept.check_image(self._shard, index, group.key, None)
        elif self._kept.rewrite is not None:
            encoded = self._read(image)
            self._kept.check_image(self._shard, index, group.key, hashlib.sha256(encoded).hexdigest())
            rewritten = self._kept.released(index, encoded, self.pictures)
            if rewritten is None:
                return
        for member in group.members:
            if member is image and rewritten is not None:
                self._write_file(member, rewritten)
            elif member is image:
                self._copy(member, partial(self._kept.check_image, self._shard, index, group.key))
            elif self._kept.members == "all":
                self._copy(member)
            elif not self._taken(member) or not self._copy_listed(index, member):
                self.left_out[kind_of(member.name)] += 1

    def end(self) -> None:
        """End the tar."""
        self.pictures.num_without_origin = len(self._without_origin)
        self._target.write(END + b"\0" * (-(self._num_bytes + len(END)) % TAR_RECORD_BYTES))

    def _fault(self, group: Group) -> str | None:
        if len(group.images) > 1:  # by a policy that keeps what is quarantined
            return f"{len(group.images)} members are images, and one is expected"
        fault = next(filter(None, map(release_fault, group.members)), None)
        image = group.image
        wanted = [member.name for member in group.members if member is image or self._taken(member)]
        if fault is None and not self._names.add(wanted):
            fault = "a member has the name of another file or folder of the release"
        return fault

    def _taken(self, member: Member) -> bool:
        """Return whether name and size allow the member in the release."""
        listed = self._kept.members == "listed" and is_listed(member.name, member.size)
        return listed or self._kept.members == "all"

    def _copy_listed(self, index: int, member: Member) -> bool:
        """Write the member if it holds what its name says; return whether it does."""
        content = self._read(member)
        if not holds_what_it_says(member.name, content):
            return False
        released = self._kept.member(member.name, content, self._kept.replaced_by(index, self.pictures))
        if released is None:
            return False
        self.num_masked += released.is_masked
        self._without_origin |= {index} if released.lost_origin else set()
        self._write_file(member, released.content)
        return True

    def _read(self, member: Member) -> bytes:
        self._stream.seek(member.data_start)
        content = self._stream.read(member.size)
        if len(content) < member.size:
            raise changed(self._shard, "it became shorter while it was read")
        return content

    def _write_file(self, member: Member, content: bytes) -> None:
        num_bytes = len(content)
        self._write(b"".join((header(member, num_bytes), content, b"\0" * (-num_bytes % BLOCK))))

    def _copy(self, member: Member, check: Callable[[str], None] | None = None) -> None:
        """Copy the member. check: takes the hash of its content."""
        if member.size <= MAX_PIECE_BYTES:
            content = self._read(member)
            self._write_file(member, content)
            if check is not None:
                check(hashlib.sha256(content).hexdigest())
            return
        self._write(header(member))
        digest, num_left = hashlib.sha256(), member.size
        self._stream.seek(member.data_start)
        while num_left:
            block = self._stream.read(min(num_left, MAX_PIECE_BYTES))
            if not block:
                raise changed(self._shard, "it became shorter while it was read")
            self._write(block)
            digest.update(block)
            num_left -= len(block)
        self._write(b"\0" * (-member.size % BLOCK))
        if check is not None:
            check(digest.hexdigest())

    def _write(self, content: bytes) -> None:
        self._target.write(content)
        self._num_bytes += len(content)
