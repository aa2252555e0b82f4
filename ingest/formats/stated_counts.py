"""Numbers of pictures that img2dataset wrote next to its tars. They are known without reading a tar, and may be wrong:
they are shown and never decide what is scanned.

00000_stats.json holds the number of pictures that were downloaded; if it is missing, 00000.parquet has a row for
each picture that was to be downloaded, with the status `success` if it was.
"""

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from ingest.errors import PrivsieveError, number_of
from ingest.formats import Source, parquet, webdataset
from ingest.sample import printable
from ingest.storage.given_files import given_content
from ingest.storage.place import Place

MAX_STATS_BYTES = 2**20
MAX_COUNT = 10**9
FILES_AT_ONCE = 32
NUM_PROBED = 3
"""Number of tars, spread over the source, that are probed: if none has such a file, the others are not read."""


@dataclass(frozen=True)
class StatedCounts:
    """The numbers that were read."""

    by_shard: Mapping[str, int]
    """Shard -> pictures; shards without a number are left out."""

    num_shards: int

    @property
    def num_images(self) -> int | None:
        """Pictures of the whole source; shards without a number count as the mean of the others. None without any
        number."""
        if not self.by_shard:
            return None
        return round(sum(self.by_shard.values()) * self.num_shards / len(self.by_shard))

    def difference(self, num_read: Mapping[str, int]) -> str | None:
        """Return a line about shards with another number, or None. num_read: shard -> pictures, as read."""
        wrong = [shard for shard, num in num_read.items() if self.by_shard.get(shard, num) != num]
        if not wrong:
            return None
        first = wrong[0]
        return (
            f"{printable(first)} holds {num_read[first]:,} pictures, and {self.by_shard[first]:,} are stated there "
            f"({number_of(len(wrong), 'such shard')} of {len(num_read):,} compared); the number read is used"
        )


def stated_counts(source: Source) -> StatedCounts:
    """Read small files, several at once. Missing, damaged and unreadable ones are left out."""
    if source.format != "webdataset" or not any(
        _stated(source.root, shard) is not None for shard in _spread(source.shards)
    ):
        return StatedCounts({}, len(source.shards))
    with ThreadPoolExecutor(FILES_AT_ONCE) as threads:
        counts = zip(source.shards, threads.map(lambda shard: _stated(source.root, shard), source.shards), strict=True)
        return StatedCounts({shard: num for shard, num in counts if num is not None}, len(source.shards))


def _spread(shards: Sequence[str]) -> list[str]:
    last = len(shards) - 1
    return [shards[number] for number in sorted({last * n // (NUM_PROBED - 1) for n in range(NUM_PROBED)})]


def _stated(root: Place, shard: str) -> int | None:
    suffix = next((known for known in webdataset.SUFFIXES if shard.lower().endswith(known)), "")
    stem = shard[: len(shard) - len(suffix)]
    try:
        content = given_content(root.at(f"{stem}_stats.json"), "counts", MAX_STATS_BYTES)
        num = json.loads(content)["successes"]
        if isinstance(num, int) and not isinstance(num, bool) and 0 <= num <= MAX_COUNT:
            return num
    except (PrivsieveError, ValueError, LookupError, TypeError, RecursionError):
        pass
    try:
        return parquet.num_downloaded(root, f"{stem}{parquet.SUFFIX}")
    except PrivsieveError:
        return None
