"""`privsieve status RUN`: how far a scan is, here or elsewhere, judged by its result files."""

from dataclasses import dataclass

from ingest.errors import PrivsieveError
from ingest.sample import printable
from ingest.storage.place import Place
from scoring.runs.attempts import Attempt
from scoring.runs.coverage import Tally, added_up
from scoring.runs.footers import all_footers
from scoring.runs.ledger import Ledger, finished, shard_id_of
from scoring.runs.record import RunRecord
from scoring.runs.results import RunListing

MAX_COUNTED = 20_000
"""Limit on the result files whose ends are read to count images; more take minutes on an object store."""


@dataclass(frozen=True)
class ShardStatus:
    """The state of a shard.

    state: done, left (some slices have no result yet), failed (its last attempt gave up; `failure` says why).
    num_slices_done: slices with a result. num_slices_begun: being scanned now, given up when a worker
    died, or interrupted, so that their first rows are kept.
    """

    shard: str
    state: str
    num_slices_done: int
    num_slices_begun: int
    failure: str | None


def shard_status(shard: str, ledger: Ledger, attempts: dict[str, list[Attempt]]) -> ShardStatus:
    shard_id = shard_id_of(shard)
    of_shard = attempts.get(shard_id, [])
    failure = next((attempt.failure for attempt in of_shard if attempt.failure), None)
    state = "done" if finished(shard, ledger) else "failed" if failure else "left"
    begun = sum(attempt.failure is None for attempt in of_shard)
    num_done = ledger.present.get(shard_id, 0).bit_count()
    return ShardStatus(printable(shard), state, num_done, begun, failure)


def image_counts(run: Place, record: RunRecord, listed: RunListing) -> Tally | str:
    """Return how many images have a row, or why they are not counted."""
    if len(listed.score_files) > MAX_COUNTED:
        return f"images are not counted in more than {MAX_COUNTED:,} result files; report counts them"
    try:
        return added_up(run, listed, all_footers(run, listed, record.settings_hash()))
    except PrivsieveError as error:
        return f"images are not counted: {error}"
