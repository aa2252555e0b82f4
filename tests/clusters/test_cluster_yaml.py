"""`cluster.yaml` as Ray's own launcher reads it, without AWS."""

import copy
import re
import shlex
import subprocess
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

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
    assert prepared["available_node_types"]["gpu_worker"]["max_workers"] == 8


def test_the_head_runs_no_engine_and_workers_scale_from_nothing(written: dict[str, Any]) -> None:
    types = written["available_node_types"]
    assert types[written["head_node_type"]]["resources"] == {"CPU": 0}
    workers = {name: kind for name, kind in types.items() if name != written["head_node_type"]}
    assert {kind["min_workers"] for kind in workers.values()} == {0}
    assert sum(kind["max_workers"] for kind in workers.values()) == written["max_workers"]
    spot = {name for name, kind in types.items() if "InstanceMarketOptions" in kind["node_config"]}
    assert spot == {"cpu_worker", "gpu_worker", "gpu_worker_8"}  # a reclaimed head would end the scan


def test_every_machine_has_a_role_and_only_those_with_gpus_get_their_packages(written: dict[str, Any]) -> None:
    for name, kind in written["available_node_types"].items():
        role = "privsieve-head" if name == written["head_node_type"] else "privsieve-worker"
        assert kind["node_config"]["IamInstanceProfile"] == {"Name": role}
        commands = kind.get("worker_setup_commands", [*written["setup_commands"], *written["head_setup_commands"]])
        assert ("constraints-gpu.txt" in " ".join(commands)) == name.startswith("gpu_")


def test_the_commands_of_the_page_make_the_roles() -> None:
    """On moto in place of AWS, which reads policies as AWS does. Both need what their machines do."""
    import boto3
    from moto import mock_aws

    page = (ROOT / "docs" / "clusters.md").read_text()
    loop = re.search(r"for kind in head worker; do\n(.*?)done\n", page, re.DOTALL)
    assert loop is not None
    with mock_aws():
        iam = boto3.client("iam", region_name="us-east-1")
        for kind in ("head", "worker"):
            lines = [shlex.split(line.replace("$kind", kind)) for line in loop[1].strip().splitlines()]
            assert len(lines) == 4
            for aws, service, verb, *options in lines:
                assert (aws, service) == ("aws", "iam")
                named = dict(zip(options[::2], options[1::2], strict=True))
                values = {
                    "".join(word.title() for word in name[2:].split("-")): (
                        ROOT / text.removeprefix("file://")
                    ).read_text()
                    if text.startswith("file://")
                    else text
                    for name, text in named.items()
                }
                getattr(iam, verb.replace("-", "_"))(**values)
            (role,) = iam.get_instance_profile(InstanceProfileName=f"privsieve-{kind}")["InstanceProfile"]["Roles"]
            assert role["RoleName"] == f"privsieve-{kind}"
            policy = iam.get_role_policy(RoleName=f"privsieve-{kind}", PolicyName="privsieve")["PolicyDocument"]
            allowed = {action for statement in policy["Statement"] for action in statement["Action"]}
            assert {"s3:ListBucket", "s3:GetObject", "s3:PutObject"} <= allowed
            assert ({"iam:PassRole", "ec2:RunInstances"} <= allowed) == (kind == "head")


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
    assert {".venv*", "demo-out"} <= set(ignored)
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
    commands += written["head_setup_commands"]
    named = [name for command in commands for found in re.findall(r"\.\[(.*?)\]", command) for name in found.split(",")]
    assert {"detectors", "cluster", "s3"} <= set(named) <= set(extras)
    for constraints in re.findall(r"-c (\S+)", " ".join(commands)):
        assert (ROOT / constraints).is_file()
