"""The members of a tar as samples: consecutive members with the same key belong together. A tar that was compressed as
a whole is read like a plain one; offsets are in the decompressed content."""

import gzip
import io
import posixpath
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO, cast

import pyarrow as pa

from ingest.errors import CORRUPT_SHARD, TRUNCATED_SHARD, Fault
from ingest.formats.members import IMAGE_EXTENSIONS, begins_like_picture, extension_of, is_hidden, name_fault
from ingest.formats.shard import MAX_IMAGE_BYTES, TOO_MANY_BYTES, opened
from ingest.formats.tar import MAX_NAME_BYTES, Member, TarDamage, walk
from ingest.images.files.magic import HEAD_BYTES
from ingest.sample import Locator
from ingest.storage.place import Place
from ingest.storage.streams import SeekableReader

STEP_BYTES = 4096
"""Number of bytes, compressed and decompressed, taken at once. This much, or a block of the compression if that is more
(Zstandard: 128 KB), is lost before a damaged position."""

KEPT_BYTES = 2**19
"""Decompressed bytes kept for seeking back; more than a search for the next header overshoots."""

MIN_LIMIT_BYTES = 64 * 2**20
MAX_RATIO = 200
"""Content larger than MIN_LIMIT_BYTES and MAX_RATIO times its compressed size is taken for a decompression bomb."""


def codec_of(head: bytes) -> str | None:
    """Return the compression of a file by its first 4 bytes, or None if it is unknown."""
    if head[:2] == b"\x1f\x8b":
        return "gzip"
    is_skippable = head[1:4] == b"\x2a\x4d\x18" and 0x50 <= head[0] <= 0x5F
    return "zstd" if head[:4] == b"\x28\xb5\x2f\xfd" or is_skippable else None


class Decompressed(SeekableReader):
    """Compressed content as a seekable stream. It ends early if the rest cannot be decompressed; `fault` says why.

    Seeking forward decompresses everything in between; seeking back further than `KEPT_BYTES` starts again from the
    beginning, so read in the order of the offsets. Each slice of a shard decompresses it from its beginning.

    raw: seekable, and must not raise OSError when the storage fails, since that is taken for damage.
    """

    def __init__(self, raw: BinaryIO, codec: str):
        super().__init__()
        self.fault: str | None = None
        self._raw, self._codec = raw, codec
        self._limit_bytes = max(MIN_LIMIT_BYTES, MAX_RATIO * raw.seek(0, 2))
        self._position = 0
        self._size: int | None = None
        self._start_again()

    def _start_again(self) -> None:
        self._raw.seek(0)
        # Unlike Arrow's, Python's gzip gives all bytes that come before damage, and takes zeros after the end.
        self._content = (
            gzip.GzipFile(fileobj=self._raw).read1
            if self._codec == "gzip"
            else pa.CompressedInputStream(pa.PythonFile(_Steps(self._raw), "r"), self._codec).read
        )
        self._window, self._window_start = bytearray(), 0

    def _advance(self) -> bool:
        """Decompress one step; return False at the end."""
        end = self._window_start + len(self._window)
        if end == self._size:
            return False
        step = b""
        if end >= self._limit_bytes:
            self.fault = "there is more of it than a sane compression gives"
        else:
            try:
                step = self._content(STEP_BYTES)
            except (OSError, EOFError, zlib.error, pa.ArrowException):
                self.fault = "it is cut or damaged"
        if not step:
            self._size = end
            return False
        self._window += step
        excess = len(self._window) - KEPT_BYTES
        if excess > KEPT_BYTES:  # seldom, since what is kept has to move
            del self._window[:excess]
            self._window_start += excess
        return True

    def read(self, size: int = -1, /) -> bytes:
        if self._position < self._window_start:
            self._start_again()
        parts: list[bytes] = []
        remaining = size if size >= 0 else self._limit_bytes
        while remaining > 0:
            first = self._position - self._window_start
            part = bytes(self._window[first : first + remaining])
            if part:
                parts.append(part)
                self._position += len(part)
                remaining -= len(part)
            elif not self._advance():
                break
        return b"".join(parts)

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Seek and return the position. Seeking from the end decompresses everything to find the size."""
        if whence == io.SEEK_END:
            while self._size is None:
                self._advance()
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size or 0}[whence]
        self._position = max(0, base + offset)
        return self._position


class _Steps:
    """A file for pyarrow that reads in small steps and stays open when pyarrow closes it."""

    closed = False

    def __init__(self, raw: BinaryIO):
        self._raw = raw

    def read(self, size: int = -1) -> bytes:
        return self._raw.read(min(size, STEP_BYTES))

    def close(self) -> None:
        """Do nothing: `_start_again` uses the stream again."""


MAX_MEMBERS = 1000
"""Limit of one sample; a key that more members share is one row that cannot be read."""


@contextmanager
def content(root: Place, shard: str) -> Iterator[BinaryIO]:
    """Open the tar, decompressed if needed, as a seekable stream."""
    with opened(root, shard) as stream:
        codec = codec_of(stream.read(4))
        stream.seek(0)
        yield cast(BinaryIO, Decompressed(stream, codec)) if codec else stream


def release_fault(member: Member) -> str | None:
    """Return why the member may not be in a release, or None."""
    if member.is_folder:
        return "a member is a folder"
    if not member.is_plain:
        return "a member is a link, a device or a sparse file"
    if member.has_set_id:
        return "a member is a program that runs as another user (set-uid or set-gid)"
    fault = name_fault(member.name)
    return f"a member has {fault}" if fault else None


@dataclass(frozen=True)
class Group:
    """The members of one sample, in order; only the first ones of a key that too many share."""

    key: str
    members: list[Member]

    images: list[Member]
    """Those whose extension or first bytes are an image's. They may still be links."""

    @property
    def image(self) -> Member | None:
        """Member of the image, or None if the sample has none that can be read."""
        return self.images[0] if self.fault() is None else None

    def fault(self) -> Fault | None:
        """Return why the sample has no image to decode, as in `Sample`."""
        if any(member.is_name_shortened for member in self.members):
            return Fault("name_too_long", f"a member's name has more than {MAX_NAME_BYTES} bytes")
        if len(self.members) > MAX_MEMBERS:
            return Fault("too_many_members", f"more than {MAX_MEMBERS} members share this key")
        if not self.images:
            return Fault("no_image", "no member is an image, by its extension (.jpg .png .webp …) or how it begins")
        if len(self.images) > 1:
            return Fault("several_images", f"{len(self.images)} members are images, one is expected")
        if self.images[0].size > MAX_IMAGE_BYTES:
            return TOO_MANY_BYTES
        if not self.images[0].is_plain:
            return Fault("not_a_file", "the image member is a link, a device or a sparse file, not a plain file")
        return None


def _is_image(stream: BinaryIO, member: Member) -> bool:
    """Return whether a member is an image by its extension, whatever it holds, else by its first bytes."""
    if extension_of(member.name) in IMAGE_EXTENSIONS:
        return True
    if not member.is_plain:
        return False
    stream.seek(member.data_start)
    return begins_like_picture(member.name, stream.read(min(member.size, HEAD_BYTES)))


def groups(stream: BinaryIO, hidden: list[str] | None = None) -> Iterator[Group | TarDamage]:
    """Yield the samples of the tar in order; a part that cannot be decompressed is damage after its last byte.

    Folders are not samples, nor are links and devices whose key no file has. Hidden members are skipped.

    hidden: gets the names of hidden files.
    """
    group = Group("", [], [])
    size = stream.seek(0, 2)
    for item in walk(stream, size, stream.fault if isinstance(stream, Decompressed) else None):
        if isinstance(item, Member) and is_hidden(item.name):
            if hidden is not None and not item.is_folder:
                hidden.append(item.name)
            continue
        key = "" if isinstance(item, TarDamage) else key_and_extension(item.name)[0]
        if isinstance(item, TarDamage) or not (group.members and item.name and key == group.key):
            yield from _samples_of(group)
            group = Group(key, [], [])
        if isinstance(item, TarDamage):
            yield item
        elif (group.members or not item.is_folder) and len(group.members) <= MAX_MEMBERS:
            group.members.append(item)
            group.images.extend([item] if _is_image(stream, item) else [])
    yield from _samples_of(group)


def _samples_of(group: Group) -> Iterator[Group]:
    if group.images or any(member.is_file or member.is_name_shortened for member in group.members):
        yield group


def key_and_extension(name: str) -> tuple[str, str]:
    """Split a member name at the first dot of its base name into key and lower-case extension."""
    folder, base = posixpath.split(name)
    stem, _, extension = base.partition(".")
    return posixpath.join(folder, stem), extension.lower()


def damaged(index: int, damage: TarDamage) -> Locator:
    byte_range = f"bytes {damage.start} to {damage.end}"
    key = f"@{damage.start}" if damage.name is None else key_and_extension(damage.name)[0]
    if damage.name is not None:
        fault = [TRUNCATED_SHARD, f"the tar ends inside this sample ({byte_range})"]
    elif damage.cause is not None:
        fault = [CORRUPT_SHARD, f"the tar cannot be decompressed after byte {damage.start}: {damage.cause}"]
    elif damage.start == damage.end:
        fault = [TRUNCATED_SHARD, f"the tar ends at byte {damage.start} without an end marker: the rest is lost"]
    else:
        fault = [CORRUPT_SHARD, f"{byte_range} of the tar hold no readable header"]
    return {"index": index, "key": key, "span": [], "fault": fault}
