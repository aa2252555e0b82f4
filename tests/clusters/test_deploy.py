"""The files for Kubernetes and Slurm: what they ask for, and that they run."""

import os
import re
import secrets
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import ray
import yaml

from jobs.commands.scan import scan
from scoring.engines.canned import DRILL
from tests.conftest import ray_folder
from tests.faults.drill import descendants

ROOT = Path(__file__).parent.parent.parent
DEPLOY = ROOT / "jobs" / "deploy"
SBATCH_OPTIONS = {
    *("account", "array", "constraint", "cpus-per-task", "error", "exclusive", "export", "gpus-per-node", "gres"),
    *("job-name", "mail-type", "mail-user", "mem", "nodes", "ntasks", "ntasks-per-node", "open-mode", "output"),
    *("partition", "qos", "requeue", "signal", "time"),
}


@pytest.fixture
def rayjob() -> dict[str, Any]:
    account, job = yaml.safe_load_all((DEPLOY / "rayjob.yaml").read_text())
    assert (account["kind"], account["metadata"]["name"]) == ("ServiceAccount", "privsieve")
    assert isinstance(job, dict)
    return job


@pytest.fixture
def validator() -> jsonschema.Draft202012Validator:
    schema = yaml.safe_load(Path(__file__).with_name("rayjob_schema.yaml").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_the_rayjob_has_only_known_fields(rayjob: dict[str, Any], validator: jsonschema.Draft202012Validator) -> None:
    assert [error.message for error in validator.iter_errors(rayjob)] == []
    rayjob["spec"]["backofLimit"] = 3
    rayjob["spec"]["rayClusterSpec"]["workerGroupSpecs"][1]["minReplicas"] = "0"
    assert len(list(validator.iter_errors(rayjob))) == 2


def test_the_rayjob_runs_a_scan_with_this_ray_and_retries_it(rayjob: dict[str, Any]) -> None:
    spec = rayjob["spec"]
    wrapper, program, verb, source, *options = shlex.split(spec["entrypoint"])
    assert (wrapper, program, verb) == ("stop-if-refused", "privsieve", "scan")
    assert "stop_if_refused.sh /usr/local/bin/stop-if-refused" in (DEPLOY / "Dockerfile").read_text()
    with scan.make_context("scan", [source, *options]) as asked:
        assert (asked.params["engine"], asked.params["takeover"]) == ("vllm", True)
        weights = (asked.params["model"], asked.params["adapter"])
    assert weights == ("s3://BUCKET/models/MODEL", "s3://BUCKET/adapters/ADAPTER")
    assert spec["backoffLimit"] >= 1
    assert spec["rayClusterSpec"]["rayVersion"] == ray.__version__
    assert spec["rayClusterSpec"]["authOptions"] == {"mode": "token"}


def test_only_the_gpu_group_asks_for_gpus_and_no_pod_holds_a_secret(rayjob: dict[str, Any]) -> None:
    cluster = rayjob["spec"]["rayClusterSpec"]
    assert cluster["headGroupSpec"]["rayStartParams"] == {"num-cpus": "0"}
    groups = {group["groupName"]: group["template"]["spec"] for group in cluster["workerGroupSpecs"]}
    gpus = {name: spec["containers"][0]["resources"]["limits"].get("nvidia.com/gpu") for name, spec in groups.items()}
    assert gpus == {"cpu": None, "gpu": 1}
    most = {group["groupName"]: group["maxReplicas"] for group in cluster["workerGroupSpecs"]}
    assert most == {"cpu": 0, "gpu": 8}, "a scan with vllm would start the others, too"
    asked = groups["gpu"]["containers"][0]["resources"]["requests"]
    assert (int(asked["cpu"]), asked["memory"]) == (7, "56Gi"), "a node of 8 CPUs and 64 GiB offers less than that"
    (cache,) = [volume for volume in groups["gpu"]["volumes"] if volume["name"] == "cache"]
    assert int(asked["ephemeral-storage"].removesuffix("Gi")) > int(cache["emptyDir"]["sizeLimit"].removesuffix("Gi"))
    for spec in [*groups.values(), cluster["headGroupSpec"]["template"]["spec"]]:
        (container,) = spec["containers"]
        assert spec["serviceAccountName"] == "privsieve"
        assert spec["securityContext"]["runAsNonRoot"]
        assert container["readinessProbe"]["exec"]["command"][0] == "bash"
        mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        assert set(mounted) == {volume["name"] for volume in spec["volumes"]}
        assert {"name": "PRIVSIEVE_CACHE", "value": mounted["cache"]} in container["env"]
        assert container["resources"]["requests"] == container["resources"]["limits"]
        assert not [each["name"] for each in container["env"] if re.search("KEY|TOKEN|SECRET|PASS", each["name"])]
    assert all(spec["restartPolicy"] == "Never" for spec in groups.values())


def test_the_slurm_script_is_bash_with_known_directives() -> None:
    script = DEPLOY / "slurm.sh"
    subprocess.run(["bash", "-n", str(script)], check=True)
    directives = [line.split()[1] for line in script.read_text().splitlines() if line.startswith("#SBATCH")]
    named = [re.sub(r"^--|=.*$", "", directive) for directive in directives]
    assert set(named) <= SBATCH_OPTIONS
    assert {"array", "nodes", "requeue", "open-mode"} <= set(named)
    assert "--signal=B:USR1@600" in directives
    assert "--gpus-per-node=8" in directives
    assert len(set(named)) == len(named)
    # sbatch reads directives only above the first command.
    commands = [n for n, line in enumerate(script.read_text().splitlines()) if line and not line.startswith("#")]
    last = max(n for n, line in enumerate(script.read_text().splitlines()) if line.startswith("#SBATCH"))
    assert last < commands[0]


def test_the_slurm_script_without_a_source_says_how_to_call_it() -> None:
    done = subprocess.run(["bash", str(DEPLOY / "slurm.sh")], capture_output=True, text=True, env=dict(os.environ))
    assert done.returncode == 2
    call = "sbatch --array=0-N jobs/deploy/slurm.sh SOURCE --run RUN [more options of privsieve scan]"
    assert done.stderr == f"usage: {call}\n"


@pytest.fixture
def slurm(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The environment of a task. Slurm itself is not here: its commands are stood in for, and leave what they got."""
    commands = tmp_path / "bin"
    commands.mkdir()
    for name in ("scancel", "scontrol"):
        (commands / name).write_text(f'#!/bin/bash\necho "$@" >{tmp_path}/{name}.called\n')
        (commands / name).chmod(0o755)
    environment = {name: text for name, text in os.environ.items() if not name.startswith("RAY_")}
    with ray_folder() as folder:
        yield environment | {
            "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
            "PRIVSIEVE_VENV": str(Path(sys.executable).parent.parent),
            "PYTHONPATH": str(ROOT),
            "RAY_TMPDIR": str(folder),
            "SLURM_ARRAY_JOB_ID": str(20_000 + secrets.randbelow(2_768)),  # ports of the script: this, and 10,000 more
            "SLURM_ARRAY_TASK_MIN": "0",
            DRILL: str(tmp_path / "drill.json"),
        }


@contextmanager
def _task(number: str, folder: Path, environment: dict[str, str]) -> "Iterator[subprocess.Popen[bytes]]":
    """A task of the array, which ends with the block."""
    corpus, run = ROOT / "jobs" / "demo" / "corpus" / "shards", folder / "run"
    script = ["bash", str(DEPLOY / "slurm.sh"), str(corpus), "--run", str(run), "--engine", "canned"]
    own = {"SLURM_ARRAY_TASK_ID": number, "SLURM_JOB_ID": f"100{number}"}
    with (folder / f"{number}.log").open("ab") as log:
        task = subprocess.Popen(
            [*script, "--num-engines", "1"],
            cwd=folder,
            env=environment | own,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield task
    finally:
        with suppress(ProcessLookupError):  # all of it has ended
            os.killpg(task.pid, signal.SIGKILL)
        task.wait()


def _has_nodes(environment: dict[str, str]) -> bool:
    """Whether this machine has a node of Ray that belongs to the array."""
    address = f":{20_000 + int(environment['SLURM_ARRAY_JOB_ID']) % 10_000} "
    return any("raylet/raylet " in command and address in command for command in descendants(0).values())


def test_a_slurm_array_scans_and_its_head_near_the_time_limit_requeues_itself_and_goes_on(
    tmp_path: Path, slurm: dict[str, str]
) -> None:
    """Two tasks, both on this machine."""

    def said(number: str) -> str:
        return (tmp_path / f"{number}.log").read_text()

    (tmp_path / "drill.json").write_text('{"*": 600}')  # it would take hours
    with _task("1", tmp_path, slurm) as other:
        with _task("0", tmp_path, slurm) as head:
            while not (tmp_path / "run" / "run.json").exists() or "Ray runtime started" not in said("1"):
                assert head.poll() is None, said("0")
                time.sleep(0.5)
            head.send_signal(signal.SIGUSR1)
            assert head.wait(1500) == 0, said("0")
        assert "the time limit is near, so this task is requeued" in said("0")
        assert (tmp_path / "scontrol.called").read_text() == "requeue 1000\n"
        assert not (tmp_path / "scancel.called").exists()
        # On one machine Ray starts no head at an address that a node names, not even that of the other task.
        while _has_nodes(slurm):
            time.sleep(0.2)
        assert other.poll() is None, "the other stays, and waits for the head"

        (tmp_path / "drill.json").write_text("{}")
        with _task("0", tmp_path, slurm | {"SLURM_RESTART_COUNT": "1"}) as head:
            assert head.wait(1500) == 0, said("0")
        assert other.wait(1500) == 0, said("1")
    assert "31 images in 2 of 2 shards: 27 scored, 4 quarantined" in said("0")
    assert (tmp_path / "scontrol.called").read_text() == "requeue 1000\n"
    assert (tmp_path / "scancel.called").read_text() == f"--state=PENDING {slurm['SLURM_ARRAY_JOB_ID']}\n"
    assert not list(tmp_path.glob(".privsieve-*"))
