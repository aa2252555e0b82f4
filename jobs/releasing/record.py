"""The record of a release, and the names of its own files."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from ingest.formats.members import Members
from ingest.formats.released import DECISIONS, RELEASE
from ingest.storage.place import Place

UNFINISHED = "release.unfinished.json"
"""Written first and removed last: what --resume continues."""

DONE = "release.unfinished"
"""Folder with two files per finished shard: the record of what was written, and the decisions."""

RELEASE_LEASE = "release.lease.json"
"""Which process writes the release, while one does."""

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
