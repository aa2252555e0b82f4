"""Removal of a folder with its content, and of half-written files that a killed process left.

Folders are handled without recursion, so that no depth is too much for Python. Links are not followed: who changes
other files in a folder that a stranger may have made calls `refuse_links` first.
"""

import errno
import os
import posixpath
import re
from collections.abc import Collection
from functools import partial
from pathlib import Path

from ingest.errors import StorageError
from ingest.sample import printable
from ingest.storage.place import PART, Place, reason_of, unfinished_stem
from ingest.storage.retries import retried, storage_error, store_errors


def refuse_links(folder: Place) -> None:
    """Raise StorageError if anything below a folder is a link, through which files elsewhere would be changed. The
    folder may be a link itself. Object stores have no links."""
    if not folder.is_local:
        return
    try:
        for path in _folders(folder.path):
            with os.scandir(path) as entries:
                link = next((entry.path for entry in entries if entry.is_symlink()), None)
            if link is not None:
                shown = printable(os.path.relpath(link, folder.path))
                raise StorageError(
                    f"{folder.url}: {shown} is a link, and files elsewhere would be changed through it; nothing was "
                    "done; replace it by what it names, or remove it"
                )
    except OSError as error:
        raise storage_error(f"cannot list {folder.url}", error) from None


def remove_tree(folder: Place, last: Collection[str] = ()) -> None:
    """Remove the folder with its content, if it exists. StorageError if that fails. last: names of files in it that are
    removed after all others, so that an interruption leaves them."""
    try:
        if folder.is_local:
            if os.path.islink(folder.path):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            for path in reversed(_folders(folder.path)):
                names = os.listdir(path)
                if path == folder.path:
                    names.sort(key=lambda name: name in last)
                for name in names:
                    os.unlink(os.path.join(path, name))
                os.rmdir(path)
        else:
            before = [entry["name"] for entry in folder.entries()] if last else []
            for path in (*(path for path in before if posixpath.basename(path) not in last), folder.path):
                retried(partial(folder.fs.rm, path, recursive=True))
    except FileNotFoundError:
        pass
    except store_errors() as error:
        raise StorageError(f"cannot remove {folder.path}: {reason_of(error)}") from None


def remove_half_written(folder: Place) -> None:
    """Remove every incomplete local file below the folder. StorageError if that fails."""
    try:
        for path in _folders(folder.path):
            for name in folder.at(path).names():
                if name.endswith(PART):
                    Path(path, name).unlink(missing_ok=True)  # who writes it may end meanwhile
    except OSError as error:
        raise storage_error(f"cannot remove half-written files in {folder.path}", error) from None


def remove_half_written_of(file: Place) -> None:
    """Remove what killed processes left half-written of a local file (`Place.create`)."""
    if not file.is_local:
        return
    aside = re.compile(rf"{re.escape(unfinished_stem(file.name))}\.[0-9a-f]{{8}}{re.escape(PART)}")
    folder = Place(file.fs, posixpath.dirname(file.path))
    for name in folder.names() if folder.is_dir() else ():
        if aside.fullmatch(name):
            folder.at(name).remove()


def _folders(top: str) -> list[str]:
    """Return the folder and all folders below it, each before its own subfolders."""
    folders = [top]
    for folder in folders:  # the list grows in the loop
        with os.scandir(folder) as entries:
            folders += [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
    return folders
