"""`run.json`: the source and the settings of a run. It is written when a run begins, and compared when it continues."""

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, with_config
from pydantic_core import from_json
from typing_extensions import TypedDict

from ingest.errors import RunError, number_of
from ingest.images.pixels import ImageLimits
from ingest.sample import printable
from ingest.storage.file_format import FORMAT, Format, refuse_other_format
from ingest.storage.place import PART, Place, place
from scoring.runs import ATTEMPTS, CANARY, FIGURES, PROBE, PURGED, RUN_LEASE, RUN_RECORD, SCORES
from scoring.taxonomy import PUBLISHED, TAXONOMY, TAXONOMY_VARIABLE

NOT_COMPARED = frozenset(["code", "built_with", "is_fake"])
"""Settings that record how rows were made but do not change them, or follow from those that are compared."""

WHOLE = "all images of the source"
READABLE = "the images of the source that could be read"

Model = TypeVar("Model", bound=BaseModel)


@with_config(ConfigDict(extra="forbid", strict=True))
class EngineRecord(TypedDict):
    """What can change the answers of an engine. Keys without a docstring are as in `EngineDescription`."""

    name: str
    protocol: str
    assessed: list[str]

    only_affirmed: list[str]
    """`EngineDescription.presence_only`."""

    uses_caption: bool
    weights: dict[str, str]
    versions: dict[str, str]
    max_side_px: int | None


PositiveCount = Annotated[int, Field(ge=1, lt=2**63)]

Text = Annotated[str, Field(pattern=r"^[^\x00]*$")]
"""Text without null bytes, as in names of paths, fields and columns."""


class ScreenSettings(BaseModel):
    """The screen of a scan, and what it promises. Its folder says the rest."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    """Hash of its screen.json."""

    target_miss: Annotated[float, Field(gt=0, lt=1)]
    confidence: Annotated[float, Field(gt=0, lt=1)]

    miss_high: Annotated[float, Field(ge=0, le=1)]
    """Upper end of the miss rate that labels prove."""

    miss_high_level_1: Annotated[float, Field(ge=0, le=1)] | None
    """The same for level 1; None unless the screen promises something of level 1."""

    guard_share: Annotated[float, Field(gt=0, le=1)]

    @property
    def caution(self) -> str:
        """What readers of figures of the run must know."""
        level_1 = "; of level 1 alone nothing is promised"
        if self.miss_high_level_1 is not None:
            level_1 = f", of level 1 {100 * self.miss_high_level_1:.2g} %"
        return (
            f"SCREENED: the engine has not seen the pictures that a screen left out; by labels that is at most "
            f"{100 * self.miss_high:.2g} % of the private ones ({100 * self.confidence:.3g} % confidence){level_1}"
        )


@dataclass(frozen=True)
class ShardDraw:
    """A sample in two stages: shards were drawn at random, then images of all drawn shards together."""

    num_shards: int
    num_source_shards: int
    num_images: int
    num_in_shards: int
    """Number of images in the drawn shards."""


class RunRecord(BaseModel):
    """The settings that make a run's rows comparable. Two scans into one run must agree in all of them except
    `privsieve` and `NOT_COMPARED`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Format = FORMAT
    privsieve: str

    code: str
    """Hash of the source files of the privsieve that began the run (`jobs.runtime.on_worker.code_hash`)."""

    source: Text
    source_format: str
    category: Text | None
    sample: PositiveCount | None
    seed: Annotated[int, Field(ge=0, lt=2**63)] | None
    limit: PositiveCount | None

    per_category: bool = False
    """Whether `sample` counts the images of each category instead of all images."""

    drawn: PositiveCount | None = None
    """Number of images that were drawn, if `per_category`."""

    shards: PositiveCount | None = None
    """Number of drawn shards, from which `sample` images were drawn; None if images of all shards could be drawn."""

    num_source_shards: PositiveCount | None = None
    num_in_shards: PositiveCount | None = None
    """Number of images in the drawn shards, if `shards`."""

    image_columns: tuple[Text, ...] = ()
    """Columns of tables that `--image-column` names; empty if all that hold images were scanned."""

    unread_columns: tuple[Text, ...] = ()
    """Columns that hold images and were not scanned."""

    labels: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    """`ClassList.sha256` of the list that gives the categories; None without `--labels`."""

    caption_words: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    """`KeywordList.sha256` of the list that gives the categories by captions; None without `--caption-words`."""

    pdq: bool = False
    """Whether the rows have the column `pdq`."""

    hash_list: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None
    """`HashList.digest` of the hash list of the scan; None without one."""

    screen: ScreenSettings | None = None
    """The screen that left pictures out; None if the engine was asked about all of them."""

    max_pixels: PositiveCount
    max_frames: PositiveCount
    taxonomy: str
    engine: EngineRecord

    is_fake: bool
    """`EngineDescription.is_fake` of the engine."""

    built_with: tuple[dict[str, bool | int | float | str], ...] = ()
    """Settings that engines chose for their machines or were given (`scoring.assessment.TakesSteps`), each
    combination once. They do not change answers."""

    def settings_hash(self) -> str:
        """Return the hash of the settings, for the footer of every result."""
        return hashlib.sha256(self.model_dump_json(exclude=set(NOT_COMPARED)).encode()).hexdigest()

    @property
    def limits(self) -> ImageLimits:
        """Limits on what the scan decoded of each picture."""
        return ImageLimits(self.max_pixels, self.max_frames, self.engine["max_side_px"], self.pdq)

    @property
    def made_up(self) -> str | None:
        """The warning that the answers are made up, for figures and releases; None for engines that see pictures."""
        return f"MADE-UP ANSWERS: the {self.engine['name']} engine looks at no picture" if self.is_fake else None

    @property
    def is_whole(self) -> bool:
        """Whether the run covers all images of its source, not a part chosen by --sample or --limit."""
        return self.sample is None and self.limit is None

    @property
    def num_chosen(self) -> int | None:
        """Number of images that `--sample` or `--limit` asked for; None without these options."""
        return self.drawn or self.sample or self.limit

    @property
    def shard_draw(self) -> ShardDraw | None:
        """The draw of shards and images; None if no shards were drawn."""
        if self.sample is None or self.shards is None or self.num_source_shards is None or self.num_in_shards is None:
            return None
        return ShardDraw(self.shards, self.num_source_shards, self.sample, self.num_in_shards)

    @property
    def scope(self) -> str:
        """Which images of its source the run covers, in words."""
        if self.per_category and self.sample is not None:
            return (
                f"random sample of up to {self.sample:,} images per category (seed {self.seed}): rates per category "
                "hold for the source, figures over all images do not, since its categories are not equally large"
            )
        if (drawn := self.shard_draw) is not None:
            return (
                f"random sample of {number_of(drawn.num_images, 'image')} in "
                f"{number_of(drawn.num_shards, 'random shard')} of {drawn.num_source_shards:,} (seed {self.seed})"
            )
        if self.sample is not None:
            return f"random sample of {self.sample:,} images (seed {self.seed})"
        if self.limit is not None:
            return f"first {self.limit:,} images only (--limit): not representative"
        return self.whole

    @property
    def whole(self) -> str:
        """All images that could be chosen, in words."""
        names = ", ".join(self.unread_columns)
        return f"all images but those of the column{'s' * (len(self.unread_columns) > 1)} {names}" if names else WHOLE


def read_record(url: str) -> tuple[Place, RunRecord]:
    """Return the folder of a run and its record. RunError if there is none."""
    run = place(url)
    return run, record_in(run)


def record_in(run: Place) -> RunRecord:
    """Return the record of a run. RunError if it has none."""
    if not run.at(RUN_RECORD).exists():
        makes_one = f"privsieve scan SOURCE --run {run.url} makes one"
        how = "give the folder that scan --run wrote" if run.exists() else makes_one
        raise RunError(f"{run.url} is not a run: it has no {RUN_RECORD}; {how}")
    if run.at(PURGED).exists():
        raise RunError(f"{run.url} was purged: only its figures are left, in {FIGURES}/; scan into a new run")
    content, file = run.at(RUN_RECORD).read(), f"{run.url}/{RUN_RECORD}"
    try:
        refuse_other_format(from_json(content), file, "scan into a new run", RunError)
        record = parsed(RunRecord, content)
    except ValueError:
        raise RunError(f"{file} is damaged; scan into a new run") from None
    if record.taxonomy != TAXONOMY.version:
        is_published = record.taxonomy.startswith(PUBLISHED)
        remedy = "unset {}" if is_published else "set {} to the file of that taxonomy"
        raise RunError(
            f"{run.url} was scanned with the taxonomy {record.taxonomy}, and {TAXONOMY.version} is in use; "
            f"{remedy.format(TAXONOMY_VARIABLE)} to read this run; runs of different taxonomies cannot be compared"
        )
    return record


def parsed(model: type[Model], content: bytes) -> Model:
    """Parse a JSON file of a run. ValueError, without any of its content, if it does not fit the model."""
    try:
        return model.model_validate_json(content)
    except ValidationError:
        raise ValueError(f"not a {model.__name__}") from None


MAX_DIFFERENCES = 3

MAX_CHARACTERS = 1000
"""Maximum length of a value in a message."""


def differences(before: BaseModel, now: BaseModel) -> str:
    """Describe the first settings that differ, with both values shortened; empty if none differs."""
    changes = list(all_differences(before, now))
    more = [f"{len(changes) - MAX_DIFFERENCES} more"] if len(changes) > MAX_DIFFERENCES else []
    return "; ".join(changes[:MAX_DIFFERENCES] + more)


def all_differences(before: BaseModel, now: BaseModel) -> tuple[str, ...]:
    """Describe each setting that differs, with both values shortened; none if the settings are the same."""
    return tuple(_differing("", before.model_dump(), now.model_dump()))


def _differing(name: str, before: Any, now: Any) -> Iterator[str]:
    if before == now:
        return
    if isinstance(before, dict) and isinstance(now, dict):
        keys = list({**before, **now})
        if "name" in keys and before.get("name") != now.get("name"):
            keys = ["name"]  # the other settings depend on it
        for key in keys:
            inner = _cut(f'"{key}"' if " " in key else key)
            yield from _differing(f"{name} {inner}".lstrip(), before.get(key), now.get(key))
    elif isinstance(before, (list, tuple)) and isinstance(now, (list, tuple)):
        gone, new = ([_cut(str(v)) for v in some if v not in other] for some, other in ((before, now), (now, before)))
        differences = [f"had {', '.join(gone)}"] if gone else []
        differences += [f"has now {', '.join(new)}"] if new else []
        yield f"{name} {' and '.join(differences) or 'has another order'}"
    else:
        yield f"{name} was {_in_short(before)}, now {_in_short(now)}"


def _in_short(value: Any) -> str:
    """Shorten a value for a message: hashes to their first digits."""
    if value is None:
        return "not set"
    if isinstance(value, dict):
        return "set"
    if isinstance(value, str):
        return f"{value[:8]}…" if re.fullmatch(r"[0-9a-f]{64}", value) else f'"{_cut(value)}"'
    return _cut(str(value))


def _cut(text: str) -> str:
    """Make a text of run.json printable, and shorten it if it is longer than most paths."""
    return printable(text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]}…")


def refuse_other(run: Place, record: RunRecord) -> RunRecord | None:
    """Return the record of a run, or None if it has none. RunError if it differs, or if the folder
    holds other files."""
    if not run.at(RUN_RECORD).exists():
        try:
            refuse_other_files(run)
        except RunError:
            if not run.at(RUN_RECORD).exists():  # else another scan has begun the run meanwhile
                raise
        else:
            return None
    before = record_in(run)
    # The engine's description says what can change the answers; another version of privsieve alone does not.
    same: dict[str, object] = {name: getattr(before, name) for name in ("privsieve", *NOT_COMPARED)}
    # At the first check nothing is drawn yet, so `record` has None there.
    same |= {name: getattr(before, name) for name in ("drawn", "num_in_shards") if getattr(record, name) is None}
    different = differences(before, record.model_copy(update=same))
    if different:
        remedies = [
            f"give the {what} with which this run began, {'' if began_with else 'none, '}"
            for what, began_with, given in (
                ("hash list", before.hash_list, record.hash_list),
                ("screen", before.screen, record.screen),
            )
            if began_with != given
        ]
        if before.source != record.source and "://" not in before.source:
            remedies.insert(0, "if the source has moved, put a link to its new place where it was, ")
        remedy = "and ".join(remedies) + ("or " if remedies else "") + "use another --run"
        raise RunError(f"{run.url} was scanned with other settings: {different}; {remedy}")
    return before


def start_or_continue(run: Place, record: RunRecord) -> RunRecord:
    """Write `run.json` if it does not exist, and return the record. Needs the lease. See `refuse_other`."""
    before = refuse_other(run, record)
    if before is None:
        _write(run, record)
    return before or record


def with_built(run: Place, record: RunRecord, built_with: dict[str, bool | int | float | str]) -> RunRecord:
    """Add the settings of a built engine to `run.json`, unless they are there. Needs the lease."""
    if built_with in record.built_with:
        return record
    record = record.model_copy(update={"built_with": (*record.built_with, built_with)})
    _write(run, record)
    return record


def _write(run: Place, record: RunRecord) -> None:
    run.at(RUN_RECORD).write((json.dumps(record.model_dump(), indent=2) + "\n").encode())


def refuse_other_files(root: Place) -> None:
    """Raise RunError if a folder without a run holds files other than those that a scan makes first, or is a file."""
    if root.exists() and not root.is_dir():
        raise RunError(f"{root.url} is a file, and a run is a folder; give a new folder for --run")
    unfinished = (RUN_LEASE, RUN_RECORD, PROBE)
    if not all(name == RUN_LEASE or (name.endswith(PART) and name.startswith(unfinished)) for name in root.names()):
        raise RunError(f"{root.url} holds other files and is not a run; use a new folder for --run")


def remove_unfinished(run: Place) -> None:
    """Remove files that killed workers left half written. Needs the lease, and no worker may run."""
    for folder in (run.at(name) for name in (SCORES, ATTEMPTS, CANARY) if run.is_local):
        for name in folder.names():
            if name.endswith(PART):
                folder.at(name).remove()
    for name in run.names():
        if name.startswith(PROBE):
            run.at(name).remove()
