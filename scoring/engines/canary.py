"""Checks of an engine while it scans: one generated picture that all engines must answer alike, and plain grey ones.

Engines of one run that disagree on the generated picture are set up differently. If many pictures in a row get no
answer, and grey ones get none either, the engine has failed and the scan ends.
"""

import hashlib
import json
import math
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ingest.errors import EngineError
from ingest.storage.place import Place
from scoring.assessment import NO_ANSWER_REASONS, Assessment, Engine, Outcome, Unscored, View

SIZE_PX = 224
TOLERANCE = 0.02
"""Largest difference of a probability between two engines that work: half precision on differing GPUs, batches of
differing size."""

MAX_VALUES = 2
MAX_SCORE = 0.1
"""Limits for answers without probabilities: number of differing values, and difference of a holistic score."""


def canary() -> View:
    """Draw bars, a disc and noise: every patch differs, so that a lost or shuffled patch is noticed."""
    down, across = np.mgrid[0:SIZE_PX, 0:SIZE_PX]
    noise = np.random.default_rng(20260101).integers(0, 64, (SIZE_PX, SIZE_PX, 3))
    bars = np.stack([across, down, (across // 16 % 2) * 160], axis=-1) * 191 // SIZE_PX
    disc = (((across - 140) ** 2 + (down - 90) ** 2) < 50**2)[:, :, None] * np.array([0, 60, 0])
    pixels = np.ascontiguousarray(np.clip(noise + bars + disc, 0, 255).astype(np.uint8))
    return View(pixels, frozenset(), hashlib.sha256(pixels.tobytes()).hexdigest())


def canary_answer(engine: Engine) -> Outcome:
    """Ask an engine about the picture. EngineError if it cannot answer; another reason for no score is an answer."""
    answer = engine.assess([canary()])[0]
    if isinstance(answer, Unscored) and answer.reason in NO_ANSWER_REASONS:
        raise EngineError(f"the engine cannot answer for a plain picture: {answer.message}")
    return answer


def record(answer: Assessment) -> bytes:
    """Return an engine's answer as JSON, for comparison with other engines. Holds numbers only."""
    probabilities = None if answer.probabilities is None else _plain(answer.probabilities)
    kept = {"values": _plain(answer.values), "probabilities": probabilities}
    kept |= {name: getattr(answer, name) for name in ("holistic_score", "private", "prob_private")}
    return json.dumps(kept).encode()


def difference(first: bytes, second: bytes) -> str | None:
    """Return why two answers (`record`) cannot come from engines with the same set-up, or None.

    If answers have probabilities, only these count: values flip if two are nearly equal.
    """
    before, now = json.loads(first), json.loads(second)
    for name in ("probabilities", "prob_private"):
        if before[name] is not None and now[name] is not None:
            apart = _largest(np.atleast_1d(before[name]), np.atleast_1d(now[name]))
            return f"{name} of the canary picture differ by {apart:.3f}" if apart > TOLERANCE else None
    if sum(a != b for a, b in zip(before["values"], now["values"], strict=True)) > MAX_VALUES:
        return "values of the canary picture differ"
    for name, most in (("holistic_score", MAX_SCORE), ("private", 0.0)):
        if _largest([before[name]], [now[name]]) > most:
            return f"{name} of the canary picture differs"
    return None


def _plain(numbers: npt.NDArray[np.float32]) -> Any:
    """Round numbers for JSON, with null for NaN, which JSON lacks."""
    rounded = np.round(numbers.astype(float), 4).astype(object)
    rounded[np.isnan(numbers)] = None
    return rounded.tolist()


def _largest(before: Any, now: Any) -> float:
    """Return the largest difference.

    A value that only one of the two gives counts as fully different, except for up to `MAX_VALUES` of many: near a tie
    an engine that works may have no probabilities for an attribute.
    """
    first, second = (np.array(numbers, dtype=float).reshape(len(numbers), -1) for numbers in (before, now))
    known = ~np.isnan(first).any(axis=1), ~np.isnan(second).any(axis=1)
    if (known[0] != known[1]).sum() > (MAX_VALUES if len(first) > 1 else 0):
        return 1.0
    return float(np.abs(first - second)[known[0] & known[1]].max(initial=0.0))


def refuse_other_answer(folder: Place, answer: bytes) -> None:
    """Write the answer `own` to the folder. EngineError if another engine of the run gave a different one.

    answer: of `scoring.engines.canary.record`. It is written before the others are read: of two engines that start
    together, one sees the other.
    """
    file = folder.at(f"{hashlib.sha256(answer).hexdigest()[:16]}.json")
    is_first = not file.exists()
    file.write(answer)
    for name in folder.names():
        if not name.endswith(".json"):
            continue
        try:
            why = difference(folder.at(name).read(), answer)
        except (ValueError, KeyError, TypeError):
            raise EngineError(f"{folder.at(name).path} is damaged; remove it") from None
        if why is not None:
            if is_first:  # this engine is refused, so others need not agree with it
                file.remove()
            raise EngineError(f"an engine is set up differently from another one of this run: {why}")


GIVE_UP_AFTER = 16
"""After this many views in a row without an answer, as many plain pictures are tried: the views may come from a folder
of pictures that no processor takes. As many, since running out of memory may need a full batch."""


class CircuitBreaker:
    """Safe to use from several threads."""

    def __init__(self, max_pixels: int):
        side_px = math.isqrt(max_pixels)
        self._plain = View(np.full((side_px, side_px, 3), 128, dtype=np.uint8), frozenset(), "0" * 64)
        self._lock = threading.Lock()
        self._num_without_answer = 0

    def check(self, outcomes: Sequence[Outcome], ask: Callable[[Sequence[View]], Sequence[Outcome]]) -> None:
        """Raise EngineError if the engine no longer answers. outcomes: of all views that were asked, in order."""
        with self._lock:
            for outcome in outcomes:
                self._num_without_answer = self._num_without_answer + 1 if _is_unanswered(outcome) else 0
            if self._num_without_answer < GIVE_UP_AFTER:
                return
            number, self._num_without_answer = self._num_without_answer, 0
        last = ask([self._plain] * GIVE_UP_AFTER)
        if all(_is_unanswered(outcome) for outcome in last):
            why = last[-1].message if isinstance(last[-1], Unscored) else ""
            raise EngineError(f"the engine answered none of {number} pictures in a row, nor any plain one: {why}")


def _is_unanswered(outcome: Outcome) -> bool:
    """Return whether there is no answer; one that the protocol cannot read counts as an answer."""
    return isinstance(outcome, Unscored) and outcome.reason in NO_ANSWER_REASONS
