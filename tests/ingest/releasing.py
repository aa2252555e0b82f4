"""What tests of written shards share: a release of a shard, its hashes, a small disk."""

import hashlib
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ingest.formats import FORMATS
from ingest.formats.released import Kept, Written
from ingest.storage.place import place


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def folders(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "in").mkdir()
    return tmp_path / "in", tmp_path / "out"


def write(format_name: str, source: Path, shard: str, wanted: Kept, out: Path) -> Written:
    return FORMATS[format_name].write(place(str(source)), shard, wanted, place(str(out)))


def check_hashes(written: Written, out: Path) -> None:
    found = {str(path.relative_to(out)): path for path in out.rglob("*") if path.is_file()}
    assert {name: sha256(path.read_bytes()) for name, path in found.items()} == written.files


@contextmanager
def small_disk(max_bytes: int = 8192) -> Iterator[None]:
    """No file may become larger: around the write alone, since pytest's own output may go to a file."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (max_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
