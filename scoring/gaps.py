"""Attributes that an engine judges in general but not in one image, such as text in a script that it cannot read.

Level and score count an unknown attribute as absent. The column `unknown_level` shows images for which that may be
wrong. It is computed from the row and `run.json` for policies, reports and the view `images`, and is not stored.
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


def presence_only(engine: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the attributes that the engine of a run.json confirms but never answers with 0. A null in one of them says
    nothing of the image."""
    return tuple(key for key in KEYS if key in (engine.get("only_affirmed") or ()))


def not_presence_only(engine: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the attributes that the engine answers with 0 if it finds nothing; a null in one of them is a gap."""
    judged, confirmed = engine.get("assessed") or (), presence_only(engine)
    return tuple(key for key in KEYS if key in judged and key not in confirmed)


def unknown_level_sql(answered_both_ways: Collection[str]) -> str:
    """Return SQL for the value of `UNKNOWN_LEVEL`. answered_both_ways: from `not_presence_only`."""
    unknown = {level: unknown_at_sql((level,), answered_both_ways) for level in sorted(set(LEVELS) - {0})}
    whens = [f"WHEN {condition} THEN {level}" for level, condition in unknown.items() if condition != NEVER]
    return f"CAST(CASE {' '.join(whens)} END AS TINYINT)" if whens else "CAST(NULL AS TINYINT)"


def unknown_at_sql(levels: Collection[int], answered_both_ways: Collection[str]) -> str:
    """Return SQL for whether an attribute of these levels was not judged; reads no other attributes."""
    null = " OR ".join(f"{a.key} IS NULL" for a in ATTRIBUTES if a.level in levels and a.key in answered_both_ways)
    return f"status = 'scored' AND ({null})" if null else NEVER
