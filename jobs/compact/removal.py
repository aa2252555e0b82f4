"""Step 3 of `compact`: what the compacted files replace is removed, and nothing else."""

import posixpath
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from ingest.errors import RunError
from ingest.storage.place import Place
from scoring.runs.layout import COMPACT, MANIFEST, SCORES
from scoring.runs.lease import Lease
from scoring.runs.ledger import shard_id_of_result
from scoring.runs.results import Manifest, manifest, results

REMOVED_AT_ONCE = 1_000
REMOVERS = 16
"""An object store takes its time for each file, whatever the others do."""


def remove_slices(run: Place, held: Lease) -> int:
    """Step 3: removes the result files whose rows the compacted files hold, and no others; returns how many."""
    names, shard_ids = run.at(SCORES).names(), results(run).ledger.present
    replaced = [name for name in names if shard_id_of_result(name) in shard_ids]
    compacted = _seen(run, len(replaced))
    for start in range(0, len(replaced), REMOVED_AT_ONCE):
        held.confirm()
        _remove(run.at(SCORES), replaced[start : start + REMOVED_AT_ONCE])
    held.confirm()
    _remove(run.at(COMPACT), sorted(set(run.at(COMPACT).names()) - {file.name for file in compacted.files}))
    return len(replaced)


def _seen(run: Place, num_slices_left: int) -> Manifest:
    """The manifest as it lies there. RunError where the files are not what it says."""
    compacted = manifest(run)
    assert compacted is not None
    sizes = {posixpath.basename(entry["name"]): entry["size"] for entry in run.at(COMPACT).entries()}
    wrong = next((file.name for file in compacted.files if sizes.get(file.name) != file.num_bytes), None)
    if wrong is not None:
        is_whole = num_slices_left == compacted.num_slices
        remedy = f"delete {MANIFEST} and compact again" if is_whole else "restore it from a copy"
        raise RunError(f"{run.at(COMPACT, wrong).path} is not what {MANIFEST} says; nothing was removed; {remedy}")
    return compacted


def _remove(folder: Place, names: Sequence[str]) -> None:
    with ThreadPoolExecutor(REMOVERS) as threads:
        for _ in threads.map(lambda name: folder.at(name).remove(), names):
            pass
