"""The benchmark of what a GPU waits for runs: with vLLM's own front end, and a stand-in for its engine process."""

import re

from tests.making import Capture, Patch


def test_the_benchmark_compares_both_ways_of_preparation(monkeypatch: Patch, capsys: Capture) -> None:
    from vllm.v1.engine.core_client import EngineCoreClient

    from benchmarks.gpu_waits import main

    monkeypatch.setattr(EngineCoreClient, "make_async_mp_client", None)  # so that the stand-in goes with the test
    main(["--images-per-s", "1000", "--num-images", "64", "--turns", "1"], standalone_mode=False)
    ways = re.findall(r"^(by vLLM|as scans do) .* ms CPU a picture", capsys.readouterr().out, re.MULTILINE)
    assert ways == ["by vLLM", "as scans do"]
