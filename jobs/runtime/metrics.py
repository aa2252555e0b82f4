"""What an engine actor reports to Ray's metrics endpoints: counts and times by engine and reason, never by file.

Prometheus sees the names below with `ray_` before them and Ray's own labels (node, worker) in addition to ours;
docs/clusters.md lists them.
"""

import threading
from collections.abc import Mapping

from ray.util.metrics import Counter, Gauge, Histogram

from ingest.errors import SHARD_REASONS
from scoring.runs.attempts import EngineTime

SLICE_SECONDS_BOUNDARIES = [0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0]

TOKEN_KINDS = ("prompt", "cached", "generated")


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
