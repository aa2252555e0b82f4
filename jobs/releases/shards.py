"""A release of pictures, in shards of the layout of the source."""

import hashlib
import posixpath
from collections.abc import Iterator, Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingest.errors import IncompleteError, OutageError, StorageError, number_of
from ingest.formats import open_source
from ingest.formats.parquet_schema import NO_BYTES
from ingest.formats.released import DECISIONS, RELEASE, Kept, Written
from ingest.formats.tree import ROOT
from ingest.sample import printable
from ingest.storage.place import Place
from jobs.releases.decider import Decider
from jobs.releases.journal import Replaced, write_rest
from jobs.releases.plan import Plan
from jobs.releases.record import ReleaseRecord, UrlCounts
from jobs.runtime.progress import Feedback


class Shards:
    """The work on a release of pictures. root: its folder. decisions: as `DECISIONS_SCHEMA` says."""

    has_pictures: ClassVar[bool] = True
    """Whether pictures are copied into the release, and can be searched and looked at."""

    def written_last(self, table: str | None, out: Place, run: Place, plan: Plan, decider: Decider) -> list[Written]:
        """Write what follows the decisions for all shards."""
        return []

    def with_all_rows(self, decisions: pa.Table, is_taken: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Return what is taken down with the pictures that a list names. is_taken: shape (decisions,)."""
        return is_taken

    def rest(
        self, root: Place, staged: Place, release: ReleaseRecord, decisions: pa.Table, is_taken: npt.NDArray[np.bool_]
    ) -> tuple[Replaced, UrlCounts | None, int]:
        """Write the shards that hold pictures to remove again without them. is_taken: shape (decisions,). Returns also
        the counts of the list afterwards, and how many rows it has lost."""
        source = open_source(root.url, None, None)
        names = {printable(shard): shard for shard in source.shards}
        shards = np.array(decisions["shard"].to_pylist(), dtype=object)
        replaced, removed = dict[str, str](), list[str]()
        for shard in dict.fromkeys(shards[is_taken]):
            if shard not in names:
                raise IncompleteError(f"{root.url}: {shard} is not there; privsieve release verify says more")
            here = np.flatnonzero(shards == shard)
            places = source.picture_indices(names[shard])
            released = decisions["released_sha256"].take(pa.array(here)).to_pylist()
            files = write_rest(source, names[shard], _kept(shard, released, is_taken[here], places), staged)
            if source.format == "tree":
                above = "" if names[shard] == ROOT else names[shard]
                removed += [n for n in release.sha256 if posixpath.dirname(n) == above and n not in files]
            else:
                replaced |= files
        return (replaced, removed), None, 0

    def counted(self, root: Place, release: ReleaseRecord, feedback: Feedback) -> tuple[int, list[str]]:
        """Compare a published copy with the counts. Returns how many pictures were read, and the faults."""
        shards = _held(root, release.num_released, feedback) if release.sha256 else ()
        num_pictures, said = sum(len(hashes) for _, hashes in shards), release.num_released
        if num_pictures == said:
            return num_pictures, []
        return num_pictures, [f"{RELEASE}: it counts {said:,} pictures, and {num_pictures:,} are there"]

    def compared(
        self, root: Place, release: ReleaseRecord, decisions: pa.Table, feedback: Feedback
    ) -> tuple[int, list[str]]:
        """Compare the pictures of each shard, in order, with the decisions. Returns how many, and the faults."""
        released = _released(decisions)
        num_pictures, faults = sum(map(len, released.values())), list[str]()
        if not num_pictures:
            return 0, []
        for name, have in _held(root, num_pictures, feedback):
            expected = released.pop(name, [])
            if have != expected:
                faults.append(f"{name}: its pictures are not those of {DECISIONS}")
        faults += [f"{shard}: its pictures are not there" for shard in released]
        return num_pictures, faults

    def in_words(self, num_pictures: int) -> str:
        """Return what was compared."""
        return number_of(num_pictures, "picture")


def _kept(
    shard: str, released: Sequence[str | None], is_taken: npt.NDArray[np.bool_], places: Sequence[int] | None
) -> Kept:
    """Return what is left of a shard. IncompleteError if it has another number of pictures. released: hash of each
    picture in it, None for those that are not in it. places: the index of each picture in it; None if its samples are
    all pictures."""
    there = [(sha256, bool(goes)) for sha256, goes in zip(released, is_taken, strict=True) if sha256 is not None]
    indices = range(len(there)) if places is None else places
    if len(indices) != len(there):
        raise IncompleteError(f"{shard}: it holds {len(indices)} pictures, and {len(there)} were released")
    kept = {index: sha256 for index, (sha256, goes) in zip(indices, there, strict=True) if not goes}
    return Kept(kept, len(there) if places is None else None, members="all")


def _released(decisions: pa.Table) -> dict[str, list[str]]:
    """Return shard -> hashes of its pictures, in their order."""
    released: dict[str, list[str]] = {}
    for shard, sha256 in zip(decisions["shard"].to_pylist(), decisions["released_sha256"].to_pylist(), strict=True):
        if sha256 is not None:
            released.setdefault(shard, []).append(sha256)
    return released


def _held(root: Place, num_pictures: int | None, feedback: Feedback) -> Iterator[tuple[str, list[str]]]:
    """Yield the name of each shard that is there, and the hashes of its pictures, in their order."""
    source = open_source(root.url, None, None)
    may_be_empty = source.format == "parquet"  # cells of images that are not released, beside some that are
    with feedback.meter("verify pictures", num_pictures) as meter:
        for shard in source.shards:
            samples = (sample for slice_ in source.slices(shard) for sample in source.read(slice_))
            try:
                there = (sample for sample in samples if not (may_be_empty and sample.fault == NO_BYTES))
                hashes = [hashlib.sha256(sample.encoded).hexdigest() for sample in there]
            except OutageError:
                raise
            except StorageError:  # its content has been found to be at fault
                continue
            yield printable(shard), hashes
            meter.advance(len(hashes))
