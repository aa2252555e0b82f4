"""Around the first minutes on a GPU, without a GPU or a model: the slimming of vLLM, and the page."""

import struct
import sys
from pathlib import Path

import pytest

from benchmarks.gpu import prepare
from benchmarks.gpu.page import main, page
from benchmarks.gpu.prepare import BINARY, PTX, slim

DEVICE = {"step": "machine", "device": "NVIDIA H100 80GB HBM3", "cpus": 16}
PREFILL = {"step": "prefill", "model": "8b", "batch_size": 8, "images_per_s": 41.52}


def entry(kind: int, architecture: int, code: bytes) -> bytes:
    header = struct.pack("<HHIQ", kind, 0, 64, len(code)) + bytes(12) + struct.pack("<I", architecture)
    return header.ljust(64, b"\0") + code


def fat(*entries: bytes) -> bytes:
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(b"".join(entries))) + b"".join(entries)


def test_code_for_other_gpus_is_zeroed_and_the_file_keeps_its_layout(tmp_path: Path) -> None:
    with_code = fat(entry(BINARY, 80, b"A" * 8), entry(BINARY, 90, b"H" * 8), entry(PTX, 80, b"p" * 8))
    only_ptx = fat(entry(BINARY, 75, b"T" * 8), entry(PTX, 80, b"q" * 8))
    file = tmp_path / "_C.so"
    file.write_bytes(b"code of the CPU" + with_code + b"\x50\xed\x55\xba no header" + only_ptx)
    before = file.read_bytes()
    assert slim(file) == (16, 24)
    after = before
    for zeroed in (b"A", b"p", b"T"):
        after = after.replace(zeroed * 8, bytes(8))
    assert file.read_bytes() == after


def test_memory_that_ran_out_is_a_row_and_a_step_that_failed_a_line() -> None:
    full = {"step": "prefill", "model": "8b", "batch_size": 32, "out_of_memory": True, "reason": "CUDA"}
    fails = {"step": "fp8", "failed": "EngineError: vLLM does not start"}
    text = page([DEVICE, PREFILL, full, fails, {"step": "scan", "failed": "no time was left in this call"}])
    assert "Not run on a GPU yet" not in text
    assert "| NVIDIA H100 80GB HBM3 | 16 | 989 |" in text
    assert "| model | batch size | images per s |\n|---|---|---|\n| 8b | 8 | 41.52 |\n" in text
    assert "| 8b | 8 | 41.52 |\n| 8b | 32 | out of memory |" in text
    assert "- fp8: EngineError: vLLM does not start\n- scan: no time was left in this call\n" in text
    done = {"step": "scan", "done": True}
    assert "- scan" not in page([DEVICE, {"step": "scan", "failed": "no time was left in this call"}, done])


def test_memory_that_ran_out_before_any_figure_is_a_line_beside_the_tables() -> None:
    full = {"step": "bf16", "model": "8b", "out_of_memory": True, "reason": "CUDA"}
    fits = {"step": "bf16", "model": "2b", "images_per_s": 7.5}
    text = page([full, fits, full])
    table = "| model | images per s |\n|---|---|\n| 2b | 7.5 |\n| 8b | out of memory |\n"
    assert f"## vLLM, random 8B weights, bfloat16\n\nOut of memory: model 8b\n\n{table}" in text
    assert "Not run on a GPU yet" not in text, "figures of one call, or of one in which step machine failed"


def test_figures_before_a_cut_off_give_way_to_those_of_the_next_run() -> None:
    cut_off = {"step": "prefill", "failed": "not at its end after 90 s"}
    text = page([PREFILL, cut_off, PREFILL | {"images_per_s": 40.0}])
    assert "| 8b | 8 | 40 |" in text
    assert "41.52" not in text
    assert "| 8b | 8 | 41.52 |" in page([PREFILL, cut_off, cut_off])


def test_a_text_of_a_figure_stays_in_its_cell() -> None:
    text = page([{"step": "agree", "start_failed": "EngineError: a | b\nc", "of_measured_peak": None}])
    assert "| EngineError: a / b c |  |\n" in text


def test_a_file_of_results_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([str(tmp_path / "results.jsonl"), "--out", str(tmp_path / "gpu.md")])
    assert capsys.readouterr().err.endswith("results.jsonl is not a file\n")


def test_a_page_without_figures_of_a_gpu_says_so() -> None:
    assert "Not run on a GPU yet." in page([PREFILL | {"dry": True}])
    assert "Not run on a GPU yet." in page([{"step": "machine", "failed": "RuntimeError: no GPU is visible to torch"}])


def test_a_prepare_that_fails_leaves_the_folders_as_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "1").mkdir()
    monkeypatch.setattr(prepare, "CARRIED", tmp_path)
    monkeypatch.setattr(sys, "executable", "false")  # nothing can be fetched
    with pytest.raises(SystemExit, match="pip cannot fetch a package"):
        prepare.main()
    assert [path.name for path in tmp_path.iterdir()] == ["1"]
