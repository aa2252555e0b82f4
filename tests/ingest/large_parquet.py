"""Small Parquet files of large contents, and how much memory it takes to read them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

ROOT = Path(__file__).parents[2]

NUM_ROWS = 1000

LARGE = bytes(4 * 2**20)

MAX_MB = 1500


def repeated(value: bytes | str, kind: pa.DataType, num_rows: int = NUM_ROWS) -> pa.Array:
    """One value in every row, of which a file holds one."""
    return pa.DictionaryArray.from_arrays(pa.array([0] * num_rows, pa.int32()), pa.array([value], kind))


def read_in_a_child(file: Path, *out: Path) -> dict[str, Any]:
    """With `out`, all samples are released into that folder too."""
    command = [sys.executable, "-m", "tests.ingest.peak", str(file), *map(str, out)]
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=1500)
    found: dict[str, Any] = json.loads(done.stdout)
    return found
