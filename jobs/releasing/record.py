"""The record of a release, and where a release may lie."""

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from ingest.errors import StorageError
from ingest.formats.members import Members
from ingest.formats.released import DECISIONS, RELEASE
from ingest.storage.place import Place

UNFINISHED = "release.unfinished.json"
"""Written first and removed last: what --resume continues."""

DONE = "release.unfinished"
"""Folder of the records of finished shards."""

RELEASE_LEASE = "release.lease.json"
"""Who writes the release, while somebody does."""

OWN_NAMES = frozenset([RELEASE, DECISIONS, UNFINISHED, DONE, RELEASE_LEASE])
"""What no shard or file of a release may be named, at the top of it."""

Sha256 = Annotated[str, Field(pattern="^[0-9a-f]{64}$")]


class ReleaseRecord(BaseModel):
    """Of what a release is: all of `release.unfinished.json`, and the head of `release.json`."""

    model_config = ConfigDict(frozen=True)  # other keys are passed over: `release.json` has counts and hashes too

    privsieve: str
    source: str
    sample: int | None
    limit: int | None
    run_sha256: Sha256
    policy: str
    policy_sha256: Sha256
    kept_sha256: Sha256
    members: Members | None = None  # of older versions, which released whatever lay beside a picture


def release_record(file: Place) -> ReleaseRecord | None:
    """None where there is no such file, or one that is of something else; StorageError where it cannot be read."""
    if not file.exists():
        return None
    try:
        return ReleaseRecord.model_validate_json(file.read())
    except ValueError:
        return None


def refuse_misplaced(out: Place, url: str, run: Place, source: Place, is_folder: bool) -> None:
    """StorageError where the release would become part of the source, where its folder holds what is read, or is none.

    is_folder: whether all below `source` is of the corpus, or only some of its files.
    """
    if out.is_local and any(above.exists() and not above.is_dir() for above in Path(out.path).parents):
        raise StorageError(f"cannot write {url}: it lies below a file")
    if _within(out, source) and (is_folder or _within(source, out)):
        raise StorageError(f"{url} lies in the source; write the release to a folder outside of it")
    for name, read in (("source", source), ("run", run)):
        if _within(read, out):
            raise StorageError(f"{url} holds the {name}; write the release to a folder of its own")


def _within(inner: Place, outer: Place) -> bool:
    real = [str(Path(p.path).resolve()) if p.is_local else p.path for p in (inner, outer)]
    return inner.fs == outer.fs and f"{real[0]}/".startswith(f"{real[1].rstrip('/')}/")
