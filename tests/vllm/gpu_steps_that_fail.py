"""Steps of a call that go wrong in the ways that those on a GPU may."""

import time

import torch

from benchmarks.gpu.call import Bench


def breaks(bench: Bench) -> None:
    bench.add(before=1)
    raise ValueError("no such thing")


def hangs(bench: Bench) -> None:
    time.sleep(600)


def starts(bench: Bench) -> None:
    with bench.measured(model="2b"):
        raise RuntimeError("no room for the KV cache is set")


def fills(bench: Bench) -> None:
    with bench.measured(batch=8):
        raise torch.OutOfMemoryError("CUDA out of memory")
