"""Scans on a cluster as users start them, on a real head with a second node."""

import json
import os
import re
import secrets
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from scoring.taxonomy import TAXONOMY_VARIABLE
from tests.clusters.demo import CORPUS, ROOT, rows_of
from tests.conftest import free_ports, ray_folder, ray_node
from tests.jobs.made import privsieve
from tests.making import Folders
from tests.records import SHOP_KEYS, fitted_taxonomy


@dataclass(frozen=True)
class RayCluster:
    """environment: what a user of the cluster has set, the token among it, for `subprocess`."""

    address: str
    dashboard_url: str
    environment: dict[str, str]


@pytest.fixture(scope="module")
def ray_cluster() -> Iterator[RayCluster]:
    """A head and a second node with two CPUs each; token authentication as on a cluster that others can reach."""
    port, dashboard = free_ports(2)
    environment = {name: text for name, text in os.environ.items() if not name.startswith("RAY_")}
    environment |= {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(20),
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    with ray_folder() as folder:
        head = ["--head", "--num-cpus", "2", "--temp-dir", str(folder), "--port", str(port)]
        head += ["--dashboard-port", str(dashboard)]
        second = ["--address", f"127.0.0.1:{port}", "--num-cpus", "2", "--temp-dir", str(folder / "second")]
        with ray_node(head, environment, folder / "head.log"), ray_node(second, environment, folder / "second.log"):
            yield RayCluster(
                address=f"127.0.0.1:{port}", dashboard_url=f"http://127.0.0.1:{dashboard}", environment=environment
            )


def scan(*more: object, environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    words = ["scan", *map(str, more), "--engine", "canned", "--quiet"]
    return _python("-m", "jobs", *words, environment=environment)


def _python(*words: str, environment: dict[str, str]) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, *words], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1500
    )


@pytest.fixture(scope="module")
def tree(tmp_path_factory: Folders) -> Path:
    """The four rooms alone, as small as a working directory gets."""
    copied = tmp_path_factory.mktemp("tree")
    for room in ("ingest", "scoring", "reports", "jobs"):
        shutil.copytree(ROOT / room, copied / room, ignore=shutil.ignore_patterns("__pycache__", "corpus"))
    return copied


def submit(cluster: RayCluster, tree: Path, entrypoint: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "ray.scripts.scripts", "job", "submit", "--address", cluster.dashboard_url]
    return subprocess.run(
        [*command, "--working-dir", str(tree), "--", *entrypoint.split()],
        env=cluster.environment,
        capture_output=True,
        text=True,
        timeout=1500,
    )


def test_a_submitted_scan_has_the_rows_of_a_local_one(ray_cluster: RayCluster, tree: Path, tmp_path: Path) -> None:
    # Three engines of one CPU do not fit on one of the two nodes.
    options = f"--run {tmp_path / 'there'} --engine canned --num-engines 3"
    done = submit(ray_cluster, tree, f"python -m jobs scan {CORPUS} {options}")
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "31 images in 2 of 2 shards: 27 scored, 4 quarantined" in done.stdout
    assert privsieve("scan", CORPUS, "--run", tmp_path / "here", "--engine", "canned") == 0
    assert rows_of(tmp_path / "there") == rows_of(tmp_path / "here")
    assert len(rows_of(tmp_path / "there")) == 31


def test_a_wrong_command_fails_the_job_with_its_line_in_the_log(
    ray_cluster: RayCluster, tree: Path, tmp_path: Path
) -> None:
    done = submit(ray_cluster, tree, f"python -m jobs scan {tmp_path / 'nowhere'} --run {tmp_path / 'run'}")
    assert done.returncode == 1
    assert "exit code 2" in done.stdout
    assert re.search(r"^privsieve: .*nowhere.* does not exist", done.stdout, re.MULTILINE)
    assert "Traceback" not in done.stdout
    assert not (tmp_path / "run").exists()


def test_an_address_joins_the_cluster_whose_machines_need_no_file_of_the_taxonomy(
    ray_cluster: RayCluster, tmp_path: Path
) -> None:
    file = fitted_taxonomy(tmp_path / "fitted.yaml")
    program = f"import os, scoring.taxonomy; os.remove({str(file)!r}); from jobs.cli import main; main()"
    words = [str(CORPUS), "--run", str(tmp_path / "run"), "--engine", "canned", "--quiet", "--num-engines", "1"]
    environment = ray_cluster.environment | {TAXONOMY_VARIABLE: str(file)}
    done = _python("-c", program, "scan", *words, "--ray-address", ray_cluster.address, environment=environment)
    assert (done.returncode, done.stderr) == (0, "")
    written = rows_of(tmp_path / "run")
    assert len(written) == 31
    assert set(SHOP_KEYS) < written[0].keys()


def test_another_token_is_refused_in_one_line(ray_cluster: RayCluster, tmp_path: Path) -> None:
    started_s = time.monotonic()
    environment = ray_cluster.environment | {"RAY_AUTH_TOKEN": "0" * 40, "RAY_ADDRESS": ray_cluster.address}
    done = scan(CORPUS, "--run", tmp_path / "run", environment=environment)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        f'privsieve: Ray address "{ray_cluster.address}": the cluster refuses the token; '
        "set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH"
    ]
    assert time.monotonic() - started_s < 300


def test_another_ray_version_is_reported_in_one_line(ray_cluster: RayCluster, tmp_path: Path) -> None:
    older = "import ray; ray.__version__ = '2.59.0'; from jobs.cli import main; main()"
    words = ["scan", str(CORPUS), "--run", str(tmp_path / "run"), "--engine", "canned", "--quiet"]
    environment = ray_cluster.environment | {"RAY_ADDRESS": ray_cluster.address}
    done = _python("-c", older, *words, environment=environment)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert re.search(r"the cluster runs Ray: \S+ Python: \S+, this process Ray: 2\.59\.0 Python: ", done.stderr)


def test_a_refused_command_stops_its_job_and_another_failure_fails_it(ray_cluster: RayCluster) -> None:
    """KubeRay tries failed jobs again, and lets stopped ones be."""
    script = ROOT / "jobs" / "deploy" / "stop_if_refused.sh"
    wrapper = ["env", f"DASHBOARD={ray_cluster.dashboard_url}", "bash", str(script)]
    for code in ("0", "1", "2"):
        entrypoint = shlex.join([*wrapper, "python", "-c", f"raise SystemExit({code})"])
        _jobs(ray_cluster, {"entrypoint": entrypoint, "submission_id": f"exits-with-{code}"})
    states: dict[str, str] = {}
    while not {"SUCCEEDED", "FAILED", "STOPPED"}.issuperset(states.values()) or len(states) < 3:
        time.sleep(0.5)
        all_states = {job["submission_id"]: job["status"] for job in _jobs(ray_cluster)}
        states = {job: state for job, state in all_states.items() if job and job.startswith("exits-with-")}
    assert states == {"exits-with-0": "SUCCEEDED", "exits-with-1": "FAILED", "exits-with-2": "STOPPED"}


def _jobs(cluster: RayCluster, new: dict[str, str] | None = None) -> Any:
    """The jobs of a head; with `new`, the answer to a job that is submitted."""
    request = Request(f"{cluster.dashboard_url}/api/jobs/", None if new is None else json.dumps(new).encode())
    request.add_header("Authorization", f"Bearer {cluster.environment['RAY_AUTH_TOKEN']}")
    request.add_header("Content-Type", "application/json")
    with urlopen(request, timeout=300) as answer:
        return json.load(answer)
