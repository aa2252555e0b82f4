"""`privsieve scan --engine vllm` on the demo corpus, with status, report and filter; and the same rows from
`--engine transformers`."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from scoring.table import SCHEMA
from scoring.taxonomy import KEYS
from tests.jobs.made import privsieve
from tests.making import Capture
from tests.vllm.conftest import DEMO, MAX_PIXELS

STEPS = ("max_num_seqs=64", "max_num_batched_tokens=8192", "use_v2_model_runner=false", "cudagraph_mode=none")


def _scan(run: Path, engine: str, model: Path, *more: object) -> list[dict[str, Any]]:
    arguments = ["--engine", engine, "--model", model, "--max-pixels", MAX_PIXELS, "--quiet", *more]
    assert privsieve("scan", DEMO, "--run", run, *arguments) == 0
    files = sorted((run / "scores").glob("*.parquet"))
    rows = [row for file in files for row in pq.read_table(file, schema=SCHEMA).to_pylist()]
    return sorted(rows, key=lambda row: (str(row["shard"]), row["index"]))


def test_scan_report_and_filter(checkpoint: Path, adapter: Path, tmp_path: Path, capfd: Capture) -> None:
    run = tmp_path / "run"
    options = [part for step in STEPS for part in ("--vllm-option", step)]
    rows = _scan(run, "vllm", checkpoint, "--adapter", adapter, "--executor", "inline", *options)
    assert "INFO" not in "".join(capfd.readouterr()), "a log of vLLM's processes"
    scored = [row for row in rows if row["status"] == "scored"]
    assert len(scored) == 27
    reasons = sorted(str(row["reason"]) for row in rows if row["status"] == "quarantined")
    assert reasons == ["empty", "not_an_image", "truncated", "unsupported_format"]
    assert all(0 <= row[f"prob_{key}"] <= 1 and row[key] in (0, 0.5, 1) for row in scored for key in KEYS)
    record = json.loads((run / "run.json").read_text())
    assert record["engine"]["protocol"].startswith("slots-")
    assert sorted(record["engine"]["weights"]) == ["adapter tuned", "micro-vl"]
    (built,) = record["built_with"]
    for name, value in (step.split("=") for step in STEPS):
        assert str(built[name]).lower() == value
    assert privsieve("status", run, "--format", "json") == 0
    time = json.loads(capfd.readouterr().out)["engine_time"]
    assert time["seconds"] > 0
    assert 0 < sum(time["short_s"].values()) <= time["seconds"] * 1.001, "32 pictures fill no step of 64"
    assert time["most_bytes_ahead"] > 10**6
    _scan(run, "vllm", checkpoint, "--adapter", adapter, "--executor", "inline")  # other steps, the same rows

    others = _scan(tmp_path / "other", "transformers", checkpoint, "--adapter", adapter, "--executor", "inline")
    for row, other in zip(rows, others, strict=True):
        assert (row["shard"], row["index"], row["status"]) == (other["shard"], other["index"], other["status"])
        if row["status"] == "scored":
            ours, theirs = ([side[f"prob_{key}"] for key in KEYS] for side in (row, other))
            np.testing.assert_allclose(ours, theirs, atol=1e-5)

    assert privsieve("report", run, "--html", tmp_path / "report.html") == 0
    assert "slots-" in (tmp_path / "report.html").read_text()
    policy = Path(__file__).parents[2] / "scoring" / "policies" / "strict.yaml"
    assert privsieve("filter", run, "--policy", policy, "--out", tmp_path / "out") == 0
    decided = pq.read_table(tmp_path / "out" / "not-for-publication/decisions.parquet").to_pylist()
    assert len(decided) == 31


def test_an_unfit_adapter_stops_the_scan_before_a_run_exists(checkpoint: Path, tmp_path: Path, capsys: Capture) -> None:
    from tests.vllm.micro import make_adapter

    wrong = make_adapter(tmp_path / "wrong", checkpoint, extra=("model.visual.blocks.9.attn.proj",))
    arguments = ["--run", tmp_path / "run", "--engine", "vllm", "--model", checkpoint, "--adapter", wrong]
    assert privsieve("scan", DEMO, *arguments) == 2
    assert "visual.blocks.9.attn.proj" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
