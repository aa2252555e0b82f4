"""The engine of one worker: loaded, compared with the other engines of the run, and given up where room is needed."""

import threading
from collections import Counter

from ingest.errors import EngineError
from jobs.scan.batch import BatchScorer
from jobs.scan.batch_window import BATCH_SAMPLES
from jobs.scan.engine_watch import EngineWatch
from jobs.scan.flow import Flow
from jobs.scan.settings import ScanSettings
from scoring.assessment import BuiltWith, Closable, Engine, ReportsTokenUsage, TakesSteps, Unscored
from scoring.engines import engine_module
from scoring.engines.canary import canary, record
from scoring.runs.canary_answers import refuse_other_answer
from scoring.runs.engine_time import EngineTime
from scoring.runs.layout import CANARY

STEPS_AT_ONCE = 2
"""Steps of the model: one under way, and the next one ready."""

BATCHES_BETWEEN = 3
"""In addition to these: being decoded, being prepared, and answered in part."""


class EngineHost:
    """Safe to use from several threads."""

    def __init__(self, settings: ScanSettings, flow: Flow):
        self._settings = settings
        self._flow = flow
        self._watch: EngineWatch | None = None
        self._lock = threading.Lock()
        self._engine: Engine | None = None
        self._scorer: BatchScorer | None = None

    def scorer(self) -> BatchScorer:
        """Scores with the engine, which is loaded if it is not. EngineError where it cannot be, or gives no answers."""
        with self._lock:
            if self._scorer is None:
                engine = engine_module(self._settings.engine).load(self._settings.options)
                if self._settings.has_canary:
                    self._compare(engine)
                self._engine = engine
                settings = self._settings
                self._scorer = BatchScorer(
                    engine,
                    settings.limits,
                    settings.num_decode_threads,
                    settings.uses_caption,
                    settings.hash_list,
                    self._flow,
                )
                if isinstance(engine, TakesSteps):
                    self._watch = EngineWatch(engine, self._flow, settings.slices_at_once)
            return self._scorer

    def max_pictures(self) -> int:
        """That are read and not answered: as many as keep the engine busy."""
        engine = self._engine
        if isinstance(engine, TakesSteps):
            return STEPS_AT_ONCE * engine.requests_per_step + BATCHES_BETWEEN * BATCH_SAMPLES
        return self._settings.slices_at_once * self._settings.batches_at_once * BATCH_SAMPLES

    def built_with(self) -> BuiltWith | None:
        """None for an engine that chooses nothing by its machine."""
        engine = self._engine
        return engine.built_with if isinstance(engine, TakesSteps) else None

    def engine_time(self) -> EngineTime | None:
        """Since this was last asked; None where nothing is measured."""
        watch = self._watch
        return None if watch is None else watch.taken()

    def make_room(self) -> None:
        """Closes an engine that holds a device. It is reloaded on next use."""
        with self._lock:
            if isinstance(self._engine, Closable):
                if self._watch is not None:
                    self._watch.stop()
                    self._watch = None
                self._engine.close()
                self._engine, self._scorer = None, None

    def token_usage(self) -> Counter[str] | None:
        """Tokens by kind since the engine was loaded; None where it does not count them."""
        return self._engine.usage if isinstance(self._engine, ReportsTokenUsage) else None

    def _compare(self, engine: Engine) -> None:
        """EngineError where this engine cannot answer, or answers differently from another one of the run."""
        answer = engine.assess([canary()])[0]
        if not isinstance(answer, Unscored):
            refuse_other_answer(self._settings.run.at(CANARY), record(answer))
        elif answer.reason in ("engine_error", "engine_oom"):
            raise EngineError(f"the engine cannot answer for a plain picture: {answer.message}")
