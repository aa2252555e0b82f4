"""`privsieve status RUN`: how far a scan is, here or elsewhere, judged by its result files."""

from collections import Counter
from dataclasses import asdict, dataclass

import click

from ingest.errors import PrivsieveError, number_of
from ingest.formats import open_source
from ingest.sample import printable
from ingest.storage.place import Place
from jobs.console.terminal import write_json, write_line
from jobs.runtime.progress import duration
from reports.words import percent
from scoring.runs import ATTEMPTS, RUN_LEASE
from scoring.runs.attempts import Attempt, Attempts, EngineTime, engine_time
from scoring.runs.coverage import has_all_chosen
from scoring.runs.footers import compact_footers, footers
from scoring.runs.lease import Holder, holder
from scoring.runs.ledger import Ledger, finished, shard_id_in, shard_id_of_result, shard_ids_of_others
from scoring.runs.record import RunRecord, read_record
from scoring.runs.results import RunListing, listing, results
from scoring.runs.rows import NO_DAMAGE, Damage, damage_in_rows, damage_of, num_whole_rows, scope_of
from scoring.screen.guard import GuardCounts

MAX_LISTED = 20

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


@click.command()
@click.argument("run_url", metavar="RUN")
@click.option("--all", "all_shards", is_flag=True, help="List every shard, finished ones too.")
@click.option("--verify", is_flag=True, help="Read every row and compare the checksums of the files' pages.")
@click.option("--format", "format_name", type=click.Choice(["table", "json"]), default="table", show_default=True)
def status(run_url: str, all_shards: bool, verify: bool, format_name: str) -> None:
    """Show how many shards of a run are done, left and failed, and who scans it."""
    run, record = read_record(run_url)
    corpus = open_source(record.source, record.format, record.category)
    attempts: dict[str, list[Attempt]] = {}
    for attempt in Attempts(run.at(ATTEMPTS)).all():
        attempts.setdefault(attempt.shard_id, []).append(attempt)
    listed = listing(run)
    num_verified = num_whole_rows(run, listed) if verify else None
    ledger = results(run, listed).ledger
    shards = [_status(shard, ledger, attempts) for shard in corpus.shards]
    if not record.is_whole:
        shards = [shard for shard in shards if shard.num_slices_done or shard.num_slices_begun or shard.failure]
    gone = shard_ids_of_others(corpus.shards, ledger)
    worker = holder(run.at(RUN_LEASE))
    if format_name == "json":
        scanned_by = worker.model_dump() if worker else None
        counts = _counts(run, record, listed)
        damage = counts.damage if isinstance(counts, ImageCounts) else None
        time_of_engines = engine_time(run)
        facts = {
            "scope": scope_of(record, has_all=False, damage=damage or NO_DAMAGE),
            "scanned_by": scanned_by,
            "gone": gone,
            "damage": damage and asdict(damage),
            "engine_time": time_of_engines and time_of_engines.model_dump(),
            **({"num_rows_verified": num_verified} if verify else {}),
            "shards": [asdict(shard) for shard in shards],
        }
        write_json(facts)
        return
    if not record.is_whole:
        write_line(f"{record.scope}; only shards that were begun are listed")
    for line in _lines(shards, all_shards):
        write_line(line)
    if gone:
        are = "is" if len(gone) == 1 else "are"
        write_line(
            f"  {number_of(len(gone), 'shard')} with results {are} gone from the source ({printable(gone[0])} first)"
        )
    counts = _counts(run, record, listed)
    for line in _counted(counts):
        write_line(line)
    for line in _engine_lines(engine_time(run)):
        write_line(line)
    if num_verified is not None:
        write_line(f"{number_of(num_verified, 'row')} read: no page of a result is damaged")
    write_line(_who(worker))
    if worker is None:
        is_done = all(shard.state == "done" for shard in shards)
        if not record.is_whole and isinstance(counts, ImageCounts):
            is_done = has_all_chosen(record, counts.num_images + counts.damage.num_parts, corpus.shards, ledger)
        again = "run the same scan again to continue"
        write_line(f"next: privsieve report {printable(run_url)}" if is_done else f"next: {again}")


def _status(shard: str, ledger: Ledger, attempts: dict[str, list[Attempt]]) -> ShardStatus:
    shard_id = shard_id_in(shard, ledger)
    own = attempts.get(shard_id, [])
    failure = next((attempt.failure for attempt in own if attempt.failure), None)
    state = "done" if finished(shard, ledger) else "failed" if failure else "left"
    begun = sum(attempt.failure is None for attempt in own)
    num_done = ledger.present.get(shard_id, 0).bit_count()
    return ShardStatus(printable(shard), state, num_done, begun, failure)


def _lines(shards: list[ShardStatus], all_shards: bool) -> list[str]:
    by_state = {state: [s for s in shards if s.state == state] for state in ("done", "left", "failed")}
    lines = [
        f"{number_of(len(shards), 'shard')}: "
        + ", ".join(f"{len(members)} {state}" for state, members in by_state.items())
    ]
    listed = shards if all_shards else by_state["failed"] + by_state["left"]
    for s in listed if all_shards else listed[:MAX_LISTED]:
        parts = [f"{s.num_slices_done} slices done"]
        parts += [f"{s.num_slices_begun} begun"] if s.num_slices_begun else []
        parts += [printable(s.failure)] if s.failure else []
        lines.append(f"  {s.state:6}  {s.shard}  {', '.join(parts)}")
    if not all_shards and len(listed) > MAX_LISTED:
        lines.append(f"  … and {len(listed) - MAX_LISTED} more; --all lists every shard")
    return lines


@dataclass(frozen=True)
class ImageCounts:
    """Images that have a row so far, from the ends of the result files."""

    num_images: int
    num_quarantined: int
    num_screened: int
    damage: Damage


def _counts(run: Place, record: RunRecord, listed: RunListing) -> ImageCounts | str:
    """Return how many images have a row, or why they are not counted."""
    if len(listed.score_files) > MAX_COUNTED:
        return f"images are not counted in more than {MAX_COUNTED:,} result files; report counts them"
    settings, names = record.settings_hash(), listed.score_files
    counted = compact_footers(run, listed.manifest) if listed.manifest else footers(run, names, settings)
    num_rows, num_screened, reasons, damaged = 0, 0, Counter[str](), list[tuple[str, Counter[str]]]()
    try:
        for name, footer in zip(names, counted, strict=True):
            num_rows += footer.num_rows
            reasons += footer.reasons
            num_screened += GuardCounts.parsed(footer.screen).num_screened
            damaged.append((footer.shard or shard_id_of_result(name), footer.reasons))
        damage = damage_of(damaged)
        if damage.num_parts and listed.manifest is not None:
            damage = damage_in_rows(run, listed)
    except PrivsieveError as error:
        return f"images are not counted: {error}"
    return ImageCounts(num_rows - damage.num_parts, reasons.total() - damage.num_parts, num_screened, damage)


def _counted(counts: ImageCounts | str) -> list[str]:
    if isinstance(counts, str):
        return [counts]
    num_scored = counts.num_images - counts.num_quarantined - counts.num_screened
    screened = f"{counts.num_screened:,} screened out, " if counts.num_screened else ""
    images = (
        f"{number_of(counts.num_images, 'image')} so far: {num_scored:,} scored, {screened}"
        f"{counts.num_quarantined:,} quarantined"
    )
    if counts.damage.caution is None:
        return [images]
    return [images, f"{counts.damage.caution}: {counts.damage.named}"]


def _engine_lines(time_: EngineTime | None) -> list[str]:
    """Return lines about the engines; none if no engine of the run works in steps."""
    if time_ is None or time_.share_short is None:
        return []
    parts = sorted(time_.short_s.items(), key=lambda part: -part[1])
    why = ", ".join(f"{cause} {percent(seconds / time_.seconds)}" for cause, seconds in parts)
    ahead = f"at most {time_.most_bytes_ahead / 2**20:,.0f} MiB ahead of one engine"
    return [
        f"engines had fewer requests than a step takes for {percent(time_.share_short)} of {duration(time_.seconds)}"
        f"{f' ({why})' if why else ''}; {ahead}"
    ]


def _who(worker: Holder | None) -> str:
    if worker is None:
        return "no scan is running"
    age = f"seen {worker.age_s():.0f} s ago"
    if worker.is_stale():
        return f"{worker} scanned it ({age}) and is gone; run the same scan again to continue"
    return f"{worker} scans it ({age})"
