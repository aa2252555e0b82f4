"""What a scan is asked to do, with what, and what came of it."""

from collections.abc import Mapping
from dataclasses import dataclass as plain_dataclass
from dataclasses import field
from typing import Annotated

from pydantic import Field
from pydantic.dataclasses import dataclass

from ingest.errors import IncompleteError, PrivsieveError, number_of
from ingest.images.pixels import ImageLimits
from jobs.runtime.executors import Executor, refuse_address
from jobs.runtime.requests import STRICT, Count, Name
from scoring.assessment import EngineOptions
from scoring.engines import DEFAULT
from scoring.runs.damage import NO_DAMAGE, Damage


@dataclass(frozen=True, config=STRICT)
class ScanRequest:
    """What makes rows comparable: scans into one run must agree in all of it.

    PrivsieveError where it contradicts itself.
    """

    source: Name
    """Folder, tar, Parquet file, glob, brace range, or fsspec URL."""

    run: Name
    """Folder or fsspec URL; continued where it exists."""

    engine: str = DEFAULT
    """A name of `scoring.engines.ENGINES`."""

    options: EngineOptions = field(default_factory=EngineOptions)

    format: str | None = None
    """webdataset, tree or parquet; None: recognised."""

    category: Name | None = None
    """JSON field, cls, or Parquet column that names a sample's class."""

    labels: Name | None = None
    """File or URL of a list that gives each image its class; None: the corpus itself gives it."""

    caption_words: Name | None = None
    """File or URL of words that give an image its class by its caption; None: the corpus itself gives it."""

    sample: Count | None = None
    """Number of images of a uniform random sample; None: no sample."""

    per_category: bool = False
    """Whether `sample` is the number of images of each category."""

    shards: Count | None = None
    """Number of shards that are drawn first, so that `sample` images are drawn of them alone; None: of all."""

    seed: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    """Of the sample; None: 0."""

    limit: Count | None = None
    """Number of images to scan, from the first; None: all."""

    max_pixels: Count = ImageLimits.max_pixels
    """Width x height; larger pictures are quarantined unread."""

    max_frames: Count = ImageLimits.max_frames
    """Frames or pages that are scanned, from the first."""

    hash_list: Name | None = None
    """File of hashes of pictures that no engine may see: their rows say only where they are."""

    pdq: bool = False
    """Whether rows have PDQ hashes; they do, too, if the hash list has some."""

    def __post_init__(self) -> None:
        if self.sample is not None and self.limit is not None:
            raise PrivsieveError("--sample and --limit exclude each other: give one of them")
        if self.seed is not None and self.sample is None:
            raise PrivsieveError("--seed only applies with --sample: give --sample too, or leave --seed out")
        if self.per_category and self.sample is None:
            raise PrivsieveError(
                "--per-category only applies with --sample: give --sample N too, N images per category"
            )
        if self.shards is not None and self.sample is None:
            raise PrivsieveError("--shards only applies with --sample: give --sample N too, N images of these shards")
        if self.shards is not None and self.per_category:
            raise PrivsieveError(
                "--shards and --per-category exclude each other: a category may be in few shards only; leave one out"
            )
        if self.shards is not None and self.sample is not None and self.sample < self.shards:
            raise PrivsieveError(
                f"--sample {self.sample} is fewer than --shards {self.shards}: draw at least one image per shard"
            )
        given = {"--labels": self.labels, "--category": self.category, "--caption-words": self.caption_words}
        named = [option for option, value in given.items() if value is not None]
        if len(named) > 1:
            raise PrivsieveError(f"{' and '.join(named)} exclude each other: each says what gives an image's category")


@dataclass(frozen=True, config=STRICT)
class ScanResources:
    """Where a scan runs. None of it changes a row. PrivsieveError where it contradicts itself."""

    executor: Executor = "ray"

    ray_address: str | None = None
    """HOST:PORT of a Ray head; None: RAY_ADDRESS, else a Ray of this scan's own."""

    num_engines: Count | None = None
    """Engine actors; None: as many as fit."""

    max_engines: Count | None = None
    """Ray adds engines up to this number while slices wait; None: it adds none."""

    engine_cpus: Annotated[float, Field(ge=0.5, allow_inf_nan=False)] = 1
    """CPUs that Ray sets aside for an engine."""

    engine_gpus: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    """GPUs that Ray sets aside for an engine; None: what the engine asks for."""

    num_processes: Count | None = None
    """Of an inline scan, each with an engine; None: one per core, and one alone for an engine that takes a GPU or many
    pictures at once."""

    def __post_init__(self) -> None:
        refuse_address(self.executor, self.ray_address)
        if self.max_engines is not None and self.max_engines < (self.num_engines or 1):
            raise PrivsieveError(f"--max-engines {self.max_engines} is less than --num-engines {self.num_engines}")
        alone = {"--num-engines": 1, "--max-engines": 1, "--engine-cpus": 1, "--engine-gpus": None}
        chosen = (self.num_engines, self.max_engines, self.engine_cpus, self.engine_gpus)
        for (option, only), number in zip(alone.items(), chosen, strict=True):
            if self.executor == "inline" and number not in (None, only):
                raise PrivsieveError(
                    f"{option} {number:g}: --executor inline has one engine, in this process; leave one of them out"
                )
        if self.executor == "ray" and self.num_processes is not None:
            raise PrivsieveError(
                f"--processes {self.num_processes} is of --executor inline: give that too, or --num-engines for Ray"
            )


@dataclass(frozen=True, config=STRICT)
class Supervision:
    """What happens to work that hangs, and to other scans of the same run."""

    stall_s: Annotated[float, Field(ge=1, le=10**7, allow_inf_nan=False)] = 600
    """Seconds without a finished batch after which a worker ends; its slice is tried again, then image by image."""

    image_memory_bytes: Count | None = None
    """What the process that scans image by image may take; None: half of what is free."""

    takeover: bool = False
    """Whether to scan although another scan holds the run."""


@plain_dataclass(frozen=True)
class ScanResult:
    """What the run holds now, whichever scan put it there."""

    num_images: int
    """Those with a row."""

    reasons: Mapping[str, int]
    """Reason -> number of quarantined images, the most frequent first."""

    num_shards: int
    """Shards that the run is to have."""

    num_finished_shards: int

    num_new_images: int = 0
    """Rows that this scan added."""

    seconds: float = 0.0
    """Of this scan, with its start."""

    images_per_s: float | None = None
    """Of this scan, without its start, measured where progress is shown; None where nothing was measured."""

    damage: Damage = NO_DAMAGE
    """Shards of which an unknown number of images was not seen."""

    @property
    def num_quarantined(self) -> int:
        return sum(self.reasons.values())

    @property
    def num_scored(self) -> int:
        return self.num_images - self.num_quarantined

    def __str__(self) -> str:
        """One line of counts. It ends with the damaged shards, if there are any."""
        by_reason = ", ".join(f"{reason} {number}" for reason, number in sorted(self.reasons.items()))
        quarantined = f"{self.num_quarantined} quarantined{f' ({by_reason})' if by_reason else ''}"
        damage = "" if self.damage.caution is None else f"; {self.damage.caution}"
        shards = f"{self.num_finished_shards} of {number_of(self.num_shards, 'shard')}"
        return f"{number_of(self.num_images, 'image')} in {shards}: {self.num_scored} scored, {quarantined}{damage}"


class IncompleteScanError(IncompleteError):
    """The scan came to its end and images are without a row, or the source changed meanwhile."""

    def __init__(self, message: str, result: ScanResult):
        super().__init__(message)
        self.result = result
