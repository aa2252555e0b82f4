"""The scan on Ray Data: shard numbers -> slices (tasks that list) -> result files (actors that score) -> counts.

Only locators and counts travel; bytes are read where they are scored. One row is one slice, which Ray can neither split
nor merge (`jobs.runtime.cluster` keeps blocks at one row). Ray repeats what a lost machine did. That is harmless, since
a slice always gives the same file. Failures travel as data, since Ray would drop the cause of an exception.

A small actor (`jobs.scanning.handed_back.ScanStates`) holds the number of images done in slices that have not ended.
Engines send theirs at most once a second and wait for no answer; the driver asks once a second.
"""

import json
import os
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from typing import Any, TypeVar

import ray
import ray.data
from ray import cloudpickle
from ray.util.metrics import Counter, Gauge, Histogram

from ingest.errors import SHARD_REASONS, PrivsieveError, SourceError
from ingest.sample import Slice
from jobs.runtime.machines import num_slicers
from jobs.runtime.on_worker import code_hash
from jobs.scanning import slice_scanner
from jobs.scanning.chosen import Chosen
from jobs.scanning.handed_back import MAX_PASSES, HandedBack, engine_actor, on_same_program
from jobs.scanning.slice_tasks import ScanSettings, ShowUnderWay, SliceCounts, SliceTask, slices_left
from scoring.runs.attempts import EngineTime
from scoring.runs.ledger import Ledger, only_shards
from scoring.runs.results import results

SLICE_SECONDS_BOUNDARIES = [0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0]

TOKEN_KINDS = ("prompt", "cached", "generated")


Figure = TypeVar("Figure")

SLICER_CPUS = 0.05
"""CPUs of a slicer, taken from what each engine asks for, so that a slicer fits wherever engines run. If machines are
lost, the remaining engines would otherwise hold every CPU and wait for slices that no process lists."""

SHARDS_PER_TASK = 100
"""Limit on the shards whose listing is repeated after the loss of a machine."""


class ScanMetrics:
    """Owned by one engine actor; `engine` is the engine's name."""

    def __init__(self, engine: str):
        self._engine = engine
        self._scored = Counter("privsieve_images_scored", "Images with a score", ("engine",))
        self._quarantined = Counter("privsieve_images_quarantined", "Images without a score", ("engine", "reason"))
        self._damaged = Counter("privsieve_damaged_parts", "Parts of shards that cannot be read", ("engine", "reason"))
        self._seconds = Histogram(
            "privsieve_slice_seconds", "Seconds from a slice to its file", SLICE_SECONDS_BOUNDARIES, ("engine",)
        )
        self._queue = Gauge("privsieve_engine_queue_images", "Images that the engine has or waits for", ("engine",))
        self._tokens = Counter("privsieve_engine_tokens", "Tokens of the model, by kind", ("engine", "kind"))
        self._engine_s = Counter(
            "privsieve_engine_seconds", "Seconds of the engine, by what kept it from full steps", ("engine", "cause")
        )
        self._ahead = Gauge("privsieve_engine_bytes_ahead", "Most bytes read and not answered of late", ("engine",))
        self._lock = threading.Lock()
        self._num_queued = 0
        self._reported: Mapping[str, int] = {}

    def slice_written(self, seconds: float, num_scored: int, quarantined: Mapping[str, int]) -> None:
        """Count a slice that has its file. quarantined: reason -> rows; reasons are those of the row, a closed set."""
        tags = {"engine": self._engine}
        self._seconds.observe(seconds, tags)
        if num_scored:
            self._scored.inc(num_scored, tags)
        for reason, num_rows in quarantined.items():
            if num_rows:
                counter = self._damaged if reason in SHARD_REASONS else self._quarantined
                counter.inc(num_rows, tags | {"reason": reason})

    def queued(self, num_images: int) -> None:
        """Add the number of images read for the engine; negative: answered."""
        with self._lock:
            self._num_queued += num_images
            self._queue.set(self._num_queued, {"engine": self._engine})

    def engine_time(self, more: EngineTime) -> None:
        """Add what was measured since the last call. Cause "none": there were enough requests for a step, or more."""
        full_s = max(0.0, more.seconds - sum(more.short_s.values()))
        for cause, seconds in {"none": full_s, **more.short_s}.items():
            if seconds:
                self._engine_s.inc(seconds, {"engine": self._engine, "cause": cause})
        self._ahead.set(more.most_bytes_ahead, {"engine": self._engine})

    def tokens(self, usage: Mapping[str, int]) -> None:
        """Report the token usage of the engine since it was loaded (`scoring.assessment.ReportsTokenUsage`)."""
        with self._lock:
            now = {kind: usage.get(kind, 0) for kind in TOKEN_KINDS}
            was_loaded_again = any(now[kind] < n for kind, n in self._reported.items())
            before = {} if was_loaded_again else self._reported
            for kind, total in now.items():
                if total > before.get(kind, 0):
                    self._tokens.inc(total - before.get(kind, 0), {"engine": self._engine, "kind": kind})
            self._reported = now


@dataclass(frozen=True)
class EnginePool:
    """The engine actors of a scan, and what Ray reserves for each."""

    size: int
    """Number of actors from the start."""

    max_size: int
    """Ray adds actors up to this number while slices wait, and gives idle ones back."""

    num_cpus: float = 1

    num_gpus: float = 0

    is_of_cluster: bool = True
    """Whether machines may have another program. On this machine alone, a change of it stops no scan."""


class ScansRows:
    """What an engine actor does if the program is the same."""

    def __init__(self, settings: ScanSettings, on_progress: slice_scanner.OnProgress):
        metrics = ScanMetrics(settings.engine)
        # After an unexpected exception the process ends, as after a signal, and Ray starts another.
        self._scanner = slice_scanner.SliceScanner(settings, metrics, partial(os._exit, 1), on_progress)

    @property
    def has_engine(self) -> bool:
        return self._scanner.has_engine

    def counts(self, row: dict[str, str]) -> dict[str, Any]:
        """Scan a row with `_COLUMNS`. Return the fields of `SliceCounts`."""
        if row["failure"]:
            is_handed_back = bool(row["machine"])
            return asdict(
                SliceCounts(
                    failure=row["failure"],
                    is_fatal=is_handed_back,
                    is_handed_back=is_handed_back,
                    machine=row["machine"],
                    node_id=row["node_id"],
                )
            )
        texts = (row[name] for name in _TASK_TEXTS)
        task = SliceTask(Slice.from_json(row["slice"]), *texts)
        return asdict(self._scanner.scan(task))


_KINDS: dict[str, type[Any]] = {field.name: type(field.default) for field in fields(SliceCounts)}
"""Field of `SliceCounts` -> its type in Python; Ray has others."""

_TASK_TEXTS = ("name", "listing_digests", "version_mark", "fingerprint")
"""Fields of `SliceTask` after `slice`, in order; sent as they are."""

_COLUMNS = ("number", "slice", *_TASK_TEXTS, "failure", "machine", "node_id")
"""Columns of listed slices. number: of the shard. machine, node_id: as in `SliceCounts`, if it is handed back."""


def scan_slices(
    settings: ScanSettings,
    left: list[str],
    chosen: Chosen,
    ledger: Ledger,
    show: ShowUnderWay | None = None,
    *,
    engines: EnginePool,
    notice: Callable[[str], None],
) -> Generator[SliceCounts, None, None]:
    """Scan the slices of the shards `left` that have no result in the ledger; yield what came of each.

    show: None if progress is hidden; then nothing is counted before a slice has ended. notice: takes a line about a
    machine that has no engine. IncompleteError if none has.
    """
    with closing(HandedBack(engines.num_cpus, engines.num_gpus, notice)) as handed_back:
        if show is None:
            yield from _Passes(settings, chosen, engines, handed_back, slice_scanner.no_progress).run(left, ledger)
            return
        with closing(SlicesUnderWay(handed_back.states, show)) as under_way:
            reports = Reports(handed_back.states)
            for counts in _Passes(settings, chosen, engines, handed_back, reports).run(left, ledger):
                under_way.ended(counts.name)
                yield counts


@dataclass(frozen=True)
class _Passes:
    """A scan; slices that machines hand back are scanned in a further pass."""

    settings: ScanSettings
    chosen: Chosen
    engines: EnginePool
    handed_back: HandedBack
    on_progress: slice_scanner.OnProgress

    def run(self, left: list[str], ledger: Ledger) -> Iterator[SliceCounts]:
        """Yield what came of each slice."""
        for number in range(1, MAX_PASSES + 1):
            labels = self.handed_back.next_pass()
            last = None
            for shard, counts in self._scanned(left, ledger, labels):
                if counts.is_handed_back:
                    self.handed_back.note(counts, shard)
                    last = counts
                else:
                    yield replace(counts, failure=self.handed_back.named(counts)) if counts.is_fatal else counts
            if last is None:
                return
            if number == MAX_PASSES:
                yield SliceCounts(failure=self.handed_back.named(last))
            left = [left[shard] for shard in sorted(self.handed_back.numbers)]
            ledger = results(self.settings.run).ledger

    def _scanned(self, left: list[str], ledger: Ledger, labels: dict[str, str]) -> Iterator[tuple[int, SliceCounts]]:
        """Yield the number of the shard in `left`, and what came of a slice. labels: that machines must have."""
        ledger = only_shards(left, ledger)
        settings, chosen, engines = self.settings, self.chosen, self.engines  # what is sent to other processes
        code = code_hash() if engines.is_of_cluster else ""

        def list_shard(row: dict[str, Any]) -> Iterator[dict[str, str]]:
            nothing = dict.fromkeys(_COLUMNS, "") | {"number": str(row["number"])}
            try:
                for task in slices_left(settings, left[int(row["number"])], chosen, ledger):
                    texts = {name: getattr(task, name) for name in _TASK_TEXTS}
                    yield nothing | texts | {"slice": task.slice.to_json()}
            except PrivsieveError as error:
                yield nothing | {"failure": str(error)}

        selector: dict[str, Any] = {"label_selector": labels} if labels else {}
        num_at_once = min(len(left), num_slicers(engines.size, engines.max_size))
        num_tasks = min(len(left), max(num_at_once, len(left) // SHARDS_PER_TASK))
        numbers = ray.data.from_items([{"number": n} for n in range(len(left))], override_num_blocks=num_tasks)
        slices = numbers.flat_map(
            on_same_program(list_shard, _COLUMNS, code),
            num_cpus=SLICER_CPUS,
            compute=ray.data.TaskPoolStrategy(size=num_at_once),
            **selector,
        )
        counted = slices.map_batches(
            engine_actor(code),
            fn_constructor_args=(
                self.handed_back.states,
                cloudpickle.dumps(partial(ScansRows, settings, self.on_progress)),
            ),
            batch_size=1,
            compute=ray.data.ActorPoolStrategy(
                min_size=engines.size,
                max_size=engines.max_size,
                max_concurrent_calls_per_actor=settings.slices_at_once,
                enable_true_multi_threading=settings.slices_at_once > 1,
            ),
            num_cpus=engines.num_cpus - SLICER_CPUS,
            num_gpus=engines.num_gpus,
            **selector,
        )
        for row in counted.iter_rows():
            yield int(row["number"]), SliceCounts(**{name: kind(row[name]) for name, kind in _KINDS.items()})


def of_each_shard(work: Callable[[str], Figure], shards: list[str]) -> list[Figure]:
    """Return what `work` gives for each shard, in order; the cluster does the listing. SourceError if it fails.

    work: gives what JSON can hold.
    """

    def worked(row: dict[str, Any]) -> dict[str, Any]:
        try:
            figure, failure = json.dumps(work(shards[int(row["number"])])), ""
        except PrivsieveError as error:
            figure, failure = "", str(error)
        return {"number": row["number"], "figure": figure, "failure": failure}

    numbers = ray.data.from_items([{"number": n} for n in range(len(shards))])
    figures: dict[int, Figure] = {}
    for row in numbers.map(worked, num_cpus=SLICER_CPUS).iter_rows():
        if row["failure"]:
            raise SourceError(row["failure"])
        figures[int(row["number"])] = json.loads(row["figure"])
    return [figures[n] for n in range(len(shards))]


EVERY_S = 1.0
ANSWER_LIMIT_S = 10.0


class Reports:
    """The engine's part: sends to the actor what it has done, once a second."""

    def __init__(self, actor: Any):
        self._actor = actor
        self._next_s = 0.0

    def __call__(self, slice_name: str, num_images: int) -> None:
        now_s = time.monotonic()
        if not slice_name or now_s >= self._next_s:
            self._next_s = now_s + EVERY_S
            self._actor.on_progress.remote(slice_name, num_images)


class SlicesUnderWay:
    """The driver's part: asks the actor, and shows the sum."""

    def __init__(self, actor: Any, show: ShowUnderWay):
        self._actor, self._show = actor, show
        self._lock = threading.Lock()
        self._num_done: dict[str, int] = {}
        self._ended: list[str] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def ended(self, slice_name: str) -> None:
        """Leave out a slice that is counted as a whole from now on."""
        with self._lock:
            self._ended.append(slice_name)
            if self._num_done.pop(slice_name, None) is not None:
                self._show(sum(self._num_done.values()))

    def close(self) -> None:
        self._is_over.set()
        self._thread.join(ANSWER_LIMIT_S)

    def _follow(self) -> None:
        while not self._is_over.wait(EVERY_S):
            with self._lock:
                sent = list(self._ended)
            try:
                answer = ray.get(self._actor.under_way.remote(sent), timeout=ANSWER_LIMIT_S)
            except ray.exceptions.RayError:
                continue
            with self._lock:
                del self._ended[: len(sent)]
                if answer is not None and not self._is_over.is_set():
                    self._num_done = {name: n for name, n in answer.items() if name not in self._ended}
                    self._show(sum(self._num_done.values()))
