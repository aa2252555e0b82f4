"""Collects the pairs of one set, one after the other; memory grows only with their figures."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from reports.similarity.likeness import Features, is_nearest_to_own
from reports.similarity.results import MAX_NEAREST, METRICS, PAIRS_SCHEMA, PairState, SetSimilarity
from reports.statistics.shares import wilson


@dataclass(frozen=True)
class PairFigures:
    """A compared pair, as `SetPairs.add` takes it: METRICS -> value, and the features."""

    metrics: dict[str, float | None]
    original_features: Features
    changed_features: Features
    num_areas: int
    had_other_size: bool


class SetPairs:
    """Collects the pairs of a set."""

    def __init__(self, name: str):
        self.name, self.num_originals_without, self._num_other_size = name, 0, 0
        self._columns: dict[str, list[object]] = {column: [] for column in PAIRS_SCHEMA.names}
        self._counts = Counter[PairState]()
        self._originals, self._changed = list[Features](), list[Features]()

    def add(self, key: str | None, state: PairState, figures: PairFigures | None = None) -> None:
        """Add a pair. figures: of a compared pair."""
        self._counts[state] += 1
        row: dict[str, object] = {"set": self.name, "key": None if state == "withheld" else key, "state": state}
        if figures is not None:
            row |= {**figures.metrics, "num_areas": figures.num_areas}
            self._num_other_size += figures.had_other_size
            if len(self._originals) < MAX_NEAREST:
                self._originals.append(figures.original_features)
                self._changed.append(figures.changed_features)
        for name, column in self._columns.items():
            column.append(row.get(name))

    def result(self) -> tuple[SetSimilarity, pa.Table]:
        """Return the set as a whole, and a row of each pair (`PAIRS_SCHEMA`)."""
        is_nearest = np.zeros(0, dtype=np.bool_)  # a single pair says nothing
        if len(self._originals) > 1:
            is_nearest = is_nearest_to_own(np.stack(self._changed), np.stack(self._originals))
        num_asked = len(is_nearest)
        compared = [row for row, state in enumerate(self._columns["state"]) if state == "compared"]
        for row, answer in zip(compared, is_nearest.tolist(), strict=False):  # those kept
            self._columns["is_nearest"][row] = answer
        num_nearest = int(is_nearest.sum())
        low, high = wilson(num_nearest, num_asked) if num_asked > 1 else (None, None)
        similarity = SetSimilarity(
            name=self.name,
            counts=dict(self._counts),
            num_originals_without=self.num_originals_without,
            means={metric: self._mean(metric) for metric in METRICS},
            num_nearest=num_nearest,
            num_nearest_of=num_asked,
            nearest_low=low,
            nearest_high=high,
            num_other_size=self._num_other_size,
        )
        return similarity, pa.table(self._columns, schema=PAIRS_SCHEMA)

    def _mean(self, metric: str) -> float | None:
        known = [value for value in self._columns[metric] if isinstance(value, float)]
        return float(np.mean(known)) if known else None
