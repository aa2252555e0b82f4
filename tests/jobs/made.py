"""Small real corpora of tars, and the command line as a user calls it."""

import io
import json
import signal
import tarfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from ingest.errors import Fault
from jobs.cli import main
from jobs.runtime.progress import Meter
from jobs.scanning import compacting
from scoring.assessment import View
from scoring.engines.canned import CannedEngine
from scoring.runs import RUN_LEASE
from scoring.runs.lease import lease
from scoring.runs.ledger import has_any_result
from scoring.runs.record import read_record
from scoring.runs.results import results
from scoring.runs.source import source_of
from scoring.table import SCHEMA, Facts, to_table
from scoring.taxonomy import KEYS
from tests.making import Patch
from tests.records import run_record, write_result

SHARDS = ((30, 30, 7), (1,), (0,), (30, 5), (30, 30, 30, 30, 2))


def jpeg(shade: int) -> bytes:
    buffer = io.BytesIO()
    Image.linear_gradient("L").point(lambda v: (v + shade) % 256).resize((64, 48)).save(buffer, "JPEG")
    return buffer.getvalue()


def tar(path: Path, members: dict[str, bytes]) -> None:
    with tarfile.open(path, "w") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def shard(path: Path, first: int, count: int) -> None:
    members: dict[str, bytes] = {}
    for number in range(first, first + count):
        members[f"{number:09d}.jpg"] = jpeg(number) if number % 7 else b"<html>not found</html>"
        members[f"{number:09d}.json"] = json.dumps({"category": "street" if number % 2 else "office"}).encode()
    tar(path, members)


def privsieve(*args: object) -> int:
    """The exit code. The process that called is left as it was.

    A scan shows no progress.
    """
    if args[:1] == ("scan",) and "--run" in args and "--quiet" not in args:
        args = (*args, "--quiet")
    on_sigterm = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit) as done:
        main([str(a) for a in args])
    assert isinstance(done.value.code, int)
    assert signal.getsignal(signal.SIGTERM) is on_sigterm
    return done.value.code


def compact_run(run: object, rows_per_file: int = compacting.ROWS_PER_FILE) -> None:
    """As a scan does at its end with many more small files."""
    where, record = read_record(str(run))
    shards = [shard for shard in source_of(record).shards if has_any_result(shard, results(where).ledger)]
    with Patch.context() as changed, lease(where.at(RUN_LEASE), str(run), takeover=True) as own_lease:
        changed.setattr(compacting, "COMPACT_FROM", 1)
        changed.setattr(compacting, "ROWS_PER_FILE", rows_per_file)
        compacting.compact(where, shards, record.settings_hash(), own_lease, Meter("scan", None, time.monotonic))


def rows(run: Path) -> list[dict[str, object]]:
    files = sorted((run / "scores").glob("*.parquet"))
    return [row for file in files for row in pq.read_table(file, schema=SCHEMA).to_pylist()]


def _rows(shard: str, first: int, count: int) -> pa.Table:
    """Every tenth image is quarantined."""
    facts = [
        Facts(shard, i, f"{i:09d}", "street", 100 + i, f"{i:064x}", unseen=(), unseen_bytes=0)
        for i in range(first, first + count)
    ]
    views = [View(np.zeros((1, 1, 3), np.uint8), frozenset(), f"{shard}{f.index}") for f in facts]
    verdicts = CannedEngine().assess(views)
    return to_table(
        facts,
        [Fault("empty", "the file has no bytes") if f.index % 10 == 9 else v for f, v in zip(facts, verdicts)],  # noqa: B905
    )


def made_run(folder: Path, shards: Sequence[Sequence[int]], **record: Any) -> Path:
    """A run and its corpus of (empty) tars; `shards`: rows of each slice of each shard."""
    run = folder / "run"
    (run / "scores").mkdir(parents=True)
    (folder / "corpus").mkdir()
    engine = {"name": "canned", "protocol": "canned", "assessed": list(KEYS)}
    settings = run_record(record.pop("engine", engine)).model_dump() | {"source": str(folder / "corpus")}
    (run / "run.json").write_text(json.dumps(settings | record))
    for number, slices in enumerate(shards):
        shard, first = f"{number:05d}.tar", 0
        tar(folder / "corpus" / shard, {})
        for n, count in enumerate(slices):
            write_result(run, shard, n, n == len(slices) - 1, _rows(shard, first, count))
            first += count
    return run
