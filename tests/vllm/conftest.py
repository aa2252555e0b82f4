"""Engines on a tiny model made on the spot. Each is started once; without vLLM installed nothing here is collected."""

import os
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from scoring.assessment import Assessment, EngineOptions, Outcome, View
from scoring.engines import engine_module
from tests.making import Folders
from tests.vllm import warm_start

collect_ignore_glob = [] if find_spec("vllm") else ["test_*.py"]

os.environ |= {"HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
os.environ.setdefault("OMP_NUM_THREADS", "1")

DEMO = Path(__file__).parents[2] / "jobs" / "demo" / "corpus" / "shards"
MAX_PIXELS = 160 * 160


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.vllm)
            item.add_marker(pytest.mark.filterwarnings("ignore"))  # of torch, transformers and vLLM about themselves


@pytest.fixture(scope="session", autouse=True)
def warm_starts(tmp_path_factory: Folders) -> None:
    """The server that copies processes knows one folder for the sockets of all engines."""
    os.environ["VLLM_RPC_BASE_PATH"] = str(tmp_path_factory.mktemp("sockets"))
    warm_start.prepare()


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: Folders) -> Path:
    from tests.vllm.micro import make_checkpoint

    return make_checkpoint(tmp_path_factory.mktemp("models") / "micro-vl")


@pytest.fixture(scope="session")
def adapter(tmp_path_factory: Folders, checkpoint: Path) -> Path:
    """On the language model and the vision tower."""
    from tests.vllm.micro import make_adapter

    return make_adapter(tmp_path_factory.mktemp("adapters") / "tuned", checkpoint)


@pytest.fixture(scope="session")
def engine(checkpoint: Path) -> Iterator[Callable[..., Any]]:
    """engine("vllm", protocol="slots") -> a running engine. All are kept but those of vLLM with other weights or texts,
    of which one runs at a time: each takes memory, and two workers run these tests beside each other."""
    running: dict[tuple[str, EngineOptions], Any] = {}
    plain: dict[str, Any] = {"model": str(checkpoint), "max_pixels": MAX_PIXELS}
    kept = {("vllm", EngineOptions(**plain, protocol=name)) for name in ("slots", "json")}

    def started(name: str, **options: Any) -> Any:
        key = name, EngineOptions(**(plain | options))
        if key not in running:
            if name == "vllm" and key not in kept:
                for other in [other for other in running if other[0] == "vllm" and other not in kept]:
                    running.pop(other).close()
            running[key] = engine_module(name).load(key[1])
        return running[key]

    yield started
    for one in running.values():
        one.close()


def probabilities(outcomes: Sequence[Outcome]) -> npt.NDArray[np.float32]:
    """Shape (outcomes, 22, 3); fails where one of them is unscored."""
    found = [outcome.probabilities for outcome in outcomes if isinstance(outcome, Assessment)]
    assert len(found) == len(outcomes), outcomes
    return np.array(found, dtype=np.float32)


def picture(seed: int, height: int, width: int) -> View:
    """Coloured squares of 16 px: every patch of the model differs."""
    squares = np.random.default_rng(seed).integers(0, 256, (height // 16 + 1, width // 16 + 1, 3), dtype=np.uint8)
    pixels = np.ascontiguousarray(squares.repeat(16, axis=0).repeat(16, axis=1)[:height, :width])
    return View(pixels, frozenset(), f"{seed:064x}")


@pytest.fixture(scope="session")
def views() -> list[View]:
    """Of different shapes, so that batches have to be padded; one is downscaled, one is smaller than a patch."""
    return [picture(1, 96, 128), picture(2, 150, 100), picture(3, 20, 12), picture(4, 700, 900), picture(5, 160, 160)]
