"""The benchmark of what a GPU waits for runs: with vLLM's own front end, and a stand-in for its engine process."""

import re
import subprocess
import sys


def test_the_benchmark_compares_both_ways_of_preparation() -> None:
    options = ("--images-per-s", "1000", "--num-images", "64", "--turns", "1")
    command = [sys.executable, "-m", "benchmarks.gpu_waits", *options]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert re.findall(r"^(by vLLM|as scans do) .* ms CPU a picture", ran.stdout, re.MULTILINE) == [
        "by vLLM",
        "as scans do",
    ]
