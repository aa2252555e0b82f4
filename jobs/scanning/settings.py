"""What every worker of a scan must know."""

from dataclasses import dataclass

from ingest.formats import Source
from ingest.images.decode import ImageLimits
from ingest.storage.place import Place
from scoring.assessment import EngineOptions


@dataclass(frozen=True)
class ScanSettings:
    """What an actor needs to know; sent to each once.

    run: the run folder. code: see `scoring.runs.record.RunRecord`.
    stall_s: seconds without a finished batch after which a slice is given up.
    image_memory_bytes: what the child that scans image by image may take; None: half of what is free.
    batches_at_once: of a slice, given to the engine by as many threads. has_canary: engines must agree on a picture.
    """

    source: Source
    run: Place
    engine: str
    options: EngineOptions
    limits: ImageLimits
    settings_hash: str
    code: str
    stall_s: float = 600
    image_memory_bytes: int | None = None
    num_decode_threads: int = 2
    batches_at_once: int = 1
    has_canary: bool = False

    @property
    def slices_at_once(self) -> int:
        """An engine with several batches under way gets two slices, so that it never runs dry between them."""
        return 2 if self.batches_at_once > 1 else 1
