"""The engine of one worker: loaded, compared with the other engines of the run, and closed if its room is needed or its
memory has grown.

`EngineWatch` measures how much of the time the engine has fewer requests than a step of its model takes, and why. A
thread samples many times a second. What is missing to a full step is in preparation, in the decoders, or was not read
yet. So each moment is divided among these causes, by the number of pictures that each of them holds back.
"""

import gc
import os
import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress

from ingest.errors import EngineError, StorageError
from ingest.machine import available_bytes, family_bytes
from jobs.scanning.batch import BATCH_SAMPLES, BatchScorer, Flow
from jobs.scanning.slice_tasks import ScanSettings
from scoring.assessment import BuiltWith, Closable, Engine, ReportsGpuMemory, TakesSteps, Unscored
from scoring.engine_facts import installed_version
from scoring.engines import engine_module
from scoring.engines.canary import canary_answer, record, refuse_other_answer
from scoring.runs import CANARY
from scoring.runs.attempts import EngineTime

STEPS_AT_ONCE = 2
"""Steps of the model: one under way, and the next one ready."""

BATCHES_BETWEEN = 3
"""Batches in addition: one being decoded, one being prepared, and one answered in part."""

LOADING_TRIES = 3
WAIT_S = 5.0
"""Before an engine on a GPU is loaded again: what another process held may be free then."""

GROWTH_SHARE = 0.5
"""Part of the memory that was left when the engine was loaded, which it may take before it is loaded again."""


class NotLoadedError(EngineError):
    """There is no engine on this machine; on another there may be one."""


def _refuse_other_packages(versions: Mapping[str, str]) -> None:
    """Raise EngineError if this machine has other packages than the one that described the engine."""
    for package, version in versions.items():
        if (installed := installed_version(package) or "none") != version:
            raise EngineError(
                f"the package {package} is {version} where the engine was described, and {installed} here: install the "
                "same packages on all machines"
            )


class EngineHost:
    """Holds the engine. Safe to use from several threads."""

    def __init__(self, settings: ScanSettings, flow: Flow):
        self._settings = settings
        self._flow = flow
        self._watch: EngineWatch | None = None
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        self._scorer: BatchScorer | None = None
        self._memory: list[tuple[int, int]] = []
        """Bytes taken and left, of the machine and of the GPU, when the engine was loaded."""

        self.built_with: BuiltWith | None = None
        """What the engine was built with, also once it is closed; None if it chooses nothing by its machine."""

        self._time_lock = threading.Lock()
        self._closed_time = EngineTime()
        """Of engines that were closed since it was last asked for."""

    def scorer(self) -> BatchScorer:
        """Return the scorer; load the engine if necessary. NotLoadedError if it cannot be loaded, has other packages
        than the run, or gives no answers."""
        with self._lock:
            try:
                return self._loaded()
            except (EngineError, StorageError) as error:
                raise NotLoadedError(str(error)) from None

    def _loaded(self) -> BatchScorer:
        if self._scorer is None:
            settings = self._settings
            _refuse_other_packages(settings.description.versions)
            engine = self._load()
            if settings.description.num_gpus and not isinstance(answer := canary_answer(engine), Unscored):
                refuse_other_answer(settings.run.at(CANARY), record(answer))
            self._engine = engine
            self._scorer = BatchScorer(
                engine,
                settings.record.limits,
                settings.num_decode_threads,
                settings.description.uses_caption,
                settings.hash_list,
                self._flow,
                settings.screen,
            )
            if isinstance(engine, TakesSteps):
                self.built_with = engine.built_with
                self._watch = EngineWatch(engine, self._flow, settings.slices_at_once)
                gc.collect()
                gc.freeze()  # a search for garbage among all that an engine imports stops all threads for half a second
            self._memory = _memory(engine)
        return self._scorer

    def _load(self) -> Engine:
        """Load the engine; one on a GPU is tried `LOADING_TRIES` times, since its machine would be idle without it."""
        settings = self._settings
        for _ in range(LOADING_TRIES - 1 if settings.description.num_gpus else 0):
            with suppress(EngineError):
                return engine_module(settings.engine).load(settings.options)
            time.sleep(WAIT_S)
        return engine_module(settings.engine).load(settings.options)

    def has_grown(self) -> bool:
        """Return whether the engine takes so much more memory than at first that it should be loaded again."""
        with self._lock:
            engine = self._engine
            if not isinstance(engine, Closable):
                return False
            pairs = zip(self._memory, _memory(engine), strict=True)
            return any(now - begun > GROWTH_SHARE * room for (begun, room), (now, _) in pairs)

    def restart(self) -> None:
        """Close the engine, which is loaded again on next use, and count it."""
        self.make_room()
        self._add_time(EngineTime(num_restarts=1))

    def max_pictures(self) -> int:
        """Return how many pictures may be read and not answered: as many as keep the engine busy."""
        engine = self._engine
        if isinstance(engine, TakesSteps):
            return STEPS_AT_ONCE * engine.requests_per_step + BATCHES_BETWEEN * BATCH_SAMPLES
        return self._settings.slices_at_once * self._settings.description.batches_at_once * BATCH_SAMPLES

    def engine_time(self) -> EngineTime | None:
        """Return the engine time since the last call; None if nothing is measured."""
        watch = self._watch
        with self._time_lock:
            time_, self._closed_time = self._closed_time, EngineTime()
        time_ += EngineTime() if watch is None else watch.taken()
        return None if time_ == EngineTime() else time_

    def _add_time(self, more: EngineTime) -> None:
        with self._time_lock:
            self._closed_time += more

    def make_room(self) -> None:
        """Close an engine that holds a device. It is reloaded on next use."""
        with self._lock:
            if isinstance(self._engine, Closable):
                if self._watch is not None:
                    self._watch.stop()
                    self._add_time(self._watch.taken())
                    self._watch = None
                    gc.unfreeze()
                self._engine.close()
                self._engine, self._scorer = None, None


def _memory(engine: Engine) -> list[tuple[int, int]]:
    """Return bytes taken and left: of this machine, by this process and its children; and of the GPU."""
    gpu = engine.gpu_memory() if isinstance(engine, ReportsGpuMemory) else (0, 0)
    return [(family_bytes(os.getpid()), available_bytes()), gpu]


LOOK_EVERY_S = 0.01
"""Far less than a step takes on a GPU."""

CAUSES = ("preparing", "decoding", "memory", "reading", "writing", "slices")
"""memory: as many bytes were ahead as are allowed. slices: there was no further slice, as at the end of a scan."""


def causes(num_missing: int, num_prepared: int, flow: Mapping[str, int], slices_at_once: int) -> dict[str, float]:
    """Return cause -> its part of a moment in which `num_missing` requests were missing to a step; empty if none
    were."""
    if num_missing <= 0:
        return {}
    preparing = min(num_prepared, num_missing)
    decoding = min(flow.get("decoding", 0), num_missing - preparing)
    shares = {"preparing": preparing, "decoding": decoding}
    if flow.get("memory", 0):
        rest = "memory"
    elif flow.get("reading", 0):
        rest = "reading"
    else:
        # A slice holds its place until its file is written: only a place that is free while none is written shows that
        # there is no further slice.
        rest = "slices" if flow.get("slices", 0) < slices_at_once and not flow.get("writing", 0) else "writing"
    shares[rest] = num_missing - preparing - decoding
    return {cause: number / num_missing for cause, number in shares.items() if number}


class EngineWatch:
    """Samples the engine from its start to its `stop`, while slices are under way."""

    def __init__(self, engine: TakesSteps, flow: Flow, slices_at_once: int):
        self._engine = engine
        self._flow = flow
        self._slices_at_once = slices_at_once
        self._lock = threading.Lock()
        self._seconds = 0.0
        self._short_s = defaultdict[str, float](float)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look_again_and_again, name="engine watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()

    def taken(self) -> EngineTime:
        """Return what was seen since the last call."""
        with self._lock:
            time_ = EngineTime(
                seconds=self._seconds,
                short_s={cause: self._short_s[cause] for cause in CAUSES if self._short_s[cause]},
                most_bytes_ahead=self._flow.most_bytes_ahead(),
            )
            self._seconds, self._short_s = 0.0, defaultdict[str, float](float)
        return time_

    def look(self, seconds: float) -> None:
        """Attribute the seconds to the present causes."""
        flow = self._flow.now()
        if not flow["slices"]:
            return
        num_missing = self._engine.requests_per_step - self._engine.num_requests
        shares = causes(num_missing, self._engine.num_prepared, flow, self._slices_at_once)
        with self._lock:
            self._seconds += seconds
            for cause, share in shares.items():
                self._short_s[cause] += seconds * share

    def _look_again_and_again(self) -> None:
        before = time.monotonic()
        while not self._is_over.wait(LOOK_EVERY_S):
            now = time.monotonic()
            self.look(now - before)
            before = now
