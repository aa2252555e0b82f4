"""What an engine actor tells Ray's metrics endpoints: counts and times, labelled by engine and reason, never by file.

Prometheus sees `ray_privsieve_images_scored_total`, `ray_privsieve_images_quarantined_total` and the histogram
`ray_privsieve_slice_seconds`, with Ray's own labels (node, worker) beside ours.
"""

from collections.abc import Mapping

from ray.util.metrics import Counter, Histogram

SLICE_SECONDS_BOUNDARIES = [0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0]


class ScanMetrics:
    """Owned by one engine actor; `engine` is the engine's name."""

    def __init__(self, engine: str):
        self._engine = engine
        self._scored = Counter("privsieve_images_scored", "Images with a score", ("engine",))
        self._quarantined = Counter("privsieve_images_quarantined", "Images without a score", ("engine", "reason"))
        self._seconds = Histogram(
            "privsieve_slice_seconds", "Seconds from a slice to its file", SLICE_SECONDS_BOUNDARIES, ("engine",)
        )

    def slice_written(self, seconds: float, num_scored: int, quarantined: Mapping[str, int]) -> None:
        """One slice has its file. quarantined: reason -> images; reasons are those of the row, a closed set."""
        tags = {"engine": self._engine}
        self._seconds.observe(seconds, tags)
        if num_scored:
            self._scored.inc(num_scored, tags)
        for reason, num_images in quarantined.items():
            if num_images:
                self._quarantined.inc(num_images, tags | {"reason": reason})
