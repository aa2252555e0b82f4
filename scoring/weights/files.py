"""Which files a model may have, wherever it is from, and who is told that they are fetched.

Only files with the suffixes of configurations, tokenizers, templates and safetensors are fetched: neither pickles nor
code, nor anything in subfolders.
"""

import hashlib
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

from ingest.errors import EngineError, StorageError, number_of

SMALL_SUFFIXES = (".json", ".jinja", ".txt", ".model")
"""Suffixes of the files other than weights."""

WEIGHTS_SUFFIX = ".safetensors"
UNSAFE_SUFFIXES = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
MAX_SMALL_BYTES = 256 * 2**20
MAX_NAME_BYTES = 240
"""A file system allows 255, which must include the suffix of an unfinished file."""

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Listener:
    """Receives progress and notices of fetching."""

    progress: Callable[[str, int, int], None] = lambda name, num_done, num_all: None
    """Called with the name, the number of bytes fetched, and the total."""

    notice: Callable[[str], None] = _logger.warning


_listener: ContextVar[Listener] = ContextVar("listener", default=Listener())  # noqa: B039 - it is frozen


@contextmanager
def with_listener(listener: Listener) -> Iterator[None]:
    """Report everything that this thread fetches within the block to the listener."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)


def notify(line: str) -> None:
    """Send a line to the listener."""
    _listener.get().notice(line)


def progress(name: str, num_done: int, num_all: int) -> Callable[[int], None]:
    """Return what is called with each number of bytes that was fetched. num_done: the bytes that were here before."""
    listener, lock = _listener.get(), threading.Lock()

    def on_bytes(num_bytes: int) -> None:
        nonlocal num_done
        with lock:
            num_done += num_bytes
            listener.progress(name, num_done, num_all)

    return on_bytes


def model_files(asked: str, num_bytes: dict[str, int]) -> list[str]:
    """Return the names of files that a model may have, sorted. num_bytes: name of each file -> its size.

    StorageError if there are none, or one has a size that no such file has; EngineError if the weights are pickles.
    """
    names = sorted(num_bytes)
    files = [name for name in names if name.endswith((*SMALL_SUFFIXES, WEIGHTS_SUFFIX))]
    unsafe = [name for name in names if name.endswith(UNSAFE_SUFFIXES)]
    if not files:
        raise StorageError(
            f"{asked} holds no file of a model, or does not exist; give the URL of a folder whose files can be listed"
        )
    if unsafe and not any(name.endswith(WEIGHTS_SUFFIX) for name in files):
        raise EngineError(
            f"{asked} has its weights as {unsafe[0]}, which can run code when loaded; only safetensors are loaded: "
            "convert it"
        )
    for name in files:
        if num_bytes[name] < 0 or (num_bytes[name] > MAX_SMALL_BYTES and not name.endswith(WEIGHTS_SUFFIX)):
            raise StorageError(
                f"{asked}: {name} has {num_bytes[name]:,} bytes, and such a file of a model has at most "
                f"{MAX_SMALL_BYTES:,}"
            )
    return files


def is_file_name(name: str) -> bool:
    """Return whether it is a valid name of a file in a folder."""
    return (
        name not in ("", ".", "..")
        and not set(name) & {"/", "\\", "?"}
        and name.isprintable()
        and len(name.encode("utf-8", "surrogateescape")) <= MAX_NAME_BYTES
    )


def file_sha256(path: Path) -> str:
    with path.open("rb", buffering=0) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def in_bytes(num_bytes: int) -> str:
    """Format a size: `16.4 GB`, `2.8 MB`, `459 bytes`."""
    if num_bytes < 1e3:
        return number_of(num_bytes, "byte")
    unit, name = (1e9, "GB") if num_bytes >= 1e9 else (1e6, "MB") if num_bytes >= 1e6 else (1e3, "kB")
    return f"{num_bytes / unit:,.1f} {name}"
