"""Tuning of the micro model in jobs/demo/tuning/base. Without vLLM installed no test_tuning_*.py is collected."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import s3fs

from tests.making import Folders, Patch, Request
from tests.storage.conftest import BUCKET, moto_port, proxy_server, settings, store  # noqa: F401 - fixtures
from tests.tuning.made import BASE, Pictures, drawn_pictures, make_recipe, make_set, tune_command
from tests.vllm.conftest import warm_starts  # noqa: F401 - a fixture

collect_ignore_glob = [] if find_spec("vllm") else ["test_tuning_*.py"]

os.environ |= {"HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
os.environ.setdefault("OMP_NUM_THREADS", "1")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == Path(__file__).parent and item.path.name.startswith("test_tuning_"):
            item.add_marker(pytest.mark.vllm)
            item.add_marker(pytest.mark.filterwarnings("ignore"))  # of torch and transformers about themselves


@pytest.fixture(scope="session")
def room(tmp_path_factory: Folders) -> Path:
    return tmp_path_factory.mktemp("tuning")


@pytest.fixture(scope="session")
def few(room: Path) -> Pictures:
    """48 pictures: for what does not depend on how well a model learns."""
    return drawn_pictures(room / "few", per_class=3, seed=5)


@pytest.fixture(scope="session")
def few_set(room: Path, few: Pictures) -> Path:
    return make_set(room / "few-set", few, "--target", "binary", "--validation", 0.2)


@pytest.fixture(scope="session")
def short_recipe(room: Path) -> Path:
    """Two epochs."""
    return make_recipe(room / "short.yaml", epochs=2)


@pytest.fixture(scope="session")
def short(room: Path, few_set: Path, short_recipe: Path) -> Path:
    """An adapter tuned in one go, by a process of its own, since torch, transformers and peft have much to say about
    themselves: nothing but the result may be printed."""
    command = [sys.executable, "-m", "jobs", *map(str, tune_command(few_set, short_recipe, room / "short"))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    steps, accuracy, following = done.stdout.splitlines()
    assert steps.startswith("10 steps in ")
    assert accuracy.startswith("right answers while it was tuned: ")
    assert following.startswith("next: privsieve scan ")
    return room / "short"


@pytest.fixture
def bucket(request: Request, tmp_path: Path, monkeypatch: Patch) -> s3fs.S3FileSystem:
    """A bucket with the base model as `models/base`, and a cache of the test's own."""
    request.getfixturevalue("store")
    monkeypatch.setenv("PRIVSIEVE_CACHE", str(tmp_path / "cache"))
    found = s3fs.S3FileSystem(use_listings_cache=False)
    for file in BASE.iterdir():
        found.pipe_file(f"{BUCKET}/models/base/{file.name}", file.read_bytes())
    return found
