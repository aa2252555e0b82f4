"""What a run has and what it lacks, judged by the result files that are there and by nothing else."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.errors import RunError, StorageError
from ingest.results import score_files
from ingest.retries import is_of_storage, reason_of
from ingest.storage import Place

FILES_AT_ONCE = 16

NOTHING = sha256().hexdigest()


@dataclass(frozen=True)
class Tally:
    """Rows of result files, added up. reasons: quarantined rows by reason.

    num_with_category: rows whose category is not null. changed: shards whose results are of two states of the source.
    foreign: a slice's result that was made with other settings, the first such.
    """

    num_rows: int
    num_with_category: int
    reasons: Counter[str]
    changed: list[str]
    foreign: str | None

    @property
    def num_quarantined(self) -> int:
        return self.reasons.total()


@dataclass(frozen=True)
class _Marks:
    """What a footer tells. shard, before, after, settings: only of slices, see `jobs.scanner.SliceScanner`."""

    num_rows: int
    num_with_category: int
    reasons: Counter[str]
    shard: str
    before: str
    after: str
    settings: str | None = None


def tally(run: Place, settings_hash: str) -> Tally:
    """Adds up what the footers of the result files say; RunError names a file that is damaged.

    settings_hash: what slices must have been scanned with.
    """
    num_rows, num_with_category, reasons, changed = 0, 0, Counter[str](), list[str]()
    last, foreign = _Marks(0, 0, reasons, "", "", ""), None
    with ThreadPoolExecutor(FILES_AT_ONCE) as threads:
        files = score_files(run)
        for file, marks in zip(files, threads.map(_marks, files), strict=True):
            if marks.settings not in (None, settings_hash):
                foreign = foreign or file.path
            num_rows += marks.num_rows
            num_with_category += marks.num_with_category
            reasons += marks.reasons
            follows = marks.before == (last.after if marks.shard == last.shard else NOTHING)
            if marks.shard and not follows and marks.shard not in changed:
                changed.append(marks.shard)
            last = marks
    return Tally(num_rows, num_with_category, reasons, changed, foreign)


def _marks(result: Place) -> _Marks:
    """What `jobs.scanner` or `jobs.compact` wrote into the footer; its row count must be the file's."""
    try:
        with result.open() as stream:
            metadata = pq.read_metadata(stream)
        marks = {k.decode().removeprefix("privsieve."): v.decode() for k, v in (metadata.metadata or {}).items()}
        parts = [part.rpartition("=") for part in marks["reasons"].split(",") if part]
        before, _, after = marks.get("chain", "").partition(" ")
        if int(marks["num_rows"]) == metadata.num_rows:
            reasons = Counter({reason: int(count) for reason, _, count in parts})
            shard = marks.get("shard", "") if before else ""
            counts = (metadata.num_rows, _num_with_category(metadata))
            return _Marks(*counts, reasons, shard, before, after, marks.get("settings"))
    except (pa.ArrowInvalid, OSError, ValueError, KeyError) as error:
        if is_of_storage(error):
            raise StorageError(f"cannot read the score file {result.path}: {reason_of(error)}") from None
    raise RunError(
        f"the score file {result.path} is damaged; delete it and run the same scan again (if compacted: restore it)"
    )


def _num_with_category(metadata: pq.FileMetaData) -> int:
    """By the column's statistics, without reading it."""
    place = metadata.schema.names.index("category")
    num_null = 0
    for number in range(metadata.num_row_groups):
        column = metadata.row_group(number).column(place)
        num_null += column.statistics.null_count if column.is_stats_set else 0
    return int(metadata.num_rows - num_null)
