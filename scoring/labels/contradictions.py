"""Labels whose `private` and attributes contradict each other by the taxonomy.

A picture is private if it shows an attribute of level 1 or 2. So `private` 0 contradicts such an attribute that is 1,
and `private` 1 contradicts 0 for all of these. An attribute of 0.5 or null leaves both open. A labeler
may hold another definition of private, so such labels are counted and not refused.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingest.errors import number_of
from scoring.labels.table import attribute_values
from scoring.privacy import IS_DECISIVE
from scoring.severity import Floats
from scoring.table import numbers_of
from scoring.taxonomy import KEYS

MAX_NAMED = 3
"""Number of attributes that a message names."""


def contradictions(labels: pa.Table) -> str | None:
    """Return the caution about a table of `LABELS_SCHEMA`; None if no label contradicts itself."""
    return contradictions_of(numbers_of(labels, "private"), attribute_values(labels))


def contradictions_of(private: npt.NDArray[np.floating], values: Floats) -> str | None:
    """Return the same for arrays. private: shape (rows,), 0, 1 or NaN. values: shape (rows, attributes)."""
    is_shown = (values == 1) & IS_DECISIVE
    is_public = (private == 0) & is_shown.any(axis=1)
    is_private = (private == 1) & (values[:, IS_DECISIVE] == 0).all(axis=1)
    num_public, num_private = int(is_public.sum()), int(is_private.sum())
    if not num_public and not num_private:
        return None
    parts = []
    if num_public:
        counts = {key: int(num) for key, num in zip(KEYS, is_shown[is_public].sum(axis=0), strict=True) if num}
        common = sorted(counts, key=lambda key: -counts[key])
        named = ", ".join(f"{key} {counts[key]:,}" for key in common[:MAX_NAMED])
        more = f", {len(common) - MAX_NAMED} more" if len(common) > MAX_NAMED else ""
        parts.append(f"{num_public:,} with private 0 next to an attribute of level 1 or 2 that is 1 ({named}{more})")
    if num_private:
        parts.append(f"{num_private:,} with private 1 although every attribute of level 1 and 2 is 0")
    num_all = num_public + num_private
    contradict = "contradicts itself" if num_all == 1 else "contradict themselves"
    return (
        f"{num_all:,} of {number_of(len(private), 'label')} {contradict} by the taxonomy: {' and '.join(parts)}. Each "
        "column counts as it is labelled; check how the labelers defined private"
    )
