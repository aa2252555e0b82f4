"""What a scan is asked to do, with what, and what came of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from ingest.errors import IncompleteError, PrivsieveError, number_of
from ingest.images.pixels import ImageLimits
from jobs.console.engine_options import ChosenOptions, EngineName
from jobs.console.request_options import MAX_SECONDS
from jobs.console.requests import (
    FROM_LIST,
    Count,
    EngineCpus,
    EngineGpus,
    HashListUrl,
    Name,
    Option,
    Seed,
    Url,
    checked_request,
)
from jobs.runtime.cluster import Executor, refuse_address
from scoring.assessment import EngineOptions
from scoring.engines import DEFAULT
from scoring.runs.rows import NO_DAMAGE, Damage

WHICH = Option(heading="Which images")
CATEGORIES = Option(heading="Categories")
UNSEEN = Option(heading="Pictures that must not be seen")
FIRST = Option(heading="A cheap first stage")
LIMITS = Option(heading="Limits")
WHERE = Option(heading="Where it runs")


@checked_request
class ScanRequest:
    """What makes rows comparable: scans into one run must agree in all of it. PrivsieveError where it contradicts
    itself."""

    source: Annotated[Url, Option(argument="SOURCE")]
    """Folder, tar, Parquet file, picture, glob, brace range, or fsspec URL."""

    run: Url
    """Folder or fsspec URL of the run; continued if it exists."""

    source_format: Annotated[str | None, WHICH] = None
    """webdataset, tree or parquet; recognised by default."""

    category: Annotated[Name | None, CATEGORIES] = None
    """JSON field (a.b: inside of a), cls, or Parquet column that names a sample's class."""

    image_column: Annotated[tuple[Name, ...], FROM_LIST, WHICH, Option(metavar="NAME")] = ()
    """Parquet column of images; default all that hold images. May be given several times."""

    labels: Annotated[Url | None, CATEGORIES] = None
    """File with a class for each image's name: a labels file, CSV, TSV, or Places365's lists."""

    caption_words: Annotated[Url | None, CATEGORIES] = None
    """CSV with a category and a word per line: the category by words of the caption."""

    sample: Annotated[Count | None, WHICH] = None
    """Scan a uniform random sample of this many images."""

    shards: Annotated[Count | None, WHICH] = None
    """With --sample: draw this many shards first, and read no other."""

    per_category: Annotated[bool, WHICH] = False
    """With --sample: this many images of each category."""

    seed: Annotated[Seed | None, WHICH] = None
    """Seed of --sample; default 0."""

    limit: Annotated[Count | None, WHICH] = None
    """Scan only this many images, from the first."""

    hash_list: Annotated[HashListUrl, UNSEEN] = None
    """File of hashes (sha256 or PDQ, one a line); a picture on it is not shown to the engine, and its row says only
    where it is."""

    screen: Annotated[Url | None, FIRST, Option(metavar="SCREEN")] = None
    """Folder of a screen (`screen fit`): pictures that it finds unlikely to be private are not shown to the engine."""

    pdq: Annotated[bool, UNSEEN] = False
    """Store PDQ hashes, so that other commands can compare them with a hash list."""

    max_pixels_in: Annotated[Count, LIMITS] = ImageLimits.max_pixels
    """Pictures of more pixels (width x height) are quarantined unread."""

    max_frames: Annotated[Count, LIMITS] = ImageLimits.max_frames
    """Frames or pages that are scanned, from the first."""

    engine: EngineName = DEFAULT
    """What assesses the images: {}"""

    options: ChosenOptions = field(default_factory=EngineOptions)
    """What the engine is given."""

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


@checked_request
class ScanResources:
    """Where a scan runs. None of it changes a row. PrivsieveError where it contradicts itself."""

    num_engines: Annotated[Count | None, WHERE] = None
    """Engine actors; default as many as fit, and on a cluster more while slices wait."""

    engine_cpus: Annotated[EngineCpus | None, WHERE] = None
    """CPUs per engine; default 1, and for an engine on a GPU all cores of its machine for each GPU, less one."""

    engine_gpus: Annotated[EngineGpus | None, WHERE] = None
    """GPUs per engine; default what the engine asks for."""

    processes: Annotated[Count | None, WHERE] = None
    """Processes without Ray, each with an engine; default one per core, and one alone for engines with a GPU or an
    endpoint."""

    executor: Annotated[Executor | None, WHERE] = None
    """Where the work runs: on Ray, or in this process and further ones that it starts; default inline, unless a cluster
    is named, engines of Ray are asked for, or the engine can use several GPUs."""

    ray_address: Annotated[str | None, WHERE] = None
    """Ray cluster to use; default RAY_ADDRESS, else one of its own."""

    def __post_init__(self) -> None:
        refuse_address(self.executor, self.ray_address)
        if self.executor == "inline" and self.of_ray is not None:
            option, number = self.of_ray
            raise PrivsieveError(
                f"{option} {number:g}: --executor inline has one engine in each of its --processes; leave one of them "
                "out"
            )
        is_ray = self.executor == "ray" or self.of_ray is not None or self.ray_address is not None
        if is_ray and self.processes is not None:
            raise PrivsieveError(
                f"--processes {self.processes} works only with --executor inline: give that too, or --num-engines for "
                "Ray"
            )

    @property
    def of_ray(self) -> tuple[str, float] | None:
        """The first option that only Ray has, with its value; None if none was given."""
        given = {
            "--num-engines": self.num_engines,
            "--engine-cpus": None if self.engine_cpus == 1 else self.engine_cpus,
            "--engine-gpus": self.engine_gpus,
        }
        return next(((option, number) for option, number in given.items() if number is not None), None)


@checked_request
class Supervision:
    """What happens to work that hangs, and to other scans of the same run."""

    stall_seconds: Annotated[float, Field(ge=1, le=MAX_SECONDS, allow_inf_nan=False), LIMITS] = 600
    """Silence after which a slice is given up, tried again, then scanned image by image."""

    image_memory_mb: Annotated[Annotated[int, Field(ge=100, lt=2**43)] | None, LIMITS] = None
    """Memory for an engine that scans image by image; default half of what is free."""

    takeover: Annotated[bool, WHERE] = False
    """Scan although another scan holds the run."""

    @property
    def image_memory_bytes(self) -> int | None:
        return None if self.image_memory_mb is None else self.image_memory_mb * 2**20


@dataclass(frozen=True)
class ScanResult:
    """What the run holds now, from all scans into it."""

    num_images: int
    """Images with a row."""

    reasons: Mapping[str, int]
    """Reason -> number of quarantined images, the most frequent first."""

    num_shards: int
    """Shards that the run is to have."""

    num_finished_shards: int

    num_new_images: int = 0
    """Rows that this scan added."""

    seconds: float = 0.0
    """Duration of this scan, with its start."""

    images_per_s: float | None = None
    """Speed of this scan without its start, measured if progress is shown; None if not measured."""

    num_screened: int = 0
    """Images that the screen left out."""

    damage: Damage = NO_DAMAGE
    """Shards of which an unknown number of images was not seen."""

    @property
    def num_quarantined(self) -> int:
        return sum(self.reasons.values())

    @property
    def num_scored(self) -> int:
        return self.num_images - self.num_quarantined - self.num_screened

    def __str__(self) -> str:
        """Return one line of counts. It ends with the damaged shards, if there are any."""
        by_reason = ", ".join(f"{reason} {number:,}" for reason, number in sorted(self.reasons.items()))
        quarantined = f"{self.num_quarantined:,} quarantined{f' ({by_reason})' if by_reason else ''}"
        damage = "" if self.damage.caution is None else f"; {self.damage.caution}"
        screened = f"{self.num_screened:,} screened out, " if self.num_screened else ""
        shards = f"{self.num_finished_shards} of {number_of(self.num_shards, 'shard')}"
        scored = f"{self.num_scored:,} scored, {screened}{quarantined}"
        return f"{number_of(self.num_images, 'image')} in {shards}: {scored}{damage}"


class IncompleteScanError(IncompleteError):
    """The scan came to its end and images are without a row, or the source changed meanwhile."""

    def __init__(self, message: str, result: ScanResult):
        super().__init__(message)
        self.result = result
