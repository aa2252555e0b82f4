"""What an engine is given and what it may answer. Every engine has this one signature.

An engine never sees keys, captions or file names: only pixels, the kinds of embedded metadata, and the hash.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt

from ingest.errors import EngineError
from ingest.images.decode import Pixels
from scoring.taxonomy import KEYS

Number = TypeVar("Number", bool, float)

Values = npt.NDArray[np.float32]
"""Shape (22,), canonical order: 1 present, 0.5 ambiguous, 0 absent, NaN not assessed."""


@dataclass(frozen=True)
class View:
    """One thing to look at: a frame of an image. `sha256` is of the encoded file, in hex."""

    pixels: Pixels
    metadata: frozenset[str]
    sha256: str


@dataclass(frozen=True)
class Box:
    """Where evidence was found, in fractions of the displayed picture (0–1, x to the right, y down).

    attribute: a taxonomy key. kind: the kind of evidence ("face", "card number"), never the text itself.
    confidence: of the finding model, 0–1. view: which view of the image, counted from 0.
    """

    attribute: str
    kind: str
    x_min: float
    y_min: float
    x_max: float
    y_max: float
    confidence: float
    view: int = 0


@dataclass(frozen=True)
class Assessment:
    """An engine's answer for one view.

    values: see `Values`. evidence: kinds of evidence in plain words, most telling first; the row's rationale.
    probabilities: None or shape (22, 3), float32, columns absent, ambiguous, present; NaN rows not assessed.
    holistic_score, private, prob_private: of engines that judge the image as a whole, whose values are all NaN: a
    severity in 0–1, whether the image is private, and the probability of that.
    """

    values: Values
    evidence: tuple[str, ...] = ()
    boxes: tuple[Box, ...] = ()
    probabilities: npt.NDArray[np.float32] | None = None
    holistic_score: float | None = None
    private: bool | None = None
    prob_private: float | None = None


@dataclass(frozen=True)
class Unscored:
    """The engine could not answer for this view: a short code and one line without content."""

    reason: str
    message: str


Outcome = Assessment | Unscored


@dataclass(frozen=True)
class EngineDescription:
    """What makes two runs comparable; written to run.json. Must be had without loading a model.

    assessed: the keys that the engine can judge at all. presence_only: those of them that are never 0, so that a null
    says nothing of an image. weights: model file name -> sha256 in hex.
    versions: package -> version, of what can change the answers. max_side_px: views larger than this are
    downscaled before the engine sees them; None keeps the full size. num_gpus: what one engine takes where there are
    any. batches_at_once: how many calls of `assess` the engine takes at the same time, from as many threads. Neither
    matters for the answers.
    """

    name: str
    protocol: str
    assessed: tuple[str, ...]
    weights: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    max_side_px: int | None = None
    num_gpus: int = 0
    batches_at_once: int = 1
    presence_only: tuple[str, ...] = ()


@dataclass(frozen=True)
class EngineOptions:
    """What the user said about the engine; None where nothing was said. An engine refuses what it cannot use.

    model: a folder, or a name of the Hugging Face hub. adapter: folder of a LoRA adapter. protocol: with variants.
    prompt_file, thresholds: the content of the files, since a worker may be another machine. max_pixels: width x
    height that a picture is downscaled to. dtype: float32, bfloat16, float16; else as the model is stored.
    batch_size: pictures in one forward pass. tensor_parallel_size: GPUs that share one model. endpoint: base URL of a
    server. concurrency: requests to it at once.
    """

    model: str | None = None
    adapter: str | None = None
    protocol: str | None = None
    prompt_file: bytes | None = None
    thresholds: bytes | None = None
    keep_rationale: bool | None = None
    max_pixels: int | None = None
    dtype: str | None = None
    batch_size: int | None = None
    tensor_parallel_size: int | None = None
    endpoint: str | None = None
    concurrency: int | None = None

    def refuse_all(self, engine: str) -> None:
        """EngineError where anything was said to an engine that takes no options."""
        for option in fields(self):
            if getattr(self, option.name) is not None:
                flag = "--" + option.name.replace("_", "-")
                raise EngineError(f"the {engine} engine takes no {flag}; leave it out or choose another --engine")


class Engine(Protocol):
    def assess(self, views: Sequence[View]) -> list[Outcome]:
        """One outcome per view, in order. A view that cannot be judged is `Unscored`, never an exception."""
        ...


@runtime_checkable
class Closable(Protocol):
    """An engine that holds a device, and can let go of it."""

    def close(self) -> None: ...


@runtime_checkable
class ReportsTokenUsage(Protocol):
    """An engine that knows what its model has read and written since it was loaded.

    spent: requests, and tokens by kind: prompt (pictures included), cached (of the prompt, not computed again),
    generated. What is not known is left out.
    """

    spent: Counter[str]


class EngineModule(Protocol):
    """What a module named in `scoring.engines.ENGINES` offers."""

    def describe(self, options: EngineOptions) -> EngineDescription: ...

    def load(self, options: EngineOptions) -> Engine: ...


@runtime_checkable
class RemoteEngineModule(Protocol):
    """An engine module whose model is not on the machines of the scan."""

    def check(self, options: EngineOptions) -> str:
        """Asks once whether there are answers; what was found, in one line. EngineError where there would be none."""
        ...


def not_assessed() -> Values:
    """A fresh vector of 22 NaN."""
    return np.full(len(KEYS), np.nan, dtype=np.float32)


def worst(outcomes: Sequence[Outcome]) -> Outcome:
    """Join the views of one image: per attribute the highest value counts, wherever it was seen, with the
    probabilities of that view.

    0 needs every view: where one view was not assessed and no other shows more, the image is not assessed.
    One unscored view makes the image unscored, since what it shows is not known.
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
    """Of all views; None where one of them was not judged."""
    known = [one for one in judged if one is not None]
    return max(known) if len(known) == len(judged) else None


def _probabilities_of(values: Values, assessments: Sequence[Assessment]) -> npt.NDArray[np.float32] | None:
    """Per attribute those of the view whose value counts; of several such views that with the highest P(present)."""
    if all(a.probabilities is None for a in assessments):
        return None
    unknown = np.full((len(KEYS), 3), np.nan, dtype=np.float32)
    stacked = np.stack([unknown if a.probabilities is None else a.probabilities for a in assessments])
    is_its_own = np.stack([a.values for a in assessments]) == values  # never where NaN, which nobody judged
    present = np.where(is_its_own, np.nan_to_num(stacked[:, :, 2], nan=-1.0), -2.0)
    chosen = np.argmax(present, axis=0)
    result: npt.NDArray[np.float32] = stacked[chosen, np.arange(len(KEYS))]
    result[np.isnan(values)] = np.nan
    return result
