"""How engines end: one that answers nothing any more ends the scan; it must not quarantine the whole corpus."""

import multiprocessing
import os
import signal
import weakref
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from ingest.errors import EngineError
from scoring.assessment import EngineOptions, Unscored
from scoring.engines import engine_module
from scoring.engines.vlm.transformers import load
from tests.vllm.conftest import MAX_PIXELS, picture, probabilities


@pytest.fixture
def running(checkpoint: Path) -> Iterator[Any]:
    """Of its own, to be broken."""
    engine = load(EngineOptions(model=str(checkpoint), max_pixels=MAX_PIXELS, batch_size=4))
    yield engine
    engine.close()


def _break(running: Any) -> None:
    """One layer loses half of its matrix."""
    import torch

    layer = running.model.model.language_model.layers[1].mlp.down_proj
    layer.weight = torch.nn.Parameter(layer.weight[:, ::2].clone())


def test_a_model_that_fails_on_every_picture_ends_the_engine(running: Any) -> None:
    views = [picture(seed, 64, 64) for seed in range(15)]
    assert probabilities(running.assess(views[:1])).shape == (1, 22, 3)
    _break(running)
    result = running.assess(views)
    assert [outcome.reason for outcome in result] == ["engine_error"] * 15
    with pytest.raises(EngineError, match=r"none of 16 pictures in a row, nor any plain one: the model failed"):
        running.assess([picture(20, 64, 64)])


@pytest.mark.parametrize("kind", ["AcceleratorError", "RuntimeError"])
def test_a_failed_gpu_ends_the_worker_with_its_own_error(running: Any, kind: str) -> None:
    """What CUDA says, since a test machine has no GPU to break: raised where the model would."""
    import torch

    raised = RuntimeError if kind == "RuntimeError" else torch.AcceleratorError

    def fail(*_: object) -> None:
        raise raised("CUDA error: device-side assert triggered")

    running.model.model.language_model.layers[1].register_forward_pre_hook(fail)
    with pytest.raises(raised, match="device-side assert"):
        running.assess([picture(seed, 64, 64) for seed in range(5)])


@pytest.mark.parametrize(
    ("expected", "message"),
    [
        ("CUDA error: out of memory", "has no room for it; end what else runs there, or choose a smaller model"),
        ("CUDA error: uncorrectable ECC error encountered", "fails (AcceleratorError); run privsieve doctor"),
    ],
)
def test_a_gpu_that_does_not_take_the_model_is_reported_in_one_line(expected: str, message: str) -> None:
    """What CUDA says is raised where the weights would be copied to it."""
    import torch

    from scoring.engines.vlm.transformers.engine import placed

    def fail(*_: object) -> None:
        raise torch.AcceleratorError(expected)

    model = torch.nn.Linear(2, 2)
    model._apply = fail
    with pytest.raises(EngineError) as refused:
        placed(model, "cuda", "some-model")
    assert str(refused.value).startswith(f'the model "some-model" cannot be put on cuda, which {message}')
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "message",
    ["CUDA error: out of memory", "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"],
)
def test_a_full_gpu_costs_pictures_first_and_ends_the_engine_where_it_stays_full(running: Any, message: str) -> None:
    import torch

    def fail(*_: object) -> None:
        raise torch.AcceleratorError(message)

    hook = running.model.model.language_model.layers[1].register_forward_pre_hook(fail)
    outcomes = running.assess([picture(seed, 64, 64) for seed in range(5)])
    assert [outcome.reason for outcome in outcomes] == ["engine_oom"] * 5
    hook.remove()
    assert probabilities(running.assess([picture(7, 64, 64)])).shape == (1, 22, 3)
    running.model.model.language_model.layers[1].register_forward_pre_hook(fail)
    with pytest.raises(EngineError, match="out of memory with this picture alone; lower --max-pixels"):
        running.assess([picture(seed, 64, 64) for seed in range(16)])


def test_a_batch_that_does_not_fit_is_halved_and_grows_again(running: Any) -> None:
    """As many pictures at once as the GPU has room for: first 2, then 4, of a batch size of 4."""
    import torch

    sizes, room = list[int](), 2

    def fail(_: object, given: tuple[torch.Tensor, ...]) -> None:
        sizes.append(len(given[0]))
        if len(given[0]) > room:
            raise torch.OutOfMemoryError

    running.model.model.language_model.layers[1].register_forward_pre_hook(fail)
    views = [picture(seed, 64, 64) for seed in range(8)]
    assert probabilities(running.assess(views)).shape == (8, 22, 3)
    assert [size for size in sizes if size > 1] == [4, 2, 2, 2, 2], "one try, and then halves"
    room = 4
    for _ in range(3):
        running.assess(views)
    sizes.clear()
    assert probabilities(running.assess(views)).shape == (8, 22, 3)
    assert sizes == [4, 4]


OwnVllm = tuple[Any, list[BaseProcess]]


@pytest.fixture(scope="module")
def own_vllm(checkpoint: Path) -> Iterator[OwnVllm]:
    """To be broken, with its processes; the last test kills it."""
    from scoring.engines.vlm.vllm import load as load_vllm

    others = multiprocessing.active_children()
    running = load_vllm(EngineOptions(model=str(checkpoint), max_pixels=MAX_PIXELS))
    yield running, [process for process in multiprocessing.active_children() if process not in others]
    running.close()


def test_a_vllm_that_refuses_every_picture_ends_the_engine_and_strips_do_not(own_vllm: OwnVllm) -> None:
    """Asked by `assess_with` what is longer than there is room for: at a start it would have been refused."""
    from scoring.protocols import protocol

    long = protocol("slots", b'{"system": "' + b"1" * 17_000 + b'"}')
    running, _ = own_vllm
    for _ in range(2):
        result = running.assess([picture(seed, 600, 1) for seed in range(20)])
        assert [outcome.reason for outcome in result if isinstance(outcome, Unscored)] == ["engine_error"] * 20
    assert probabilities(running.assess([picture(30, 64, 64)])).shape == (1, 22, 3)
    result = running.assess_with(long, [picture(seed, 64, 64) for seed in range(15)])
    assert [outcome.reason for outcome in result if isinstance(outcome, Unscored)] == ["engine_error"] * 15
    with pytest.raises(EngineError, match="none of 16 pictures in a row, nor any plain one: vLLM refused"):
        running.assess_with(long, [picture(20, 64, 64)])


def test_a_dead_vllm_raises_instead_of_answering(own_vllm: OwnVllm) -> None:
    """Rows must not be written as if it had failed on the pictures."""
    from vllm.v1.engine.exceptions import EngineDeadError

    running, processes = own_vllm
    assert probabilities(running.assess([picture(1, 64, 64)])).shape == (1, 22, 3)
    assert processes
    for process in processes:
        assert process.pid is not None
        os.kill(process.pid, signal.SIGSTOP)
    asking = ThreadPoolExecutor(1).submit(running.gpu_memory)  # which vLLM cannot answer any more
    for process in processes:
        process.kill()
        process.join()
    with pytest.raises(EngineDeadError):
        asking.result(timeout=300)
    for num_pictures in (5, 1):
        with pytest.raises(EngineDeadError):
            running.assess([picture(seed, 64, 64) for seed in range(num_pictures)])


def test_a_closed_engine_gives_its_model_back(checkpoint: Path) -> None:
    running = load(EngineOptions(model=str(checkpoint), max_pixels=MAX_PIXELS))
    running.assess([picture(1, 64, 64)])
    model = weakref.ref(running.model)
    running.close()
    assert model() is None


def test_a_vllm_that_does_not_start_says_why_in_its_own_words(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only its own process knows, and nobody sees on a cluster what that one logs."""
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "0")
    wanted = (
        r'^vLLM does not start with the model "micro-vl": ValueError: No available memory for the cache .*--engine-gpus'
    )
    with pytest.raises(EngineError, match=wanted):
        engine_module("vllm").load(EngineOptions(model=str(checkpoint), max_pixels=MAX_PIXELS))
