"""A model and an adapter in a bucket: tuned to it, scanned from it, and never half of either."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import s3fs

from ingest.errors import EngineError
from scoring.assessment import EngineOptions
from scoring.engines import engine_module
from tests.storage.conftest import BUCKET, KEY_ID, SECRET, Proxy
from tests.tuning.made import BASE, MAX_PIXELS, Pictures, privsieve

MODEL = f"s3://{BUCKET}/models/base"
OUT = f"s3://{BUCKET}/adapters/tuned"
WEIGHTS = "adapter_model.safetensors"

Capture = pytest.CaptureFixture[str]


def _tune(training_set: Path, recipe: Path, out: str = OUT) -> list[object]:
    command: list[object] = ["tune", "fit", training_set, "--model", MODEL, "--recipe", recipe, "--out", out]
    return [*command, "--max-pixels", MAX_PIXELS, "--quiet"]


def _scan(source: Path, run: Path, model: object, *options: object) -> list[object]:
    command: list[object] = ["scan", source, "--run", run, "--engine", "transformers", "--model", model, "--quiet"]
    return [*command, *options]


def _rows(run: Path) -> list[dict[str, Any]]:
    found = [row for file in sorted((run / "scores").glob("*.parquet")) for row in pq.read_table(file).to_pylist()]
    return sorted(found, key=lambda row: str(row["key"]))


def _names(bucket: s3fs.S3FileSystem) -> set[str]:
    return {path.rpartition("/")[2] for path in bucket.ls(f"{BUCKET}/adapters/tuned", detail=False)}


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


def test_an_adapter_is_tuned_to_a_bucket_and_scanned_from_it(
    few: Pictures,
    few_set: Path,
    short_recipe: Path,
    short: Path,
    bucket: s3fs.S3FileSystem,
    store: Proxy,
    tmp_path: Path,
    capsys: Capture,
) -> None:
    assert privsieve(*_tune(few_set, short_recipe)) == 0
    assert f"--model {MODEL} --adapter {OUT}" in capsys.readouterr().out
    assert _names(bucket) == {"README.md", "adapter_config.json", WEIGHTS, "privsieve.json", "tensorboard"}
    assert bucket.cat_file(f"{BUCKET}/adapters/tuned/{WEIGHTS}") == (short / WEIGHTS).read_bytes()
    puts = [path.rpartition("/")[2] for verb, path, _ in store.seen if verb == "PUT" and "/adapters/" in path]
    assert puts[-1] == "privsieve.json"
    assert not list((tmp_path / "cache" / "tuning").glob("*/adapter"))

    options = ("--executor", "inline")
    assert privsieve(*_scan(few.folder, tmp_path / "run", MODEL, "--adapter", OUT, *options)) == 0
    assert privsieve(*_scan(few.folder, tmp_path / "local", BASE, "--adapter", short, *options)) == 0
    assert _without_place(_rows(tmp_path / "run")) == _without_place(_rows(tmp_path / "local"))
    weights = [json.loads((tmp_path / run / "run.json").read_text())["engine"]["weights"] for run in ("run", "local")]
    assert sorted(weights[0]) == ["adapter tuned", "base"]
    assert sorted(weights[0].values()) == sorted(weights[1].values())

    assert privsieve(*_tune(few_set, short_recipe)) == 0
    assert f"{OUT} is already tuned" in capsys.readouterr().err
    assert privsieve(*_tune(few_set, short_recipe), "--seed", 3) == 2
    assert f"{OUT} holds an adapter that was tuned with --seed 0, not 3" in capsys.readouterr().err


def _without_place(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without what differs between two runs of the same answers."""
    return [{name: value for name, value in row.items() if name not in ("settings_hash", "run_id")} for row in rows]


def test_a_half_upload_is_no_adapter_and_is_completed(
    few: Pictures,
    few_set: Path,
    short_recipe: Path,
    bucket: s3fs.S3FileSystem,
    store: Proxy,
    tmp_path: Path,
    capsys: Capture,
) -> None:
    store.fault = lambda method, path, span: 403 if method == "PUT" and path.endswith("privsieve.json") else None
    assert privsieve(*_tune(few_set, short_recipe)) == 2
    assert f"cannot write {BUCKET}/adapters/tuned/privsieve.json: permission denied" in capsys.readouterr().err
    assert {"tuning.json", WEIGHTS} <= _names(bucket)
    assert privsieve(*_scan(few.folder, tmp_path / "run", MODEL, "--adapter", OUT, "--executor", "inline")) == 2
    assert f'the adapter "{OUT}" is from a tuning that has not ended; run the same tune' in capsys.readouterr().err
    store.fault = lambda method, path, span: None
    assert privsieve(*_tune(few_set, short_recipe), "--seed", 3) == 2
    assert f"{OUT} holds a run that was begun with --seed 0, not 3" in capsys.readouterr().err
    assert privsieve(*_tune(few_set, short_recipe)) == 0
    assert "tuning.json" not in _names(bucket)
    assert "privsieve.json" in _names(bucket)


def test_a_killed_tuning_to_a_bucket_is_continued(
    few_set: Path, short_recipe: Path, short: Path, bucket: s3fs.S3FileSystem, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", "jobs", *map(str, _tune(few_set, short_recipe)), "--steps-per-checkpoint", "3"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    while not list((tmp_path / "cache").glob("tuning/*/adapter/checkpoints/checkpoint-3/trainer_state.json")):
        assert process.poll() is None, "it ended before it could be killed"
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert not bucket.exists(f"{BUCKET}/adapters/tuned/{WEIGHTS}")
    later = tmp_path / "later.yaml"  # as a later version ships the recipe, with other words about its source
    later.write_text(f"{short_recipe.read_text()}\nsource: put in other words\n")
    assert privsieve(*_tune(few_set, later), "--steps-per-checkpoint", 3) == 0
    assert bucket.cat_file(f"{BUCKET}/adapters/tuned/{WEIGHTS}") == (short / WEIGHTS).read_bytes()
    assert not list((tmp_path / "cache" / "tuning").glob("*/adapter")), "it was continued, and not begun again"


def test_an_adapter_is_not_written_over_other_files(
    few_set: Path, short_recipe: Path, bucket: s3fs.S3FileSystem, capsys: Capture
) -> None:
    bucket.pipe_file(f"{BUCKET}/adapters/tuned/notes.txt", b"mine")
    assert privsieve(*_tune(few_set, short_recipe)) == 2
    assert f"{OUT} already exists and holds no tuning run; name another --out" in capsys.readouterr().err
    assert privsieve(*_tune(few_set, short_recipe, "https://host/adapter")) == 2
    assert "--out https://host/adapter: web servers take no files" in capsys.readouterr().err


def test_a_machine_that_fetched_other_weights_is_refused(bucket: s3fs.S3FileSystem) -> None:
    module = engine_module("transformers")
    described = module.describe(EngineOptions(model=MODEL, protocol="binary:ours-1"))
    expected = frozenset(described.weights.values())
    config = json.loads((BASE / "generation_config.json").read_bytes()) | {"temperature": 0.5}
    bucket.pipe_file(f"{BUCKET}/models/base/generation_config.json", json.dumps(config).encode())
    with pytest.raises(EngineError, match="what this machine fetched as base differs from the weights of the run"):
        module.load(EngineOptions(model=MODEL, protocol="binary:ours-1", weights_sha256=expected))
