"""Two engines on one GPU start one after the other, and a start that fails says why in vLLM's own words."""

import multiprocessing
from pathlib import Path

from scoring.engines.vlm.vllm.starting import CURE, alone_on_gpu, reason_in
from tests.making import Patch

LOG = """EngineCore failed to start.
Traceback (most recent call last):
  File "core.py", line 1, in run_engine_core
    raise ValueError("something")
ValueError: Free memory on device cuda:0 (20.1/44.4 GiB) on startup is less than desired GPU
"""


def test_the_last_error_of_the_log_is_the_reason() -> None:
    assert reason_in("") == ""
    assert reason_in("INFO nothing is wrong") == ""
    assert (
        reason_in("KeyError: 'a'\nmore\nvllm.NotHere: x\npackage.LoadError: no such layer.\n")
        == "LoadError: no such layer"
    )
    assert reason_in(LOG).startswith("ValueError: Free memory on device cuda:0 (20.1/44.4 GiB) on startup is less than")
    assert reason_in(LOG).endswith(CURE)
    assert reason_in("torch.OutOfMemoryError: CUDA out of memory. " + "x" * 500).endswith("x…" + CURE)


def _start(log: str) -> None:
    with alone_on_gpu(0.5):
        for word in ("begins", "ends"):
            with open(log, "a") as file:
                file.write(f"{word} ")


def test_engines_that_share_a_gpu_start_one_after_the_other(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-1/../2")
    context = multiprocessing.get_context("spawn")
    other = context.Process(target=_start, args=(str(tmp_path / "log"),))
    with alone_on_gpu(0.5):
        other.start()
        other.join(timeout=3)
        assert not (tmp_path / "log").exists()
        assert other.is_alive()
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
        with alone_on_gpu(0.5), alone_on_gpu(None):
            pass
    other.join()
    assert (tmp_path / "log").read_text() == "begins ends "
