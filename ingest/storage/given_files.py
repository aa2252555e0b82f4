"""Files that a user names and that are read as a whole: policies, settings, wordings, lists, labels."""

import os
import stat

from ingest.errors import MissingFileError, StorageError
from ingest.storage.place import Place, reason_of

MAX_SETTINGS_BYTES = 2**20
"""Limit of a file that people write by hand."""


def given_content(file: Place, what: str, max_bytes: int = MAX_SETTINGS_BYTES) -> bytes:
    """Read a plain file. Never waits for the writer of a pipe, and reads no device and no more than allowed.

    what: begins the message of an error: the option or kind of file, and its name. MissingFileError if there is no such
    file, StorageError for anything else.
    """
    try:
        if file.is_local:
            return _local_content(file.path, what, max_bytes)
        _refuse_large(file.size(), what, max_bytes)
        return file.content()
    except (FileNotFoundError, NotADirectoryError):
        raise MissingFileError(f"{what}: cannot be read: no such file or directory") from None
    except OSError as error:
        raise StorageError(f"{what}: cannot be read: {reason_of(error)}") from None


def _local_content(path: str, what: str, max_bytes: int) -> bytes:
    mode = os.stat(path).st_mode  # opening alone can do something to a device
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
        raise StorageError(f"{what}: it is a pipe, socket or device, not a file")
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as stream:
        size = os.fstat(stream.fileno()).st_size
        _refuse_large(size, what, max_bytes)
        content = stream.read(size + 1) or b""
        if len(content) > size:  # it grows, or is a system file that states no size
            content += stream.read(max_bytes + 1 - len(content)) or b""
            _refuse_large(len(content), what, max_bytes)
        return content


def _refuse_large(num_bytes: int, what: str, max_bytes: int) -> None:
    if num_bytes > max_bytes:
        raise StorageError(f"{what}: has more than {max_bytes:,} bytes, the most that such a file may have")
