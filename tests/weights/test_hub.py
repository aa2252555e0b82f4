"""Names of the hub, from a server that answers as it does."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scoring.engines.vlm.checkpoint import checkpoint
from tests.jobs.made import privsieve
from tests.making import Capture, Patch
from tests.weights.hub import COMMIT, Hub, serving_as_hub
from tests.weights.served import BASE

NAME = f"owner/micro@{COMMIT}"
AS_NAMED = hashlib.sha256(NAME.encode()).hexdigest()


def ask_at(address: str, monkeypatch: Patch) -> None:
    """HF_ENDPOINT for this process; the hub's package has read it when it was imported."""
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", address)
    template = address + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr("huggingface_hub.constants.HUGGINGFACE_CO_URL_TEMPLATE", template)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: Patch) -> Iterator[Hub]:
    shutil.copytree(BASE, tmp_path / "served")
    (tmp_path / "served" / "pytorch_model.bin").write_bytes(b"a pickle")
    with serving_as_hub(tmp_path / "served") as served:
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
        ask_at(served.address, monkeypatch)
        yield served


@pytest.mark.parametrize("name", ["owner/micro", f"hf://{NAME}"])
def test_a_name_of_the_hub_is_fetched_once(name: str, hub: Hub, tmp_path: Path, capsys: Capture) -> None:
    for fetched in (sorted(file.name for file in BASE.iterdir()), []):
        assert privsieve("models", "fetch", name, "--quiet") == 0
        assert sorted(hub.fetched) == fetched
        hub.fetched.clear()
        expected = f"{name.removeprefix('hf://')}: 2.8 MB, sha256 {AS_NAMED}, in {tmp_path / 'hf'}"
        assert capsys.readouterr().out.startswith(expected)


def test_a_model_in_the_hubs_own_cache_is_not_fetched_again(hub: Hub, tmp_path: Path, capsys: Capture) -> None:
    repository = tmp_path / "hf" / "hub" / "models--owner--micro"
    shutil.copytree(BASE, repository / "snapshots" / COMMIT)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(COMMIT)
    assert privsieve("models", "fetch", "owner/micro") == 0
    assert capsys.readouterr().out.endswith(f"in {repository / 'snapshots' / COMMIT}\n")
    assert hub.fetched == []


@pytest.mark.parametrize("variable", ["HF_HUB_OFFLINE", "PRIVSIEVE_OFFLINE"])
def test_offline_the_caches_are_enough(variable: str, hub: Hub, capsys: Capture, monkeypatch: Patch) -> None:
    monkeypatch.setenv(variable, "1")
    assert privsieve("models", "fetch", "owner/micro") == 2
    expected = f"{variable} is set, and owner/micro is not whole in the hub's cache; run privsieve models fetch owner/"
    assert expected in capsys.readouterr().err
    monkeypatch.delenv(variable)
    assert privsieve("models", "fetch", "owner/micro") == 0
    monkeypatch.setenv(variable, "1")
    hub.fetched.clear()
    assert privsieve("models", "fetch", "owner/micro") == 0
    assert hub.fetched == []


def test_a_hub_that_cannot_be_reached_is_said(hub: Hub, capsys: Capture, monkeypatch: Patch) -> None:
    nowhere = "http://127.0.0.1:9"
    ask_at(nowhere, monkeypatch)
    assert privsieve("models", "fetch", "owner/micro") == 1
    expected = 'privsieve: there is no folder "owner/micro"; as a name of the hub, it is not in the local '
    assert capsys.readouterr().err.startswith(expected)
    ask_at(hub.address, monkeypatch)
    assert privsieve("models", "fetch", "owner/micro") == 0
    ask_at(nowhere, monkeypatch)
    assert privsieve("models", "fetch", "owner/micro") == 0
    assert f"the hub cannot be reached; {NAME} is used, which was fetched before" in capsys.readouterr().err


def test_a_name_that_the_hub_does_not_know_is_refused(hub: Hub, capsys: Capture) -> None:
    assert privsieve("models", "fetch", "owner/absent") == 2
    said = capsys.readouterr().err
    assert 'there is no folder "owner/absent"' in said
    assert "check the name and the network" in said


def test_only_the_small_files_are_needed_to_say_what_would_be_asked(hub: Hub) -> None:
    checkpoint("owner/micro", with_weights=False)
    assert hub.fetched
    assert "model.safetensors" not in hub.fetched


def test_bytes_are_shown_and_nothing_else_is_said(hub: Hub, tmp_path: Path) -> None:
    """By a process of its own, whose packages could speak, too."""
    known = {name: value for name, value in os.environ.items() if name != "HF_HUB_OFFLINE"}
    command = [sys.executable, "-m", "jobs", "models", "fetch", "owner/micro"]
    done = subprocess.run(command, env=known | {"HF_ENDPOINT": hub.address}, capture_output=True, text=True, check=True)
    assert done.stderr.splitlines() == ["weights: fetching micro, 2.8 MB"]
