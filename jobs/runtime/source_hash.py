"""The hash of this program's own source files."""

from functools import cache
from hashlib import sha256
from pathlib import Path


@cache
def code_hash() -> str:
    """Hash of the source files of the four rooms: tells the code of a working tree, which no version number does."""
    top = Path(__file__).parents[2]
    digest = sha256()
    for room in ("ingest", "scoring", "reports", "jobs"):
        for path in sorted((top / room).rglob("*")):
            if path.suffix in (".py", ".yaml", ".sql"):
                content = path.read_bytes()
                digest.update(f"{path.relative_to(top).as_posix()} {len(content)}\n".encode() + content)
    return digest.hexdigest()
