"""What a run has and what it lacks, judged by the result files that are there and by nothing else."""

from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.errors import RunError
from ingest.storage import Place

FOOTERS_AT_ONCE = 16


@dataclass(frozen=True)
class Tally:
    """Rows of result files, added up. reasons: quarantined rows by reason."""

    num_rows: int
    reasons: Counter[str]

    @property
    def num_quarantined(self) -> int:
        return self.reasons.total()


def tally(scores: Place, names: Iterable[str]) -> Tally:
    """Adds up what the footers say; rows themselves are not read. RunError names a file that is damaged."""
    num_rows, reasons = 0, Counter[str]()
    with ThreadPoolExecutor(FOOTERS_AT_ONCE) as threads:
        for marks in threads.map(lambda name: _marks(scores.at(name)), names):
            num_rows += int(marks["num_rows"])
            for part in filter(None, marks["reasons"].split(",")):
                reason, _, count = part.rpartition("=")
                reasons[reason] += int(count)
    return Tally(num_rows, reasons)


def _marks(result: Place) -> dict[str, str]:
    """The footer metadata that `jobs.scanner` wrote; its row count must be the file's."""
    try:
        with result.open() as stream:
            metadata = pq.read_metadata(stream)
        marks = {k.decode().removeprefix("privsieve."): v.decode() for k, v in (metadata.metadata or {}).items()}
        if int(marks["num_rows"]) == metadata.num_rows and "reasons" in marks:
            return marks
    except (pa.ArrowInvalid, OSError, ValueError, KeyError):
        pass
    raise RunError(f"the score file {result.path} is damaged; delete it and run the same scan again")
