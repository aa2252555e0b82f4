"""Decisions that follow from other pictures of a run, such as near duplicates: what a policy cannot see in one row."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Rows = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int32]


@dataclass(frozen=True)
class Overruled:
    """Which rows another decision is for, and which."""

    rows: Mapping[str, tuple[Rows, Numbers]] = field(default_factory=dict)
    """Shard, as rows name it -> the indices of rows in ascending order, and the numbers of their decisions."""

    decisions: tuple[tuple[str, str, str], ...] = ()
    """Action, rule and reason."""

    def apply(self, decisions: pa.Table) -> pa.Table:
        """Return the decisions with those that are overruled replaced. decisions: of one shard, with `shard` and
        `index`."""
        if not decisions.num_rows or (overruled := self.rows.get(decisions["shard"][0].as_py())) is None:
            return decisions
        indices, numbers = overruled
        own = decisions["index"].to_numpy()
        places = np.minimum(np.searchsorted(indices, own), len(indices) - 1)
        is_overruled = indices[places] == own
        if not is_overruled.any():
            return decisions
        for part, name in enumerate(("action", "rule", "reason")):
            values = decisions[name].to_pylist()
            for row in np.flatnonzero(is_overruled).tolist():
                values[row] = self.decisions[numbers[places[row]]][part]
            column = decisions.schema.get_field_index(name)
            decisions = decisions.set_column(column, decisions.schema.field(name), pa.array(values, pa.string()))
        return decisions
