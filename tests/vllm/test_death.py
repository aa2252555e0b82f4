"""How engines end. When vLLM's own process dies, the engine says so by an exception: rows must not be written as if it
had failed on the pictures."""

import multiprocessing
import os
import signal
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from scoring.assessment import EngineOptions
from scoring.engines.vlm.transformers import load as load_transformers
from scoring.engines.vlm.vllm import load
from tests.vllm.conftest import MAX_PIXELS, picture, probabilities


def test_a_dead_vllm_raises_instead_of_answering(checkpoint: Path) -> None:
    from vllm.v1.engine.exceptions import EngineDeadError

    others = multiprocessing.active_children()
    running = load(EngineOptions(model=str(checkpoint), max_pixels=MAX_PIXELS))
    assert probabilities(running.assess([picture(1, 64, 64)])).shape == (1, 22, 3)
    mine = [process for process in multiprocessing.active_children() if process not in others]
    assert mine
    for process in mine:
        assert process.pid is not None
        os.kill(process.pid, signal.SIGSTOP)
    asking = ThreadPoolExecutor(1).submit(running.gpu_memory)  # which vLLM cannot answer any more
    for process in mine:
        process.kill()
        process.join()
    with pytest.raises(EngineDeadError):
        asking.result(timeout=300)
    with pytest.raises(EngineDeadError):
        running.assess([picture(seed, 64, 64) for seed in range(5)])
    with pytest.raises(EngineDeadError):
        running.assess([picture(9, 64, 64)])
    running.close()


def test_a_closed_engine_gives_its_model_back(checkpoint: Path) -> None:
    running = load_transformers(EngineOptions(model=str(checkpoint), max_pixels=MAX_PIXELS))
    running.assess([picture(1, 64, 64)])
    model = weakref.ref(running.model)
    running.close()
    assert model() is None
