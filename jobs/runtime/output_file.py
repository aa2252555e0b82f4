"""A file that `--out` names: all commands refuse to replace one, since people may have worked on it."""

from ingest.errors import StorageError
from ingest.storage.place import place


def refuse_existing(*urls: str) -> None:
    """StorageError that names the first file that is there already. To be called before any work is done."""
    for url in urls:
        if place(url).exists():
            raise StorageError(f"{url} already exists; name another --out, or remove it")
