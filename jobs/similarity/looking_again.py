"""Detectors examine the original and the changed picture: what is still found can be found by others, too."""

import numpy as np
import numpy.typing as npt

from ingest.images.pixels import Pixels
from scoring.assessment import Assessment, EngineOptions, View
from scoring.engines import DEFAULT, engine_module


class Looking:
    """Keeps the answer for the last original, with which many changed pictures may be compared."""

    def __init__(self) -> None:
        """EngineError if the detectors cannot run here."""
        self._engine = engine_module(DEFAULT).load(EngineOptions())
        self._last: tuple[Pixels, npt.NDArray[np.bool_] | None] | None = None

    def share_still_found(self, original: Pixels, changed: Pixels) -> float | None:
        """Share of the attributes found in the original that are found in the changed picture, 0 to 1. None if nothing
        is found in the original, or one of the two cannot be judged."""
        if self._last is None or self._last[0] is not original:
            self._last = (original, self._found(original))
        before = self._last[1]
        if before is None or not before.any():
            return None
        after = self._found(changed)
        return None if after is None else float(after[before].mean())

    def _found(self, pixels: Pixels) -> npt.NDArray[np.bool_] | None:
        """Shape (22,): whether the attribute is present, or may be."""
        outcome = self._engine.assess([View(pixels, frozenset(), "")])[0]
        return np.nan_to_num(outcome.values) > 0 if isinstance(outcome, Assessment) else None
