"""`python -m benchmarks.gpu.record --dry-run`: what will be run where there is a GPU works without one."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.gpu.record import NOT_RUN, OUT, main, page, sheet_flops_per_s

PREFILL = {
    "side_px": 512,
    "batch_size": 8,
    "visual_tokens": 256,
    "computed_tokens": 298,
    "images_per_s": 90.0,
    "share": 0.5,
    "host_ms": 4.0,
}


def test_the_dry_run_measures_prefill_json_and_tuning_of_a_tiny_model(tmp_path: Path) -> None:
    out = tmp_path / "gpu.md"
    ended = CliRunner().invoke(main, ["--dry-run", "--out", str(out), "--part", "prefill", "--part", "tuning"])
    assert ended.exit_code == 0, ended.output
    text = out.read_text()
    assert "## Left out" not in text
    assert NOT_RUN in text
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| micro")
    ]
    prefill, tuning = rows[:2], rows[2:]
    assert [row[:4] for row in prefill] == [["micro", "64", "1", "4"], ["micro", "64", "2", "4"]]
    assert all(float(row[5]) > 0 for row in prefill)
    assert [row[:4] for row in tuning] == [["micro", "16", "64", "1"], ["micro", "64", "64", "1"]]
    assert all(float(row[4]) > 0 and float(row[5]) > 0 for row in tuning)
    assert [row[-1] for row in tuning] == ["", ""]  # the peak of a GPU
    assert "times as fast as the same answers decoded as JSON" in text


def test_what_the_time_limit_leaves_out_is_named(tmp_path: Path) -> None:
    out = tmp_path / "gpu.md"
    ended = CliRunner().invoke(main, ["--dry-run", "--out", str(out), "--part", "tuning", "--limit-s", "0"])
    assert ended.exit_code == 1
    assert ended.output == f"Error: nothing was measured; {out} says why\n"
    assert "- tuning of micro: the time limit was reached before it began\n" in out.read_text()


def test_the_committed_page_is_not_replaced_by_a_dry_run() -> None:
    before = OUT.read_bytes()
    ended = CliRunner().invoke(main, ["--dry-run"])
    assert ended.exit_code == 2
    assert "give --out" in ended.output
    assert OUT.read_bytes() == before


def test_the_page_of_a_gpu_gives_shares_of_what_was_measured_and_of_the_data_sheet() -> None:
    machine = {"kind": "machine", "device": "NVIDIA H100 80GB HBM3", "dtype": "torch.bfloat16", "flops_per_s": 600e12}
    text = page([machine | {"model": "8b"}, {"kind": "prefill", "model": "8b"} | PREFILL], ["vllm: not installed"])
    assert NOT_RUN not in text
    assert "600 TFLOP/s, 61% of the 989 of its sheet." in text
    assert "| 8b | 512 | 8 | 256 | 298 | 90.00 | 50% | 30% | 4.0 |" in text
    assert "## Left out\n\n- vllm: not installed\n" in text


@pytest.mark.parametrize(
    ("device", "tflops"), [("NVIDIA H200", 989), ("NVIDIA H100 PCIe", 756), ("NVIDIA L4", 121), ("CPU", None)]
)
def test_the_peak_of_the_data_sheet_is_of_the_right_gpu(device: str, tflops: float | None) -> None:
    assert sheet_flops_per_s(device) == (None if tflops is None else tflops * 1e12)
