"""Input and output of an engine. Every engine has this signature.

An engine never sees keys or file names: only pixels, the kinds of embedded metadata, and the hash. An engine that
declares it (`EngineDescription.uses_caption`) gets the caption too; none that asks a model may.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, fields
from typing import Annotated, Protocol, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt
from pydantic import Field

from ingest.errors import EngineError, Fault
from ingest.images.pixels import Pixels
from scoring.engine_facts import Preview, Requirements
from scoring.taxonomy import KEYS

Number = TypeVar("Number", bool, float)

Values = npt.NDArray[np.float32]
"""Shape (attributes,), canonical order: 1 present, 0.5 ambiguous, 0 absent, NaN not assessed."""


@dataclass(frozen=True)
class View:
    """One picture to assess: a frame of an image."""

    pixels: Pixels

    metadata: frozenset[str]
    """Kinds of embedded metadata, never their values."""

    sha256: str
    """Hash of the encoded file, in hex."""

    caption: str | None = field(default=None, repr=False)
    """Caption of the image in the corpus; None without one, and for every engine that does not declare
    `EngineDescription.uses_caption`."""


@dataclass(frozen=True)
class Box:
    """Position of evidence, in fractions of the displayed picture (0–1, x to the right, y down)."""

    attribute: str
    """A taxonomy key."""

    kind: str
    """The kind of evidence ("face", "card number"), never the text itself."""

    x_min: float
    y_min: float
    x_max: float
    y_max: float

    confidence: float
    """Confidence of the model, 0–1."""

    view: int = 0
    """Number of the view of the image, from 0."""


@dataclass(frozen=True)
class Assessment:
    """An engine's answer for one view.

    Some engines judge only the image as a whole: their `values` are all NaN, and the last three fields are set.
    """

    values: Values

    evidence: tuple[str, ...] = ()
    """Kinds of evidence in plain words, the strongest first; they become the row's rationale."""

    boxes: tuple[Box, ...] = ()

    probabilities: npt.NDArray[np.float32] | None = None
    """Shape (attributes, 3), columns absent, ambiguous, present; rows of attributes that were not assessed are NaN."""

    holistic_score: float | None = None
    """Severity of the whole image, 0–1."""

    private: bool | None = None
    """Whether the whole image is private."""

    prob_private: float | None = None
    """Probability that the whole image is private, 0–1."""


@dataclass(frozen=True)
class Unscored(Fault):
    """The engine could not answer for this view."""


Outcome = Assessment | Unscored

ENGINE_ERROR = "engine_error"
ENGINE_OOM = "engine_oom"
TOO_MANY_RETRIES = "too_many_retries"
NO_ANSWER_REASONS = frozenset([ENGINE_ERROR, ENGINE_OOM, TOO_MANY_RETRIES])
"""Reasons of `Unscored` that say that the engine gave no answer; after many of them in a row the scan ends. A refusal
is an answer, and so is what the protocol cannot read."""


@dataclass(frozen=True)
class EngineDescription:
    """Facts that make two runs comparable; written to run.json. Available without loading a model."""

    name: str

    protocol: str
    """Version of the rules or the prompt, and every setting that can change an answer."""

    assessed: tuple[str, ...]
    """Taxonomy keys that the engine can judge."""

    weights: dict[str, str] = field(default_factory=dict)
    """Model file name -> sha256 in hex."""

    versions: dict[str, str] = field(default_factory=dict)
    """Package -> version, for the packages that can change the answers."""

    max_side_px: int | None = None
    """Larger views are downscaled to this before the engine sees them; None keeps the full size."""

    num_gpus: int = 0
    """GPUs that one engine uses, if there are any. Does not change the answers."""

    batches_at_once: int = 1
    """Calls of `assess` that the engine accepts at the same time, from different threads. Does not change the
    answers."""

    presence_only: tuple[str, ...] = ()
    """Those of `assessed` that are never 0: the engine can confirm them but not rule them out, so null is not an
    answer. run.json calls this `only_affirmed`."""

    uses_caption: bool = False
    """Whether views include the caption, which then can change the answers."""

    is_fake: bool = False
    """Whether the answers are made up and the engine looks at no picture, as in tests and dry runs."""


SET_BY_SCANS = frozenset(["weights_sha256", "cpus", "gpu_share"])
"""Fields of `EngineOptions` that scans set, not users."""

ABOUT_THE_QUESTION = ("model", "protocol", "prompt_file", "max_pixels")
"""Fields of `EngineOptions` that every engine with a language model takes."""


@dataclass(frozen=True)
class EngineOptions:
    """The user's choices for the engine; None if not given. An engine refuses what it cannot use.

    Commands derive their options from these fields (`jobs.console.requests`), with the limits of numbers.
    """

    model: str | None = None
    """Model folder, hub name or URL (vllm, transformers); name at the endpoint (openai)."""

    adapter: str | None = None
    """Folder, hub name or URL of a LoRA adapter for the model."""

    protocol: str | None = None
    """What is asked: {}; see privsieve help protocols."""

    prompt_file: bytes | None = None
    """YAML file with wordings that replace the protocol's own."""  # its content: a worker may be on another machine

    max_pixels: Annotated[int, Field(ge=28 * 28)] | None = None
    """Pictures are downscaled to this many pixels (width x height) for the model."""

    dtype: str | None = None
    """float32, bfloat16 or float16; None for that of the stored model."""

    batch_size: Annotated[int, Field(ge=1)] | None = None
    """Pictures in one pass of the model."""

    tensor_parallel_size: Annotated[int, Field(ge=1)] | None = None
    """GPUs that share one model."""

    vllm_option: tuple[str, ...] | None = None
    """Setting of vLLM, such as max_num_seqs=512; can be given several times; see privsieve help engines."""

    endpoint: str | None = None
    """Base URL of an OpenAI-compatible server, such as http://127.0.0.1:8000/v1 (openai)."""

    concurrency: Annotated[int, Field(ge=1, le=256)] | None = None
    """Requests to the endpoint at the same time, of one engine (openai)."""

    weights_sha256: frozenset[str] | None = None
    """Hashes of the run; fetched weights must have one of them. None: any."""

    cpus: float | None = None
    """CPUs that the engine may use, from `--engine-cpus`. None: unknown."""

    gpu_share: float | None = None
    """Share of one GPU that the engine may take, from `--engine-gpus` below 1. None: all of it."""

    def refuse_all_but(self, engine: str, names: Collection[str]) -> None:
        """Raise EngineError if an option was given that the engine does not take. names: of fields."""
        for option in fields(self):
            if option.name not in {*SET_BY_SCANS, *names} and getattr(self, option.name) is not None:
                flag = "--" + option.name.replace("_", "-")
                raise EngineError(f"the {engine} engine takes no {flag}; leave it out or choose another --engine")


class Engine(Protocol):
    def assess(self, views: Sequence[View]) -> list[Outcome]:
        """Return one outcome per view, in order. A view that cannot be judged is `Unscored`, never an exception."""
        ...


@runtime_checkable
class Closable(Protocol):
    """An engine that holds a device and can release it."""

    def close(self) -> None: ...


@runtime_checkable
class ReportsGpuMemory(Protocol):
    """An engine on a GPU, whose memory may grow."""

    def gpu_memory(self) -> tuple[int, int]:
        """Return bytes that the engine takes of its GPU, and bytes that are left; of the fullest of several. Zeros
        without one."""
        ...


BuiltWith = dict[str, bool | int | float | str]


@runtime_checkable
class TakesSteps(Protocol):
    """An engine whose model answers many requests in one step, and is underused while it has fewer."""

    @property
    def requests_per_step(self) -> int: ...

    @property
    def num_requests(self) -> int:
        """Requests that the model has, waiting or in the current step."""
        ...

    @property
    def num_prepared(self) -> int:
        """Views that were given to `assess` and are on their way to the model."""
        ...

    @property
    def built_with(self) -> BuiltWith:
        """Settings that the engine chose for the machine, or was given; they do not change the answers."""
        ...


class EngineModule(Protocol):
    """Interface of the modules named in `scoring.engines.ENGINES`. Only `load` loads a model."""

    def refuse_wrong(self, options: EngineOptions) -> None:
        """Raise EngineError for an option that is missing, not taken or wrong on every machine. Reads no file."""
        ...

    def describe(self, options: EngineOptions) -> EngineDescription:
        """Describe the engine. EngineError if an option, a package or a model file is missing or wrong."""
        ...

    def requirements(self, options: EngineOptions) -> Requirements:
        """Return what `privsieve doctor` checks. Works with options that `describe` refuses."""
        ...

    def preview(self, options: EngineOptions) -> Preview:
        """Return what `scan --dry-run` shows. EngineError as in `describe`."""
        ...

    def load(self, options: EngineOptions) -> Engine:
        """Load the model. EngineError if that fails."""
        ...


@runtime_checkable
class RemoteEngineModule(Protocol):
    """An engine module whose model is not on the machines of the scan."""

    def check(self, options: EngineOptions) -> str:
        """Ask once and report the result in one line. EngineError if there would be no answers."""
        ...


def not_assessed() -> Values:
    """Return a new vector of NaN, shape (attributes,)."""
    return np.full(len(KEYS), np.nan, dtype=np.float32)


def worst(outcomes: Sequence[Outcome]) -> Outcome:
    """Join the views of one image: per attribute, the highest value of any view and the probabilities of that view.

    An attribute is 0 only if it is 0 in every view: if one view was not assessed and no other shows more, the attribute
    is not assessed. One unscored view makes the image unscored, since what it shows is unknown.
    """
    assessments: list[Assessment] = []
    for outcome in outcomes:
        if isinstance(outcome, Unscored):
            return outcome
        assessments.append(outcome)
    if len(assessments) == 1:
        return assessments[0]
    stacked = np.stack([a.values for a in assessments])
    highest = np.nanmax(np.nan_to_num(stacked, nan=0.0), axis=0)
    unknown = np.isnan(stacked).any(axis=0) & (highest == 0)
    values = np.where(unknown, np.nan, highest).astype(np.float32)
    evidence = tuple(dict.fromkeys(kind for a in assessments for kind in a.evidence))
    boxes = tuple(
        Box(b.attribute, b.kind, b.x_min, b.y_min, b.x_max, b.y_max, b.confidence, view)
        for view, a in enumerate(assessments)
        for b in a.boxes
    )
    private = _highest([a.private for a in assessments])
    chances = [a.prob_private for a in assessments if a.private == private and a.prob_private is not None]
    return Assessment(
        values,
        evidence,
        boxes,
        _probabilities_of(values, assessments),
        holistic_score=_highest([a.holistic_score for a in assessments]),
        private=private,
        prob_private=max(chances, default=None),
    )


def _highest(judged: Sequence[Number | None]) -> Number | None:
    """Return the highest over all views; None if any of them was not judged."""
    known = [value for value in judged if value is not None]
    return max(known) if len(known) == len(judged) else None


def _probabilities_of(values: Values, assessments: Sequence[Assessment]) -> npt.NDArray[np.float32] | None:
    """Return per attribute those of the view whose value counts; of several, the view with the highest P(present)."""
    if all(a.probabilities is None for a in assessments):
        return None
    unknown = np.full((len(KEYS), 3), np.nan, dtype=np.float32)
    stacked = np.stack([unknown if a.probabilities is None else a.probabilities for a in assessments])
    is_its_own = np.stack([a.values for a in assessments]) == values  # NaN never matches
    present = np.where(is_its_own, np.nan_to_num(stacked[:, :, 2], nan=-1.0), -2.0)
    chosen = np.argmax(present, axis=0)
    result: npt.NDArray[np.float32] = stacked[chosen, np.arange(len(KEYS))]
    result[np.isnan(values)] = np.nan
    return result
