"""The scan on Ray Data: shard numbers -> slices (tasks that list) -> result files (actors that score) -> counts.

Only locators and counts travel; bytes are read where they are scored. One row is one slice, which Ray can neither
split nor merge (`jobs.runtime.cluster` keeps blocks at one row). Ray repeats what a lost machine did; that is harmless,
since a slice always gives the same file.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import ray.data

from ingest.errors import PrivsieveError, SourceError, StorageError
from ingest.formats import Source
from ingest.sample import printable
from jobs.scanning.scanner import SliceScanner
from jobs.scanning.selection import Chosen, selected
from jobs.scanning.settings import ScanSettings
from jobs.scanning.watchdog import Watchdog
from scoring.runs.attempts import GIVE_UP_AFTER_DEATHS, Attempts, listing_of
from scoring.runs.layout import ATTEMPTS
from scoring.runs.ledger import Done, file_name, has_result, only, stem_in

ENGINES_PER_SLICER = 4
"""Listing a shard costs far less than scoring it, and each listing process takes a moment to start."""

SLICER_CPUS = 0.05
"""Taken from what each engine asks for, so that wherever engines run, a slicer fits too: where machines are lost, the
engines that are left would otherwise hold every CPU and wait for slices for ever."""

SHARDS_PER_TASK = 100
"""What a lost machine makes the listing repeat, at most."""


@dataclass(frozen=True)
class EnginePool:
    """How many engine actors, and what Ray sets aside for each.

    size: from the start. max_size: Ray adds actors up to it while slices wait, and gives idle ones back.
    """

    size: int
    max_size: int
    num_cpus: float = 1
    num_gpus: float = 0


def scan_slices(
    settings: ScanSettings, left: list[str], chosen: Chosen, engines: EnginePool, done: Done
) -> Iterator[dict[str, Any]]:
    """Scans the slices of the shards `left` that are not `done`; yields `SliceScanner`'s counts as slices finish."""
    source, attempts = settings.source, Attempts(settings.run.at(ATTEMPTS))
    done = only(left, done)

    def slice_shard(row: dict[str, Any]) -> Iterator[dict[str, str]]:
        shard = left[int(row["number"])]
        listing, watchdog, before = listing_of(stem_in(shard, done)), Watchdog(settings.stall_s), sha256()
        try:
            if attempts.begin(listing).deaths >= GIVE_UP_AFTER_DEATHS:
                raise StorageError(f"{printable(shard)}: its listing has killed a worker {GIVE_UP_AFTER_DEATHS} times")
            about = {"state": source.state(shard), "fingerprint": source.fingerprint(shard), "failure": ""}
            pieces = selected(source.slices(shard), shard, None if chosen is None else chosen[shard])
            for piece in watchdog.watch(pieces):
                text, after = piece.to_json(), before.copy()
                after.update(text.encode())
                if not has_result(shard, piece.number, piece.is_last, done):
                    chain = f"{before.hexdigest()} {after.hexdigest()}"
                    name = file_name(shard, piece.number, piece.is_last, done)
                    yield about | {"slice": text, "name": name, "chain": chain}
                before = after
            attempts.end(listing)
        except PrivsieveError as error:
            with suppress(StorageError):
                attempts.fail(listing, str(error))
            nothing = dict.fromkeys(("state", "fingerprint", "failure", "slice", "name", "chain"), "")
            yield nothing | {"failure": str(error)}

    num_slicers = min(len(left), max(1, engines.max_size // ENGINES_PER_SLICER))
    num_tasks = min(len(left), max(num_slicers, len(left) // SHARDS_PER_TASK))
    numbers = ray.data.from_items([{"number": n} for n in range(len(left))], override_num_blocks=num_tasks)
    pieces = numbers.flat_map(slice_shard, num_cpus=SLICER_CPUS, compute=ray.data.TaskPoolStrategy(size=num_slicers))
    yield from pieces.map_batches(
        SliceScanner,
        fn_constructor_args=(settings,),
        batch_size=1,
        compute=ray.data.ActorPoolStrategy(
            min_size=engines.size,
            max_size=engines.max_size,
            max_concurrent_calls_per_actor=settings.slices_at_once,
            enable_true_multi_threading=settings.slices_at_once > 1,
        ),
        num_cpus=engines.num_cpus - SLICER_CPUS,
        num_gpus=engines.num_gpus,
    ).iter_rows()


def count_samples(source: Source, shards: list[str]) -> list[int]:
    """Samples per shard, in the order of `shards`; listing is work for the cluster. SourceError where one fails."""

    def count(row: dict[str, Any]) -> dict[str, Any]:
        try:
            found = sum(len(piece.locators) for piece in source.slices(shards[int(row["number"])]))
        except PrivsieveError as error:
            return {"number": row["number"], "count": 0, "failure": str(error)}
        return {"number": row["number"], "count": found, "failure": ""}

    listed = ray.data.from_items([{"number": n} for n in range(len(shards))]).map(count, num_cpus=SLICER_CPUS)
    counted: dict[int, int] = {}
    for row in listed.iter_rows():
        if row["failure"]:
            raise SourceError(f"a sample needs every shard listed: {row['failure']}")
        counted[int(row["number"])] = int(row["count"])
    return [counted[n] for n in range(len(shards))]
