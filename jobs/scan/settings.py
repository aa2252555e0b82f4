"""What every worker of a scan must know."""

from dataclasses import dataclass

from ingest.formats import Source
from ingest.images.pixels import ImageLimits
from ingest.storage.place import Place
from jobs.runtime.hash_list import NOTHING, HashList
from scoring.assessment import EngineOptions


@dataclass(frozen=True)
class ScanSettings:
    """Sent to each worker once."""

    source: Source

    run: Place
    """The run folder."""

    engine: str
    """A name of `scoring.engines.ENGINES`."""

    options: EngineOptions

    limits: ImageLimits

    settings_hash: str
    """`RunRecord.settings_hash`, for the footers of results."""

    code: str
    """`RunRecord.code` of this program, for the footers of results."""

    stall_s: float = 600
    """Seconds without a finished batch after which a worker ends."""

    image_memory_bytes: int | None = None
    """What the child that scans image by image may take; None: half of what is free."""

    num_decode_threads: int = 2

    batches_at_once: int = 1
    """`EngineDescription.batches_at_once`; with one, each is decoded and scored by the thread that reads it."""

    uses_caption: bool = False
    """`EngineDescription.uses_caption` of the engine."""

    hash_list: HashList = NOTHING
    """Pictures that no engine may see."""

    has_canary: bool = False
    """Whether the engines of the run must agree on a made picture."""

    @property
    def slices_at_once(self) -> int:
        """An engine with several batches under way gets two slices, so that it never runs dry between them."""
        return 2 if self.batches_at_once > 1 else 1
