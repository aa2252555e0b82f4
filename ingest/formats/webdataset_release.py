"""Writes the kept samples of a tar into a release, with new headers."""

import hashlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, BinaryIO

import pyarrow as pa

from ingest.formats.compressed import codec_of
from ingest.formats.members import (
    ArchiveNames,
    holds_what_it_says,
    is_listed,
    kind_of,
)
from ingest.formats.released import Kept, RewriteRecord, Written, changed
from ingest.formats.shard import opened
from ingest.formats.tar import BLOCK, END, Member, TarDamage, header
from ingest.formats.tar_samples import Group, content, damaged, groups, members
from ingest.storage.place import NewFile, Place

TAR_RECORD_BYTES = 20 * BLOCK
"""Size of a record: tars are padded with zeros to whole records."""


def write(root: Place, shard: str, kept: Kept, out: Place) -> Written:
    """Write the kept samples in order; pictures byte for byte, unless `Kept.rewrite` is given. The shard is compressed
    again if it was."""
    with opened(root, shard) as stream:
        codec = codec_of(stream.read(4))
    with content(root, shard) as stream:
        num_found, taken = 0, dict[int, Group | TarDamage]()
        for item in groups(members(stream)):
            if num_found in kept.sha256:
                taken[num_found] = item
            num_found += 1
        kept.check_number(shard, num_found)
        with out.at(shard).create() as released, _compressing(released, codec) as target:
            release = _Release(stream, shard, kept, target)
            for index, item in taken.items():
                release.add(index, item)
            release.end()
    num_written = len(taken) - len(release.dropped) - len(release.pictures.refused)
    return Written(num_written, {shard: released.sha256}, release.dropped, dict(release.left_out), release.pictures)


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
        self.pictures = RewriteRecord()
        self._stream, self._shard, self._kept, self._target = stream, shard, kept, target
        self._names, self._num_bytes = ArchiveNames(), 0

    def add(self, index: int, item: Group | TarDamage) -> None:
        """Add a sample, or note why it is dropped. IncompleteError if an image is not the one that was scanned."""
        group = Group(damaged(index, item)["key"], []) if isinstance(item, TarDamage) else item
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
        for member in (part.member for part in group.parts):
            if member == image and rewritten is not None:
                self._write_file(replace(member, size=len(rewritten)), rewritten)
            elif member == image:
                self._kept.check_image(self._shard, index, group.key, self._copy(member))
            elif self._kept.members == "all":
                self._copy(member)
            elif not self._taken(member) or not self._copy_listed(member):
                self.left_out[kind_of(member.name)] += 1

    def end(self) -> None:
        end = END + b"\0" * (-(self._num_bytes + len(END)) % TAR_RECORD_BYTES)
        self._target.write(end)

    def _fault(self, group: Group) -> str | None:
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
        content = self._read(member)
        if not holds_what_it_says(member.name, content):
            return False
        self._write_file(member, content)
        return True

    def _read(self, member: Member) -> bytes:
        self._stream.seek(member.data_start)
        content = self._stream.read(member.size)
        if len(content) < member.size:
            raise changed(self._shard, "it became shorter while it was read")
        return content

    def _write_file(self, member: Member, content: bytes) -> None:
        self._write(header(member) + content + b"\0" * (-member.size % BLOCK))

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
