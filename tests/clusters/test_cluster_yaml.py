"""`cluster.yaml` as Ray's own launcher reads it, without AWS."""

import copy
import re
import subprocess
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from ray.autoscaler._private.util import prepare_config, validate_config

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def written() -> dict[str, Any]:
    content = yaml.safe_load((ROOT / "cluster.yaml").read_text())
    assert isinstance(content, dict)
    return content


def test_ray_accepts_it(written: dict[str, Any]) -> None:
    prepared = prepare_config(copy.deepcopy(written))
    validate_config(prepared)
    assert prepared["available_node_types"]["gpu_worker"]["max_workers"] == 4


def test_ray_would_notice_a_wrong_key(written: dict[str, Any]) -> None:
    written["max_wokers"] = 3
    with pytest.raises(jsonschema.ValidationError, match="max_wokers"):
        validate_config(prepare_config(written))


def test_the_head_runs_no_engine_and_workers_scale_from_nothing(written: dict[str, Any]) -> None:
    types = written["available_node_types"]
    assert types[written["head_node_type"]]["resources"] == {"CPU": 0}
    workers = {name: kind for name, kind in types.items() if name != written["head_node_type"]}
    assert {name: kind["min_workers"] for name, kind in workers.items()} == {"cpu_worker": 0, "gpu_worker": 0}
    assert sum(kind["max_workers"] for kind in workers.values()) == written["max_workers"]
    for kind in workers.values():
        assert kind["node_config"]["InstanceMarketOptions"] == {"MarketType": "spot"}
    assert "InstanceMarketOptions" not in types["head"]["node_config"]  # a reclaimed head ends the scan


def test_every_machine_has_the_same_image_and_the_tag(written: dict[str, Any]) -> None:
    configs = [kind["node_config"] for kind in written["available_node_types"].values()]
    assert len({config["ImageId"] for config in configs}) == 1
    for config in configs:
        assert config["TagSpecifications"][0]["Tags"] == [{"Key": "project", "Value": "privsieve"}]


def test_every_start_asks_for_a_token(written: dict[str, Any]) -> None:
    starts = [written["head_start_ray_commands"][-1], written["worker_start_ray_commands"][-1]]
    assert all("RAY_AUTH_MODE=token" in start and " ray start " in f" {start}" for start in starts)
    assert "~/.ray/auth_token" in written["file_mounts"]


def test_no_folder_that_git_ignores_travels(written: dict[str, Any]) -> None:
    ignored = [line.rstrip("/") for line in (ROOT / ".gitignore").read_text().split() if line.endswith("/")]
    assert {".venv", ".venv-vllm", "demo-out"} <= set(ignored)
    assert set(written["rsync_exclude"]) == {".git", *ignored}


def test_what_travels_is_all_that_git_holds(written: dict[str, Any]) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("no git checkout: what it holds is not known")
    held = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\n")
    names = {name for path in held for name in Path(path).parts}
    assert "cluster.yaml" in names
    assert not [name for name in names for pattern in written["rsync_exclude"] if fnmatchcase(name, pattern)]


def test_the_extras_and_pins_that_it_installs_exist(written: dict[str, Any]) -> None:
    import tomllib

    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    commands = [*written["setup_commands"], *written["available_node_types"]["gpu_worker"]["worker_setup_commands"]]
    named = [name for command in commands for found in re.findall(r"\.\[(.*?)\]", command) for name in found.split(",")]
    assert {"detectors", "cluster", "s3"} <= set(named) <= set(extras)
    for constraints in re.findall(r"-c (\S+)", " ".join(commands)):
        assert (ROOT / constraints).is_file()
