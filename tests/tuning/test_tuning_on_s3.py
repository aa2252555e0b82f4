"""A model and an adapter in a bucket, which scans take from there."""

import json
from pathlib import Path

import pytest
import s3fs

from ingest.errors import EngineError
from scoring.assessment import EngineOptions
from scoring.engines import engine_module
from tests.jobs.made import privsieve, rows
from tests.making import Capture
from tests.storage.conftest import BUCKET, KEY_ID, SECRET
from tests.tuning.made import BASE, Pictures, scan_command

MODEL = f"s3://{BUCKET}/models/base"
ADAPTER = f"s3://{BUCKET}/adapters/short"


def test_a_run_with_weights_of_a_bucket_continues_with_those_of_folders(
    few: Pictures, short: Path, bucket: s3fs.S3FileSystem, tmp_path: Path, capsys: Capture
) -> None:
    bucket.put(str(short), f"{BUCKET}/adapters/short", recursive=True)
    run = tmp_path / "run"
    assert privsieve(*scan_command(few.folder, run, "--model", MODEL, "--adapter", ADAPTER)) == 0
    record, found = (run / "run.json").read_text(), rows(run)
    assert sorted(json.loads(record)["engine"]["weights"]) == ["adapter short", "base"]
    for file in (run / "scores").glob("*.parquet"):
        file.unlink()
    assert privsieve(*scan_command(few.folder, run, "--adapter", short)) == 0
    assert (run / "run.json").read_text() == record
    assert rows(run) == found
    assert len(found) == 48
    said = capsys.readouterr()
    for secret in (KEY_ID, SECRET):
        assert secret not in record + said.out + said.err


def test_a_machine_that_fetched_other_weights_is_refused(bucket: s3fs.S3FileSystem) -> None:
    module = engine_module("transformers")
    described = module.describe(EngineOptions(model=MODEL, protocol="binary:ours-1"))
    expected = frozenset(described.weights.values())
    config = json.loads((BASE / "generation_config.json").read_bytes()) | {"temperature": 0.5}
    bucket.pipe_file(f"{BUCKET}/models/base/generation_config.json", json.dumps(config).encode())
    with pytest.raises(EngineError, match='"base" has other files on this machine than where the engine'):
        module.load(EngineOptions(model=MODEL, protocol="binary:ours-1", weights_sha256=expected))
