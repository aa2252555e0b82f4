"""What a released sample says of itself: the policy's decision, and what the run found; kinds, never content."""

from typing import Any

import pyarrow as pa

from ingest.errors import PolicyError
from ingest.formats import Source
from jobs.filter.decisions import kept_rows
from scoring.table import Col
from scoring.taxonomy import KEYS

FLAGGED = (Col.LEVEL, Col.SCORE, *KEYS)
"""Columns of the row that flags are made of."""


def refuse_without_json(corpus: Source) -> None:
    """Raise PolicyError if the samples of a corpus have no JSON that a release writes."""
    if corpus.format != "webdataset":
        raise PolicyError(
            f"--flag-keys writes into the JSON of tars, and the source is {corpus.format}; decisions.parquet says the "
            "same by shard and key"
        )


def flags_of(rows: pa.Table, decisions: pa.Table) -> dict[int, dict[str, Any]]:
    """Return index -> flags of each row that is not dropped. rows: with `FLAGGED`, as many as decisions."""
    judged = rows.select(FLAGGED)
    for name in ("index", "action", "rule"):
        judged = judged.append_column(f"decided_{name}", decisions[name])
    kept = judged.append_column("action", decisions["action"])
    return {
        row["decided_index"]: {
            "action": row["decided_action"],
            "rule": row["decided_rule"],
            "level": row[Col.LEVEL],
            "score": None if row[Col.SCORE] is None else round(row[Col.SCORE], 6),
            "attributes": None if row[Col.SCORE] is None else [key for key in KEYS if row[key] == 1],
        }
        for row in kept_rows(kept).to_pylist()
    }
