"""The rows of a run counted from its result files, and the shards that changed during or after their scan."""

from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from itertools import groupby, tee

from ingest.errors import SHARD_REASONS, RunError
from ingest.formats import Source
from ingest.sample import printable
from ingest.storage.place import Place
from scoring.runs.footers import FILES_AT_ONCE, Footer, are_different, compact_footers, footers, shard_text
from scoring.runs.ledger import Ledger, has_any_result, result_names, result_number
from scoring.runs.results import Results, listing
from scoring.runs.rows import NO_DAMAGE, Damage, damage_in_rows, damage_of, num_of_images
from scoring.screen.guard import GuardCounts

NOTHING = sha256().hexdigest()


@dataclass(frozen=True)
class Tally:
    """Rows of all result files, added up."""

    num_rows: int
    """Number of rows of images and of damaged parts of shards."""

    num_with_category: int
    """Rows whose category is not null."""

    reasons: dict[str, int]
    """Number of quarantined images by reason, the most frequent first."""

    damage: Damage

    guard: GuardCounts
    """What a screen did with the images; nothing in runs without one, and in compacted runs."""

    changed: list[str]
    """Shards whose results do not fit each other, or not the shard as it is now."""

    @property
    def num_images(self) -> int:
        return self.num_rows - self.damage.num_parts


def tally(run: Place, settings: str, source: Source, earlier: Ledger, current: Results) -> Tally:
    """Add up the footers of the result files. RunError names a file that is damaged or of another run.

    settings: see `footers`. earlier: the ledger before this scan; only shards in it are compared with the source, since
    they may have changed between the scans. current: the results of the run.
    """
    num_rows, num_with_category, reasons, damaged = 0, 0, Counter[str](), list[tuple[str, Counter[str]]]()
    guard = GuardCounts()
    changed, left_to_compare = list[str](), list[tuple[str, set[str]]]()

    def add(footer: Footer, shard: str = "") -> None:
        nonlocal num_rows, num_with_category, reasons, guard
        guard += GuardCounts.parsed(footer.screen)
        num_rows += footer.num_rows
        num_with_category += footer.num_with_category
        reasons += footer.reasons
        if not SHARD_REASONS.isdisjoint(footer.reasons):
            damaged.append((shard, footer.reasons))

    if current.ranges is not None:  # a compacted run is finished, and its footers have no fingerprints
        for footer in compact_footers(run):
            add(footer)
        damage = damage_in_rows(run, listing(run)) if damaged else NO_DAMAGE
        return Tally(num_rows, num_with_category, num_of_images(reasons), damage, guard, changed)
    for shard, shard_footers in _by_shard(run, settings, source.shards, current.ledger):
        end, following, fingerprints, is_changed = NOTHING, 0, set[str](), False
        for number, footer in shard_footers:
            add(footer, shard)
            before, _, after = footer.listing_digests.partition(" ")
            is_changed |= number == following and before not in ("", end)  # a gap in the numbers is not a change
            end, following = after, number + 1
            fingerprints |= {footer.fingerprint} - {""}
        if is_changed or are_different(fingerprints):
            changed.append(printable(shard))
        elif fingerprints and has_any_result(shard, earlier):
            left_to_compare.append((shard, fingerprints))
    with ThreadPoolExecutor(FILES_AT_ONCE) as threads:
        fingerprints_now = threads.map(lambda comparison: source.fingerprint(comparison[0]), left_to_compare)
        compared = zip(left_to_compare, fingerprints_now, strict=True)
        changed += [printable(shard) for (shard, then), now in compared if are_different({*then, now})]
    return Tally(num_rows, num_with_category, num_of_images(reasons), damage_of(damaged), guard, changed)


def _by_shard(
    run: Place, settings: str, shards: Sequence[str], ledger: Ledger
) -> Iterator[tuple[str, Iterator[tuple[int, Footer]]]]:
    """Yield the shards with results, in order, each with the numbers and footers of its slices."""
    named, again = tee((shard, name) for shard in shards for name in result_names(shard, ledger))
    named_footers = zip(named, footers(run, (name for _, name in again), settings), strict=True)
    for shard, group in groupby(named_footers, key=lambda item: item[0][0]):
        yield shard, ((result_number(name), _checked(shard, footer)) for (_, name), footer in group)


def _checked(shard: str, footer: Footer) -> Footer:
    if footer.shard not in ("", shard_text(shard)):
        raise RunError(
            f"a result of {printable(footer.shard)} is in place of one of {printable(shard)} belongs; "
            "scan the source into a new run"
        )
    return footer
