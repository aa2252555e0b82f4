"""Models on a web server of the tests, and a cache of each test's own."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.making import Patch
from tests.weights.served import BASE, Served, serving


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """The micro model of the demo below `micro`, with files that no model needs."""
    shutil.copytree(BASE, tmp_path / "served" / "micro")
    (tmp_path / "served" / "micro" / "pytorch_model.bin").write_bytes(b"a pickle")
    (tmp_path / "served" / "micro" / "modeling.py").write_text("raise SystemExit")
    (tmp_path / "served" / "micro" / "below").mkdir()
    (tmp_path / "served" / "micro" / "below" / "more.json").write_text("{}")
    with serving(tmp_path / "served") as server:
        yield server


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: Patch) -> Path:
    monkeypatch.setenv("PRIVSIEVE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PRIVSIEVE_RETRY_S", "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hf" / "hub"))
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    return tmp_path / "cache"
