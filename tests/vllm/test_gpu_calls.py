"""The steps that a GPU's first minutes are for run to their ends without one, and each writes its figures at once."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.gpu.call import RESULTS, STEPS, STEPS_IN, Bench, install, main, run
from benchmarks.gpu.page import PAGE, TITLES

FIGURES = {
    "machine": {"device", "packages", "product_tflops"},
    "prefill": {"parameters", "images_per_s", "computed_tokens", "of_measured_peak", "weights_saved_s"},
    "reference": {"spread", "largest_bfloat16_float32", "largest_adapter_none"},
    "lora": {"rank", "step_s", "images_per_s"},
    "corpus": {"pictures", "written_s"},
    "agree": {"is_v2_runner", "largest_difference", "canary_spread_in_batches", "images_per_s"},
    "bf16": {"start_s", "images_per_s", "built_with"},
    "scan": {"images_per_s", "engine_time"},
    "fp8": {"start_s", "images_per_s", "built_with"},
    "merged": {"start_s", "images_per_s", "largest_difference"},
    "two_engines": {"engines", "images_per_s"},
    "compiled": {"start_s", "images_per_s"},
}


def called(*arguments: object) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "benchmarks.gpu", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_a_dry_run_of_both_calls_measures_every_step(tmp_path: Path) -> None:
    out, work = tmp_path / "out", tmp_path / "work"
    for call in ("call-1", "call-2"):
        ended = called(call, "--dry", "--out", out, "--work", work)
        assert ended.returncode == 0, ended.stderr
    lines: list[dict[str, Any]] = [json.loads(line) for line in (out / RESULTS).read_text().splitlines()]
    assert [line for line in lines if "failed" in line] == [], (out / "log.txt").read_text()
    steps = [step for call in STEPS.values() for step in call]
    assert [line["step"] for line in lines if line.get("done")] == steps == list(FIGURES)
    assert set(TITLES) == set(steps)
    for step, figures in FIGURES.items():
        assert figures <= {name for line in lines if line["step"] == step for name in line}, step
    agreed = next(line for line in lines if "largest_difference_float32" in line)
    assert agreed["largest_difference"] < 0.02 < agreed["spread"], "the answers must depend on the picture"
    assert [line["rank"] for line in lines if line["step"] == "lora" and "rank" in line] == [16, 64]
    assert all(line["unanswered"] == 0 for line in lines if "unanswered" in line)

    again = called("call-2", "--dry", "--out", tmp_path / "again", "--work", work)
    assert "compiled: done by an earlier call" in again.stdout
    page = tmp_path / "gpu.md"
    assert called("page", out / RESULTS, "--out", page).returncode == 0
    assert "Not run on a GPU yet." in page.read_text()
    assert [line[3:] for line in page.read_text().splitlines() if line.startswith("## ")] == list(TITLES.values())


def test_a_step_that_fails_or_hangs_or_has_no_memory_is_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "done").mkdir()
    monkeypatch.setitem(STEPS_IN, 1, "tests.vllm.gpu_steps_that_fail")
    for step in ("breaks", "hangs", "starts", "fills"):
        run(1, Bench(step, tmp_path, tmp_path, is_dry=True), limit_s=600 if step != "hangs" else 2)
    lines = [json.loads(line) for line in (tmp_path / RESULTS).read_text().splitlines()]
    assert [line["failed"] for line in lines if "failed" in line] == [
        "ValueError: no such thing",
        "not at its end after 2 s",
        "RuntimeError: no room for the KV cache is set",
    ]
    full = {"step": "fills", "dry": True, "batch": 8, "out_of_memory": True, "reason": "CUDA out of memory"}
    assert full in lines
    assert "OutOfMemoryError: CUDA out of memory" in (tmp_path / "log.txt").read_text()
    assert {"step": "breaks", "dry": True, "before": 1} in lines
    assert [path.name for path in (tmp_path / "done").iterdir()] == ["fills"]

    monkeypatch.setitem(STEPS, 1, {"fills": 9, "breaks": 9})
    monkeypatch.setattr(os, "environ", dict(os.environ))
    with pytest.raises(SystemExit, match="not measured: breaks; results"):
        main(1, ["--dry", "--out", str(tmp_path), "--work", str(tmp_path)])
    assert (tmp_path / "done" / "1").exists()


def test_call_2_needs_the_machine_of_call_1_and_not_all_of_its_steps(tmp_path: Path) -> None:
    done = tmp_path / "work" / "done"
    done.mkdir(parents=True)
    for step in STEPS[2]:
        (done / step).touch()
    ended = called("call-2", "--dry", "--out", tmp_path, "--work", tmp_path / "work")
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1].endswith("Run call 1 again, and at once call 2")
    (done / "1").touch()
    assert called("call-2", "--dry", "--out", tmp_path, "--work", tmp_path / "work").returncode == 0


@pytest.mark.parametrize("is_empty_folder", [False, True])
def test_a_folder_that_was_not_carried_whole_is_named(tmp_path: Path, is_empty_folder: bool) -> None:
    (tmp_path / "done").mkdir()
    if is_empty_folder:
        (tmp_path / "1").mkdir()
    with pytest.raises(SystemExit, match="run prepare where packages can be fetched"):
        install(tmp_path / "1", tmp_path)


def test_figures_of_a_dry_run_do_not_replace_the_page_of_the_docs(tmp_path: Path) -> None:
    before = PAGE.read_bytes()
    (tmp_path / RESULTS).write_text('{"step": "machine", "dry": true, "device": "CPU"}\n')
    ended = called("page", tmp_path / RESULTS)
    assert ended.returncode == 2
    assert "give --out" in ended.stderr
    assert PAGE.read_bytes() == before
