"""Removal of a folder with its content, and of half-written files that a killed process left.

Folders are handled without recursion, so that no depth is too much for Python. Links are not followed.
"""

import errno
import os
from pathlib import Path

from ingest.errors import StorageError
from ingest.storage.place import PART, Place, reason_of
from ingest.storage.retries import retried, store_errors


def remove_tree(folder: Place) -> None:
    """Remove the folder with its content, if it exists. StorageError if that fails."""
    try:
        if folder.is_local:
            _remove(folder.path)
        else:
            retried(lambda: folder.fs.rm(folder.path, recursive=True))
    except FileNotFoundError:
        pass
    except store_errors() as error:
        raise StorageError(f"cannot remove {folder.path}: {reason_of(error)}") from None


def remove_half_written(folder: Place) -> None:
    """Remove every incomplete local file below the folder."""
    for path in _folders(folder.path):
        for name in folder.at(path).names():
            if name.endswith(PART):
                Path(path, name).unlink()


def _remove(top: str) -> None:
    if os.path.islink(top):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
    for folder in reversed(_folders(top)):
        for name in os.listdir(folder):
            os.unlink(os.path.join(folder, name))
        os.rmdir(folder)


def _folders(top: str) -> list[str]:
    """Return the folder and all folders below it, each before its own subfolders."""
    folders = [top]
    for folder in folders:  # the list grows in the loop
        with os.scandir(folder) as entries:
            folders += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    return folders
