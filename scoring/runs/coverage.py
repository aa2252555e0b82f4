"""Whether a run has a row for all that can be read of its source.

`coverage` judges by file names alone. `tally` counts the rows from the footers of the result files, and finds the
shards that changed during or after their scan.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from hashlib import sha256
from itertools import groupby, tee

from fsspec.core import split_protocol

from ingest.errors import SHARD_REASONS, SourceError, StorageError, number_of
from ingest.formats import Source
from ingest.sample import printable
from ingest.storage.place import EXTRAS, Place, is_local
from scoring.runs import RUN_LEASE
from scoring.runs.footers import FILES_AT_ONCE, Footer, are_different, compact_footers, footers
from scoring.runs.lease import holder
from scoring.runs.ledger import (
    Ledger,
    finished,
    finished_by_id,
    has_any_result,
    result_names,
    result_number,
    shard_id_of,
)
from scoring.runs.record import RunRecord
from scoring.runs.results import Results, RunListing
from scoring.runs.rows import Damage, damage_in_rows, damage_of, num_of_images
from scoring.runs.source import source_of
from scoring.screen.guard import GuardCounts


@dataclass(frozen=True)
class Coverage:
    """Whether a scan is complete. Unreadable parts of damaged shards are counted apart (`Damage`)."""

    is_complete: bool | None
    num_shards: int | None
    """Number of shards of the source; None if it cannot be listed."""

    num_unfinished_shards: int
    """Number of known shards that have images without a row."""

    num_rows: int
    """Number of rows of images and of damaged parts of shards, which may be chosen too."""

    num_chosen: int | None
    """Number of images that `--sample` or `--limit` asked for; None without these options."""

    scanner: str | None
    """Running scan, as "process 7 on HOST"; None if there is none."""

    @property
    def has_all(self) -> bool:
        """Whether `--limit` asked for more images than the source has."""
        return bool(self.is_complete) and self.num_chosen is not None and self.num_rows < self.num_chosen

    @property
    def num_without_row(self) -> int | None:
        """Images that have no row yet, as far as that is known: an unread shard holds an unknown number."""
        if self.is_complete:
            return 0
        return None if self.is_complete is None or self.num_chosen is None else self.num_chosen - self.num_rows

    @property
    def warning(self) -> str | None:
        """Warning for readers if the rows are not the whole source, else None."""
        if self.is_complete:
            return None
        if self.num_chosen is not None:
            rest = f"{self.num_rows:,} of {self.num_chosen:,} chosen images have a row"
        elif self.num_shards is None:
            begun = number_of(self.num_unfinished_shards, "shard")
            rest = f"the source cannot be listed now{f', {begun} not finished' if self.num_unfinished_shards else ''}"
        else:
            rest = f"{self.num_unfinished_shards:,} of {self.num_shards:,} shards have images without a row"
        if self.scanner is not None:
            return f"SCAN IN PROGRESS by {self.scanner}: {rest}"
        if self.is_complete is None:
            why = "" if self.num_chosen is None else ", or the source has no more"
            return f"MAY BE UNFINISHED: {rest}{why}"
        return f"UNFINISHED: {rest}; run the same scan again to finish it"


def coverage(run: Place, record: RunRecord, current: Results, num_rows: int) -> Coverage:
    """Judge coverage. current: results from before the rows were counted, so that none is called complete too early.
    The source is listed only if the results alone do not decide it."""
    worker = holder(run.at(RUN_LEASE))
    scanner = str(worker) if worker is not None and not worker.is_stale() and not worker.is_here else None
    num_begun = len(current.ledger)
    num_chosen = record.num_chosen
    if current.are_all_compacted or (num_chosen is not None and num_rows == num_chosen):
        return Coverage(True, num_begun, 0, num_rows, num_chosen, scanner)
    num_cut = sum(not finished_by_id(shard_id, current.ledger) for shard_id in current.ledger.present)
    shards = _shards(record)
    if shards is None:
        is_known = num_cut or scanner or num_chosen is not None
        return Coverage(False if is_known else None, None, num_cut, num_rows, num_chosen, scanner)
    if num_chosen is None:
        num_left = sum(not finished(shard, current.ledger) for shard in shards)
        return Coverage(not num_left, len(shards), num_left, num_rows, None, scanner)
    if record.limit is not None and not num_cut and not scanner:
        is_whole = has_all_chosen(record, num_rows, shards, current.ledger)
        return Coverage(True if is_whole else None, len(shards), 0, num_rows, num_chosen, None)
    return Coverage(False, len(shards), num_cut, num_rows, num_chosen, scanner)


def has_all_chosen(record: RunRecord, num_rows: int, shards: Sequence[str], ledger: Ledger) -> bool:
    """Return whether a scan with --sample or --limit has a row for all images that it chose; True without these
    options. shards: of the source. It may have fewer images than --limit wanted; then each shard has a result."""
    if record.sample is None and record.limit is None:
        return True
    is_all_there_is = record.limit is not None and all(has_any_result(shard, ledger) for shard in shards)
    return num_rows == record.num_chosen or is_all_there_is


def _shards(record: RunRecord) -> tuple[str, ...] | None:
    """Return the source's shards; None if it cannot be listed, or if its URL names a host. A run.json may come from
    someone else, so a report must not contact hosts that it names. `status` and `scan` do."""
    is_chained = "::" in record.source
    if not is_local(record.source) and (is_chained or split_protocol(record.source)[0] not in EXTRAS):
        return None
    try:
        return source_of(record).shards
    except (SourceError, StorageError):
        return None


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
    """What a screen did with the images; nothing in runs without one."""

    num_hidden: int
    """Hidden files in tars, which were not scanned; not counted in compacted shards."""

    changed: list[str]
    """Shards whose results do not fit each other, or not the shard as it is now."""

    @property
    def num_images(self) -> int:
        return self.num_rows - self.damage.num_parts

    @property
    def num_quarantined(self) -> int:
        return sum(self.reasons.values())


def tally(run: Place, settings: str, source: Source, earlier: Ledger, current: Results) -> Tally:
    """Add up the footers of the result files. RunError names a file that is damaged or of another run.

    settings: see `footers`. earlier: the ledger before this scan; only shards in it are compared with the source, since
    they may have changed between the scans. current: the results of the run.
    """
    changed, left_to_compare = list[str](), list[tuple[str, set[str]]]()

    def compared_with_each_other() -> Iterator[Footer]:
        loose = [shard for shard in source.shards if shard_id_of(shard) not in current.ranges]
        named, again = tee((shard, name) for shard in loose for name in result_names(shard, current.ledger))
        named_footers = zip(named, footers(run, (name for _, name in again), settings), strict=True)
        for shard, group in groupby(named_footers, key=lambda item: item[0][0]):
            end, following, fingerprints, is_changed = sha256().hexdigest(), 0, set[str](), False
            for (_, name), footer in group:
                yield footer
                number, (before, _, after) = result_number(name), footer.listing_digests.partition(" ")
                is_changed |= number == following and before != end  # a gap in the numbers is not a change
                end, following = after, number + 1
                fingerprints |= {footer.fingerprint} - {""}
            if is_changed or are_different(fingerprints):
                changed.append(printable(shard))
            elif fingerprints and has_any_result(shard, earlier):
                left_to_compare.append((shard, fingerprints))

    def all_footers() -> Iterator[Footer]:
        yield from compact_footers(run, current.listed)
        yield from compared_with_each_other()

    for shard in source.shards if current.ranges else ():
        blocks = {f" {rows.blocks_sha256}" for rows in current.of(shard) if rows.blocks_sha256}
        if blocks and has_any_result(shard, earlier):
            left_to_compare.append((shard, blocks))
    sums = added_up(run, current.listed, all_footers())
    with ThreadPoolExecutor(FILES_AT_ONCE) as threads:
        fingerprints_now = threads.map(lambda comparison: source.fingerprint(comparison[0]), left_to_compare)
        compared = zip(left_to_compare, fingerprints_now, strict=True)
        changed += [printable(shard) for (shard, then), now in compared if are_different({*then, now})]
    return replace(sums, changed=changed)


def added_up(run: Place, listed: RunListing, all_footers: Iterable[Footer]) -> Tally:
    """Add up footers. listed: the files of the run; damaged shards are in the rows of compacted ones."""
    num_rows, num_with_category, reasons, damaged = 0, 0, Counter[str](), list[tuple[str, Counter[str]]]()
    guard, num_hidden = GuardCounts(), 0
    for footer in all_footers:
        num_rows += footer.num_rows
        num_with_category += footer.num_with_category
        reasons += footer.reasons
        if not SHARD_REASONS.isdisjoint(footer.reasons):
            damaged.append((footer.shard, footer.reasons))
        guard += GuardCounts.parsed(footer.screen)
        num_hidden += int(footer.hidden) if footer.hidden.isdecimal() else 0
    damage = damage_in_rows(run, listed) if damaged and listed.manifest else damage_of(damaged)
    return Tally(num_rows, num_with_category, num_of_images(reasons), damage, guard, num_hidden, [])
