"""Around the first minutes on a GPU, without a GPU or a model: the slimming of vLLM, and the page."""

import struct
from pathlib import Path

from benchmarks.gpu.page import page
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
    full = {"step": "prefill", "model": "8b", "batch_size": 32, "out_of_memory": True}
    fails = {"step": "fp8", "failed": "EngineError: vLLM does not start"}
    text = page([DEVICE, PREFILL, full, fails, {"step": "scan", "failed": "no time was left in this call"}])
    assert "Not run on a GPU yet" not in text
    assert "| NVIDIA H100 80GB HBM3 | 16 | 989 |" in text
    assert "| model | batch size | images per s |\n|---|---|---|\n| 8b | 8 | 41.52 |\n" in text
    assert "| 8b | 8 | 41.52 |\n| 8b | 32 | out of memory |" in text
    assert "- fp8: EngineError: vLLM does not start\n- scan: no time was left in this call\n" in text
    done = {"step": "scan", "done": True}
    assert "- scan" not in page([DEVICE, {"step": "scan", "failed": "no time was left in this call"}, done])


def test_a_page_without_figures_of_a_gpu_says_so() -> None:
    assert "Not run on a GPU yet." in page([PREFILL | {"dry": True}])
