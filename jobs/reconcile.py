"""What a run has and what it lacks, judged by the result files that are there and by nothing else."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.errors import RunError
from ingest.results import score_files
from ingest.storage import Place

FILES_AT_ONCE = 16


@dataclass(frozen=True)
class Tally:
    """Rows of result files, added up. reasons: quarantined rows by reason."""

    num_rows: int
    reasons: Counter[str]

    @property
    def num_quarantined(self) -> int:
        return self.reasons.total()


def tally(run: Place) -> Tally:
    """Adds up what the footers of the result files say; RunError names a file that is damaged."""
    num_rows, reasons = 0, Counter[str]()
    with ThreadPoolExecutor(FILES_AT_ONCE) as threads:
        for counted, found in threads.map(_marks, score_files(run)):
            num_rows += counted
            reasons += found
    return Tally(num_rows, reasons)


def _marks(result: Place) -> tuple[int, Counter[str]]:
    """What `jobs.scanner` or `jobs.compact` wrote into the footer; its row count must be the file's."""
    try:
        with result.open() as stream:
            metadata = pq.read_metadata(stream)
        marks = {k.decode().removeprefix("privsieve."): v.decode() for k, v in (metadata.metadata or {}).items()}
        parts = [part.rpartition("=") for part in marks["reasons"].split(",") if part]
        if int(marks["num_rows"]) == metadata.num_rows:
            return metadata.num_rows, Counter({reason: int(count) for reason, _, count in parts})
    except (pa.ArrowInvalid, OSError, ValueError, KeyError):
        pass
    raise RunError(
        f"the score file {result.path} is damaged; delete it and run the same scan again (if compacted: restore it)"
    )
