"""Beginning or continuing a run: its record is written, or compared with the one that is there."""

import json

from ingest.errors import RunError
from ingest.storage.place import PART, Place, place
from scoring.runs.layout import ATTEMPTS, CANARY, PROBE, RUN_LEASE, RUN_RECORD, SCORES
from scoring.runs.record import NOT_COMPARED, RunRecord, differences, open_run


def refuse_other(url: str, record: RunRecord) -> RunRecord | None:
    """Return the record of the run at `url`, or None. RunError if it differs, or the folder holds other files."""
    root = place(url)
    if not root.at(RUN_RECORD).exists():
        try:
            refuse_other_files(root, url)
        except RunError:
            if not root.at(RUN_RECORD).exists():  # else another scan has begun the run meanwhile
                raise
        else:
            return None
    before = open_run(url)[1]
    # The engine's description says what can change the answers; another version of privsieve alone does not.
    same: dict[str, object] = {name: getattr(before, name) for name in ("privsieve", *NOT_COMPARED)}
    # The draw comes after the first check.
    same |= {name: getattr(before, name) for name in ("drawn", "num_in_shards") if getattr(record, name) is None}
    different = differences(before, record.model_copy(update=same))
    if different:
        remedy = "use another --run"
        if before.hash_list != record.hash_list:
            remedy = f"give the hash list with which this run began, {'' if before.hash_list else 'none, '}or {remedy}"
        if before.screen != record.screen:
            remedy = (
                f"give the screen with which this run began, {'' if before.screen else 'none, '}or use another --run"
            )
        raise RunError(f"{url} was scanned with other settings: {different}; {remedy}")
    return before


def start_or_continue(url: str, record: RunRecord) -> RunRecord:
    """Write `run.json` if it does not exist, and return the record. Needs the lease. See `refuse_other`."""
    before = refuse_other(url, record)
    if before is None:
        _write(url, record)
    return before or record


def with_built(url: str, record: RunRecord, built_with: dict[str, bool | int | float | str]) -> RunRecord:
    """Add the settings of a built engine to `run.json`, unless they are there. Needs the lease."""
    if built_with in record.built_with:
        return record
    record = record.model_copy(update={"built_with": (*record.built_with, built_with)})
    _write(url, record)
    return record


def _write(url: str, record: RunRecord) -> None:
    place(url).at(RUN_RECORD).write((json.dumps(record.model_dump(), indent=2) + "\n").encode())


def refuse_other_files(root: Place, url: str) -> None:
    """Raise RunError if `root`, without a run, holds files other than those that a scan makes first."""
    if not all(name == RUN_LEASE or _is_unfinished(name) for name in root.names()):
        raise RunError(f"{url} holds other files and is not a run; use a new folder for --run")


def remove_unfinished(run: Place) -> None:
    """Remove files that killed workers left half written. Needs the lease, and no worker may run."""
    for folder in (run.at(name) for name in (SCORES, ATTEMPTS, CANARY) if run.is_local):
        for name in folder.names():
            if name.endswith(PART):
                folder.at(name).remove()
    for name in run.names():
        if name.startswith(PROBE):
            run.at(name).remove()


def _is_unfinished(name: str) -> bool:
    return name.endswith(PART) and name.startswith((RUN_LEASE, RUN_RECORD, PROBE))
