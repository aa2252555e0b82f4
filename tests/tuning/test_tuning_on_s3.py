"""A model and an adapter in a bucket, which scans take from there."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import s3fs

from ingest.errors import EngineError
from scoring.assessment import EngineOptions
from scoring.engines import engine_module
from tests.jobs.made import privsieve
from tests.storage.conftest import BUCKET, KEY_ID, SECRET
from tests.tuning.made import BASE, MAX_PIXELS, Pictures

MODEL = f"s3://{BUCKET}/models/base"
ADAPTER = f"s3://{BUCKET}/adapters/tuned"

Capture = pytest.CaptureFixture[str]


def _scan(source: Path, run: Path, model: object, *options: object) -> list[object]:
    command: list[object] = ["scan", source, "--run", run, "--engine", "transformers", "--model", model, "--quiet"]
    return [*command, *options]


def _rows(run: Path) -> list[dict[str, Any]]:
    found = [row for file in sorted((run / "scores").glob("*.parquet")) for row in pq.read_table(file).to_pylist()]
    return sorted(found, key=lambda row: str(row["key"]))


def test_a_run_from_a_bucket_continues_from_a_folder(
    few: Pictures, bucket: s3fs.S3FileSystem, tmp_path: Path, capsys: Capture
) -> None:
    run, options = tmp_path / "run", ("--executor", "inline", "--protocol", "binary:ours-1", "--max-pixels", MAX_PIXELS)
    assert privsieve(*_scan(few.folder, run, MODEL, *options)) == 0
    record, rows = (run / "run.json").read_text(), _rows(run)
    assert list(json.loads(record)["engine"]["weights"]) == ["base"]
    for file in (run / "scores").glob("*.parquet"):
        file.unlink()
    assert privsieve(*_scan(few.folder, run, BASE, *options)) == 0
    assert (run / "run.json").read_text() == record
    assert _rows(run) == rows
    assert len(rows) == 48
    said = capsys.readouterr()
    for secret in (KEY_ID, SECRET):
        assert secret not in record + said.out + said.err


def test_an_adapter_is_scanned_from_a_bucket(
    few: Pictures, short: Path, bucket: s3fs.S3FileSystem, tmp_path: Path
) -> None:
    bucket.put(str(short), f"{BUCKET}/adapters/tuned", recursive=True)
    options = ("--executor", "inline")
    assert privsieve(*_scan(few.folder, tmp_path / "run", MODEL, "--adapter", ADAPTER, *options)) == 0
    assert privsieve(*_scan(few.folder, tmp_path / "local", BASE, "--adapter", short, *options)) == 0
    assert _without_place(_rows(tmp_path / "run")) == _without_place(_rows(tmp_path / "local"))
    weights = [json.loads((tmp_path / run / "run.json").read_text())["engine"]["weights"] for run in ("run", "local")]
    assert sorted(weights[0]) == ["adapter tuned", "base"]
    assert sorted(weights[0].values()) == sorted(weights[1].values())


def _without_place(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without what differs between two runs of the same answers."""
    return [{name: value for name, value in row.items() if name not in ("settings_hash", "run_id")} for row in rows]


def test_a_machine_that_fetched_other_weights_is_refused(bucket: s3fs.S3FileSystem) -> None:
    module = engine_module("transformers")
    described = module.describe(EngineOptions(model=MODEL, protocol="binary:ours-1"))
    expected = frozenset(described.weights.values())
    config = json.loads((BASE / "generation_config.json").read_bytes()) | {"temperature": 0.5}
    bucket.pipe_file(f"{BUCKET}/models/base/generation_config.json", json.dumps(config).encode())
    with pytest.raises(EngineError, match="what this machine fetched as base differs from the weights of the run"):
        module.load(EngineOptions(model=MODEL, protocol="binary:ours-1", weights_sha256=expected))
