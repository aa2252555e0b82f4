"""The corpus that tests of clusters scan, and the rows that a scan has written."""

from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

ROOT = Path(__file__).parent.parent.parent

CORPUS = ROOT / "jobs" / "demo" / "corpus" / "shards"


def rows_of(run: Path) -> list[dict[str, Any]]:
    rows = [
        row for file in sorted((run / "scores").rglob("*.parquet")) for row in pq.ParquetFile(file).read().to_pylist()
    ]
    return sorted(rows, key=lambda row: (row["shard"], row["index"]))
