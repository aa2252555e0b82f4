"""Names of the hub, from a server that answers as it does: each command is a process, which reads HF_ENDPOINT once."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.weights.hub import COMMIT, Hub, serving_as_hub
from tests.weights.served import BASE

NAME = f"owner/micro@{COMMIT}"
AS_NAMED = hashlib.sha256(NAME.encode()).hexdigest()


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    shutil.copytree(BASE, tmp_path / "served")
    (tmp_path / "served" / "pytorch_model.bin").write_bytes(b"a pickle")
    with serving_as_hub(tmp_path / "served") as served:
        yield served


def _fetch(hub: Hub, tmp_path: Path, model: str, **variables: str) -> tuple[int, str, str]:
    return _python(hub, tmp_path, "-m", "jobs", "models", "fetch", model, **variables)


def _python(hub: Hub, tmp_path: Path, *words: object, **variables: str) -> tuple[int, str, str]:
    ours = {"HF_ENDPOINT": hub.address, "HF_HOME": str(tmp_path / "hf"), "PRIVSIEVE_CACHE": str(tmp_path / "cache")}
    known = {name: value for name, value in os.environ.items() if name != "HF_HUB_OFFLINE"}
    done = subprocess.run(
        [sys.executable, *map(str, words)],
        env=known | ours | {"PRIVSIEVE_RETRY_S": "1"} | variables,
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("revision", ["", "@main", f"@{COMMIT}"])
def test_a_name_of_the_hub_is_fetched_once(revision: str, hub: Hub, tmp_path: Path) -> None:
    code, out, err = _fetch(hub, tmp_path, f"owner/micro{revision}")
    assert code == 0, err
    assert out.startswith(f"owner/micro{revision}: 2.8 MB, sha256 {AS_NAMED}, in {tmp_path / 'hf'}")
    assert sorted(hub.fetched) == sorted(file.name for file in BASE.iterdir())
    hub.fetched.clear()
    assert _fetch(hub, tmp_path, f"owner/micro{revision}")[:2] == (0, out)
    assert hub.fetched == []


def test_a_url_of_the_hub_is_the_name_in_it(hub: Hub, tmp_path: Path) -> None:
    code, out, err = _fetch(hub, tmp_path, f"hf://{NAME}")
    assert code == 0, err
    assert out.startswith(f"{NAME}: 2.8 MB, sha256 {AS_NAMED}, in {tmp_path / 'hf'}")


def test_a_model_in_the_hubs_own_cache_is_not_fetched_again(hub: Hub, tmp_path: Path) -> None:
    repository = tmp_path / "hf" / "hub" / "models--owner--micro"
    shutil.copytree(BASE, repository / "snapshots" / COMMIT)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(COMMIT)
    code, out, err = _fetch(hub, tmp_path, "owner/micro")
    assert code == 0, err
    assert out.endswith(f"in {repository / 'snapshots' / COMMIT}\n")
    assert hub.fetched == []


@pytest.mark.parametrize("variable", ["HF_HUB_OFFLINE", "PRIVSIEVE_OFFLINE"])
def test_offline_the_caches_are_enough(variable: str, hub: Hub, tmp_path: Path) -> None:
    offline = {variable: "1"}
    code, _, err = _fetch(hub, tmp_path, "owner/micro", **offline)
    assert code == 2
    assert (
        f"{variable} is set, and owner/micro is not whole in the hub's cache; run privsieve models fetch owner/micro"
        in err
    )
    assert _fetch(hub, tmp_path, "owner/micro")[0] == 0
    code, out, err = _fetch(hub, tmp_path, "owner/micro", **offline)
    assert (code, out.split(",")[1]) == (0, f" sha256 {AS_NAMED}"), err


def test_a_hub_that_cannot_be_reached_is_said(hub: Hub, tmp_path: Path) -> None:
    nowhere = {"HF_ENDPOINT": "http://127.0.0.1:9"}
    code, _, err = _fetch(hub, tmp_path, "owner/micro", **nowhere)
    assert code == 1
    assert err.startswith('privsieve: there is no folder "owner/micro"; as a name of the hub, it is not in the local ')
    assert _fetch(hub, tmp_path, "owner/micro")[0] == 0
    code, _, err = _fetch(hub, tmp_path, "owner/micro", **nowhere)
    assert code == 0
    assert f"the hub cannot be reached; {NAME} is used, which was fetched before" in err


def test_a_name_that_the_hub_does_not_know_is_refused(hub: Hub, tmp_path: Path) -> None:
    code, _, err = _fetch(hub, tmp_path, "owner/absent")
    assert code == 2
    assert 'there is no folder "owner/absent"' in err
    assert "check the name and the network" in err


def test_only_the_small_files_are_needed_to_say_what_would_be_asked(hub: Hub, tmp_path: Path) -> None:
    program = "from scoring.engines.vlm.checkpoint import checkpoint; checkpoint('owner/micro', with_weights=False)"
    assert _python(hub, tmp_path, "-c", program)[0] == 0
    assert hub.fetched
    assert "model.safetensors" not in hub.fetched


def test_bytes_are_shown_and_nothing_else_is_said(hub: Hub, tmp_path: Path) -> None:
    said = _fetch(hub, tmp_path, "owner/micro")[2].splitlines()
    assert said == ["weights: fetching micro, 2.8 MB"]
