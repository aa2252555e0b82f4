"""`privsieve status RUN`: how far a scan is, here or elsewhere, judged by its result files."""

from collections import Counter
from dataclasses import dataclass

from ingest.errors import PrivsieveError
from ingest.sample import printable
from ingest.storage.place import Place
from scoring.runs.attempts import Attempt
from scoring.runs.footers import all_footers
from scoring.runs.ledger import Ledger, finished, shard_id_in, shard_id_of_result
from scoring.runs.record import RunRecord
from scoring.runs.results import RunListing
from scoring.runs.rows import Damage, damage_in_rows, damage_of
from scoring.screen.guard import GuardCounts

MAX_COUNTED = 20_000
"""Limit on the result files whose ends are read to count images; more take minutes on an object store."""


@dataclass(frozen=True)
class ShardStatus:
    """The state of a shard.

    state: done, left (some slices have no result yet), failed (its last attempt gave up; `failure` says why).
    num_slices_done: slices with a result. num_slices_begun: being scanned now, or given up when a worker died.
    """

    shard: str
    state: str
    num_slices_done: int
    num_slices_begun: int
    failure: str | None


def shard_status(shard: str, ledger: Ledger, attempts: dict[str, list[Attempt]]) -> ShardStatus:
    shard_id = shard_id_in(shard, ledger)
    own = attempts.get(shard_id, [])
    failure = next((attempt.failure for attempt in own if attempt.failure), None)
    state = "done" if finished(shard, ledger) else "failed" if failure else "left"
    begun = sum(attempt.failure is None for attempt in own)
    num_done = ledger.present.get(shard_id, 0).bit_count()
    return ShardStatus(printable(shard), state, num_done, begun, failure)


@dataclass(frozen=True)
class ImageCounts:
    """Images that have a row so far, from the ends of the result files."""

    num_images: int
    num_quarantined: int
    num_screened: int
    damage: Damage


def image_counts(run: Place, record: RunRecord, listed: RunListing) -> ImageCounts | str:
    """Return how many images have a row, or why they are not counted."""
    if len(listed.score_files) > MAX_COUNTED:
        return f"images are not counted in more than {MAX_COUNTED:,} result files; report counts them"
    num_rows, num_screened, reasons, damaged = 0, 0, Counter[str](), list[tuple[str, Counter[str]]]()
    try:
        for footer in all_footers(run, listed, record.settings_hash()):
            num_rows += footer.num_rows
            reasons += footer.reasons
            num_screened += GuardCounts.parsed(footer.screen).num_screened
            damaged.append((footer.shard or shard_id_of_result(footer.file), footer.reasons))
        damage = damage_of(damaged)
        if damage.num_parts and listed.manifest is not None:
            damage = damage_in_rows(run, listed)
    except PrivsieveError as error:
        return f"images are not counted: {error}"
    return ImageCounts(num_rows - damage.num_parts, reasons.total() - damage.num_parts, num_screened, damage)
