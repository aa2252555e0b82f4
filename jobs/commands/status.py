"""`privsieve status RUN`: how far a scan is, here or elsewhere, judged by its result files."""

from dataclasses import asdict

import click

from ingest.errors import number_of
from ingest.sample import printable
from jobs.console.terminal import write_json, write_line
from jobs.runtime.progress import duration
from jobs.scanning.status import ShardStatus, image_counts, shard_status
from reports.words import percent
from scoring.runs import ATTEMPTS, RUN_LEASE
from scoring.runs.attempts import Attempt, Attempts, EngineTime, engine_time
from scoring.runs.coverage import Tally, has_all_chosen
from scoring.runs.lease import Holder, holder
from scoring.runs.ledger import shard_ids_of_others
from scoring.runs.record import read_record
from scoring.runs.results import listing, results
from scoring.runs.rows import NO_DAMAGE, num_whole_rows, scope_of
from scoring.runs.source import source_of

MAX_LISTED = 20


@click.command()
@click.argument("run_url", metavar="RUN")
@click.option("--all", "all_shards", is_flag=True, help="List every shard, finished ones too.")
@click.option("--verify", is_flag=True, help="Read every row and compare the checksums of the files' pages.")
@click.option("--format", "format_name", type=click.Choice(["table", "json"]), default="table", show_default=True)
def status(run_url: str, all_shards: bool, verify: bool, format_name: str) -> None:
    """Show how many shards of a run are done, left and failed, and who scans it."""
    run, record = read_record(run_url)
    corpus = source_of(record)
    attempts: dict[str, list[Attempt]] = {}
    for attempt in Attempts(run.at(ATTEMPTS)).all():
        attempts.setdefault(attempt.shard_id, []).append(attempt)
    listed = listing(run)
    num_verified = num_whole_rows(run, listed) if verify else None
    ledger = results(run, listed).ledger
    shards = [shard_status(shard, ledger, attempts) for shard in corpus.shards]
    if not record.is_whole:
        shards = [shard for shard in shards if shard.num_slices_done or shard.num_slices_begun or shard.failure]
    gone = shard_ids_of_others(corpus.shards, ledger)
    worker = holder(run.at(RUN_LEASE))
    counts = image_counts(run, record, listed)
    is_done = all(shard.state == "done" for shard in shards)
    if not record.is_whole and isinstance(counts, Tally):
        is_done = has_all_chosen(record, counts.num_rows, corpus.shards, ledger)
    if format_name == "json":
        scanned_by = worker.model_dump() if worker else None
        damage = counts.damage if isinstance(counts, Tally) else None
        time_of_engines = engine_time(run)
        facts = {
            "scope": scope_of(record, has_all=False, damage=damage or NO_DAMAGE) if is_done else None,
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
    for line in _counted(counts):
        write_line(line)
    for line in _engine_lines(engine_time(run)):
        write_line(line)
    if num_verified is not None:
        write_line(f"{number_of(num_verified, 'row')} read: no page of a result is damaged")
    write_line(_who(worker))
    if worker is None:
        again = "run the same scan again to continue"
        write_line(f"next: privsieve report {printable(run_url)}" if is_done else f"next: {again}")


def _lines(shards: list[ShardStatus], all_shards: bool) -> list[str]:
    by_state = {state: [s for s in shards if s.state == state] for state in ("done", "left", "failed")}
    lines = [
        f"{number_of(len(shards), 'shard')}: "
        + ", ".join(f"{len(members)} {state}" for state, members in by_state.items())
    ]
    listed = shards if all_shards else by_state["failed"] + by_state["left"]
    for s in listed if all_shards else listed[:MAX_LISTED]:
        state = "a part is done" if s.num_slices_done else "begun" if s.num_slices_begun else "not begun"
        parts = [] if s.state == "done" else [state]
        parts += [printable(s.failure)] if s.failure else []
        lines.append(f"  {s.state:6}  {s.shard}  {', '.join(parts)}")
    if not all_shards and len(listed) > MAX_LISTED:
        lines.append(f"  … and {len(listed) - MAX_LISTED} more; --all lists every shard")
    return lines


def _counted(counts: Tally | str) -> list[str]:
    if isinstance(counts, str):
        return [counts]
    num_scored = counts.num_images - counts.num_quarantined - counts.guard.num_screened
    screened = f"{counts.guard.num_screened:,} screened out, " if counts.guard.num_screened else ""
    images = (
        f"{number_of(counts.num_images, 'image')} so far: {num_scored:,} scored, {screened}"
        f"{counts.num_quarantined:,} quarantined"
    )
    if counts.damage.caution is None:
        return [images]
    return [images, f"{counts.damage.caution}: {counts.damage.named}"]


def _engine_lines(time_: EngineTime | None) -> list[str]:
    """Return lines about the engines; none if no engine of the run works in steps, or was loaded again."""
    if time_ is None:
        return []
    restarts = [f"engines were loaded again because their memory had grown: {time_.num_restarts:,} times"]
    restarts = restarts if time_.num_restarts else []
    if time_.share_short is None:
        return restarts
    parts = sorted(time_.short_s.items(), key=lambda part: -part[1])
    why = ", ".join(f"{cause} {percent(seconds / time_.seconds)}" for cause, seconds in parts)
    ahead = f"at most {time_.most_bytes_ahead / 2**20:,.0f} MiB ahead of one engine"
    return [
        f"engines had fewer requests than a step takes for {percent(time_.share_short)} of {duration(time_.seconds)}"
        f"{f' ({why})' if why else ''}; {ahead}",
        *restarts,
    ]


def _who(worker: Holder | None) -> str:
    if worker is None:
        return "no scan is running"
    age = f"seen {worker.age_s():.0f} s ago"
    if worker.is_stale():
        return f"{worker} scanned it ({age}) and is gone; run the same scan again to continue"
    return f"{worker} scans it ({age})"
