"""What an engine could not judge in one image though it judges it in others, such as text in a script it cannot read.

Level and score count an unknown attribute as absent. The column `unknown_level` shows where that may be wrong. It is
computed from the row and `run.json` for policies, reports and the view `images`, and is not stored.
"""

from collections.abc import Collection, Mapping
from typing import Any

import pyarrow as pa

from ingest.sample import Column
from scoring.taxonomy import ATTRIBUTES, KEYS, LEVELS

UNKNOWN_LEVEL = Column(
    "unknown_level",
    pa.int8(),
    "",
    "most severe level that has an attribute which was not judged in this image although the engine judges it in "
    "others, null if there is none",
)
NEVER = "false"


def ruled_out_by(engine: Mapping[str, Any]) -> tuple[str, ...]:
    """The attributes that are 0 where the engine of a run.json finds nothing; a null in one of them is a gap.

    The others are null in most images or in all, which says nothing of any one of them.
    """
    assessed, affirmed = engine.get("assessed") or (), engine.get("only_affirmed") or ()
    return tuple(key for key in KEYS if key in assessed and key not in affirmed)


def unknown_level_sql(ruled_out: Collection[str]) -> str:
    """The value of `UNKNOWN_LEVEL` over a row."""
    unknown = {level: unknown_at_sql((level,), ruled_out) for level in sorted(set(LEVELS) - {0})}
    whens = [f"WHEN {condition} THEN {level}" for level, condition in unknown.items() if condition != NEVER]
    return f"CAST(CASE {' '.join(whens)} END AS TINYINT)" if whens else "CAST(NULL AS TINYINT)"


def unknown_at_sql(levels: Collection[int], ruled_out: Collection[str]) -> str:
    """Whether an attribute of these levels was not judged, over a row; reads no attributes of other levels."""
    null = " OR ".join(f"{a.key} IS NULL" for a in ATTRIBUTES if a.level in levels and a.key in ruled_out)
    return f"status = 'scored' AND ({null})" if null else NEVER
