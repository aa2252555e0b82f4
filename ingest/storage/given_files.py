"""Files that a user names, read whole or as a stream: policies, settings, wordings, lists, labels."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from ingest.errors import MissingFileError, StorageError
from ingest.storage.place import Place, reason_of

MAX_SETTINGS_BYTES = 2**20
"""Limit of a file that people write by hand."""


def given_content(file: Place, what: str, max_bytes: int = MAX_SETTINGS_BYTES) -> bytes:
    """Read a plain file. Never waits for the writer of a pipe, and reads no device and no more than allowed.

    what: begins the message of an error: the option or kind of file, and its name. MissingFileError if there is no such
    file, StorageError for anything else.
    """
    with _refusals(what, max_bytes):
        if file.is_local:
            return plain_content(file.path, max_bytes)
        if (size := file.size()) > max_bytes:
            raise TooLargeError
        return file.read_range(0, size) if size else b""


@contextmanager
def given_stream(file: Place, what: str, max_bytes: int) -> Iterator[BinaryIO]:
    """Open a plain file as a seekable stream, for tables too large to be read whole. Errors as in `given_content`, also
    of what is read within the block."""
    with _refusals(what, max_bytes):
        if file.is_local and not stat.S_ISREG(mode := os.stat(file.path).st_mode) and not stat.S_ISDIR(mode):
            raise NotAFileError
        if file.size() > max_bytes:
            raise TooLargeError
        with file.open() as stream:
            yield stream


@contextmanager
def _refusals(what: str, max_bytes: int) -> Iterator[None]:
    try:
        yield
    except NotAFileError:
        raise StorageError(f"{what}: it is a pipe, socket or device, not a file") from None
    except TooLargeError:
        raise StorageError(f"{what}: has more than {max_bytes:,} bytes, the most that such a file may have") from None
    except (FileNotFoundError, NotADirectoryError):
        raise MissingFileError(f"{what} cannot be read: no such file or directory") from None
    except OSError as error:
        raise StorageError(f"{what} cannot be read: {reason_of(error)}") from None


class NotAFileError(Exception):
    """A pipe, socket or device."""


class TooLargeError(Exception):
    """A file has more bytes than allowed."""


def plain_content(path: str, max_bytes: int, *, with_unsized: bool = True) -> bytes:
    """Read a plain file of this machine. Never waits for the writer of a pipe, and reads no device and no more than
    allowed.

    with_unsized: whether files that state no size, as those below /proc, are read; else they are empty. NotAFileError,
    TooLargeError, or an OSError of `open`, also for a folder.
    """
    mode = os.stat(path).st_mode  # opening alone can do something to a device
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise NotAFileError
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as stream:
        status = os.fstat(stream.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise NotAFileError
        if status.st_size > max_bytes:
            raise TooLargeError
        if status.st_size == 0 and not with_unsized:
            return b""
        content = stream.read(status.st_size + 1) or b""
        if len(content) > status.st_size:  # it grows, or states no size
            content += stream.read(max_bytes + 1 - len(content)) or b""
        if len(content) > max_bytes:
            raise TooLargeError
        return content
