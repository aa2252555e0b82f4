"""The files for Kubernetes and Slurm: what they ask for, and that they run."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import ray
import yaml

from jobs.scan import scan
from scoring.engines.canned import DRILL
from tests.conftest import free_ports

ROOT = Path(__file__).parent.parent.parent
DEPLOY = ROOT / "jobs" / "deploy"
SBATCH_OPTIONS = {
    *("account", "array", "constraint", "cpus-per-task", "error", "exclusive", "export", "gpus-per-node", "gres"),
    *("job-name", "mail-type", "mail-user", "mem", "nodes", "ntasks", "ntasks-per-node", "open-mode", "output"),
    *("partition", "qos", "requeue", "signal", "time"),
}


@pytest.fixture
def rayjob() -> dict[str, Any]:
    content = yaml.safe_load((DEPLOY / "rayjob.yaml").read_text())
    assert isinstance(content, dict)
    return content


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
    program, verb, source, *options = shlex.split(spec["entrypoint"])
    assert (program, verb) == ("privsieve", "scan")
    assert scan.make_context("scan", [source, *options]).params["engine"] == "vllm"
    assert spec["backoffLimit"] >= 1
    assert spec["rayClusterSpec"]["rayVersion"] == ray.__version__
    assert spec["rayClusterSpec"]["authOptions"] == {"mode": "token"}


def test_only_the_gpu_group_asks_for_gpus_and_no_pod_holds_a_secret(rayjob: dict[str, Any]) -> None:
    cluster = rayjob["spec"]["rayClusterSpec"]
    assert cluster["headGroupSpec"]["rayStartParams"] == {"num-cpus": "0"}
    groups = {group["groupName"]: group["template"]["spec"] for group in cluster["workerGroupSpecs"]}
    gpus = {name: spec["containers"][0]["resources"]["limits"].get("nvidia.com/gpu") for name, spec in groups.items()}
    assert gpus == {"cpu": None, "gpu": 1}
    for spec in [*groups.values(), cluster["headGroupSpec"]["template"]["spec"]]:
        (container,) = spec["containers"]
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


def test_the_tasks_of_a_slurm_array_scan_together(tmp_path: Path) -> None:
    """Slurm itself is not here: its command is stood in for, and both tasks run on this machine."""
    commands = tmp_path / "bin"
    commands.mkdir()
    (commands / "scancel").write_text(f'#!/bin/bash\necho "$@" >{tmp_path}/cancelled\n')
    (commands / "scancel").chmod(0o755)
    ray_folder = tempfile.mkdtemp(prefix="ray-")  # a short path: Unix sockets lie in it
    environment = {name: text for name, text in os.environ.items() if not name.startswith("RAY_")}
    environment |= {
        "PATH": f"{commands}{os.pathsep}{os.environ['PATH']}",
        "PRIVSIEVE_VENV": str(Path(sys.executable).parent.parent),
        "PYTHONPATH": str(ROOT),
        "RAY_TMPDIR": ray_folder,
        "SLURM_ARRAY_JOB_ID": str(free_ports(1)[0]),  # the script's ports follow from it
        "SLURM_ARRAY_TASK_MIN": "0",
        DRILL: str(tmp_path / "drill.json"),
    }
    (tmp_path / "drill.json").write_text('{"*": 2}')  # seconds an image, so that the other task is there before the end
    corpus, run = ROOT / "jobs" / "demo" / "corpus" / "shards", tmp_path / "run"
    options = ["--run", str(run), "--engine", "canned", "--num-engines", "2"]
    script = ["bash", str(DEPLOY / "slurm.sh"), str(corpus), *options]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    tasks = [
        subprocess.Popen(script, cwd=tmp_path, env=environment | {"SLURM_ARRAY_TASK_ID": number}, **pipes)
        for number in ("1", "0")
    ]
    try:
        other, head = (task.communicate(timeout=300)[0] for task in tasks)
    finally:
        for task in tasks:
            task.kill()
        shutil.rmtree(ray_folder, ignore_errors=True)
    assert [task.returncode for task in tasks] == [0, 0], head[-2000:] + other[-2000:]
    assert "31 images in 2 of 2 shards: 27 scored, 4 quarantined" in head
    assert "Ray runtime started" in other
    assert (tmp_path / "cancelled").read_text() == f"--state=PENDING {environment['SLURM_ARRAY_JOB_ID']}\n"
    assert not list(tmp_path.glob(".privsieve-*"))
