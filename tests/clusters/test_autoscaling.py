"""A cluster that begins with no machine: a real autoscaler starts nodes of this machine, as Ray's own tests do."""

import json
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ingest.errors import PrivsieveError
from jobs.runtime import machines
from jobs.runtime.machines import ClusterNode, default_num_cpus, pool_size, refuse_unfit_engine
from tests.conftest import ray_folder, ray_node
from tests.faults.drill import make_shards
from tests.making import Patch

ROOT = Path(__file__).parent.parent.parent
PORT = 6379
"""Ray's fake nodes look for their head there and nowhere else."""

TYPES = {
    "ray.head.default": {"resources": {"CPU": 0}, "node_config": {}, "max_workers": 0},
    "gpu_worker": {
        "resources": {"CPU": 2, "GPU": 1, "object_store_memory": 100_000_000},
        "node_config": {},
        "min_workers": 0,
        "max_workers": 2,
    },
}
CONFIG = {
    "cluster_name": "from-nothing",
    "max_workers": 2,
    "idle_timeout_minutes": 10,
    "upscaling_speed": 1.0,
    "provider": {"type": "fake_multinode", "disable_node_updaters": True},
    "auth": {"ssh_user": "nobody"},
    "docker": {},
    "available_node_types": TYPES,
    "head_node_type": "ray.head.default",
    "file_mounts": {},
    "cluster_synced_files": [],
    "file_mounts_sync_continuously": False,
    "rsync_exclude": [],
    "rsync_filter": [],
    **{f"{whose}setup_commands": [] for whose in ("", "head_", "worker_")},
    **{f"{whose}_start_ray_commands": [] for whose in ("head", "worker")},
    "initialization_commands": [],
}


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """What a user of the cluster has set. The head has no CPU; the autoscaler may start two machines with a GPU."""
    with closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", PORT))
        except OSError:
            pytest.skip(f"port {PORT} is taken, and Ray's fake nodes know no other")
    autoscaling = tmp_path / "autoscaling.json"
    autoscaling.write_text(json.dumps(CONFIG))
    found = {name: text for name, text in os.environ.items() if not name.startswith("RAY_")}
    found |= {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(20),
        "RAY_USAGE_STATS_ENABLED": "0",
    }
    with ray_folder() as folder:
        head = ["--head", "--num-cpus", "0", "--num-gpus", "0", "--temp-dir", str(folder), "--port", str(PORT)]
        head += ["--autoscaling-config", str(autoscaling), "--include-dashboard", "false"]
        scaling = {"RAY_FAKE_CLUSTER": "1", "AUTOSCALER_UPDATE_INTERVAL_S": "1"}
        scaling["PRIVSIEVE_DRILL"] = str(tmp_path / "drill.json")
        with ray_node(head, found | scaling, folder / "head.log"):
            yield found


TWO_GPUS = f"""
import time
from jobs.runtime.cluster import ray_session
from jobs.runtime.machines import cluster_nodes
with ray_session("127.0.0.1:{PORT}"):
    while sum(node.num_gpus for node in cluster_nodes()) < 2:
        time.sleep(1)
"""


def test_a_scan_waits_for_the_first_machine_and_asks_for_as_many_as_it_was_given(
    environment: dict[str, str], tmp_path: Path
) -> None:
    """It is ended when both machines are there; the same command goes on with what it left."""
    make_shards(tmp_path / "corpus", 20, 10)
    words = [sys.executable, "-m", "jobs", "scan", str(tmp_path / "corpus"), "--run", str(tmp_path / "run")]
    options = f"--engine canned --engine-gpus 1 --num-engines 2 --ray-address 127.0.0.1:{PORT}"
    command = [*words, *options.split()]
    (tmp_path / "drill.json").write_text('{"*": 2.0}')
    with subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True) as scan:
        with subprocess.Popen([sys.executable, "-c", TWO_GPUS], cwd=ROOT, env=environment) as two_gpus:
            while two_gpus.poll() is None:
                if scan.poll() is not None:
                    two_gpus.kill()
                    pytest.fail(f"the scan ended before both machines came: {scan.communicate()}")
                time.sleep(0.2)
        scan.terminate()
        assert "waiting for a machine with 1 free CPU and 1 free GPU" in scan.communicate(timeout=1500)[1]
    (tmp_path / "drill.json").write_text("{}")
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "200 images in 20 of 20 shards: 200 scored, 0 quarantined\n"


@pytest.mark.parametrize(
    ("nodes", "gpus", "cpus"),
    [
        ([], 1, 1),  # no machine has come yet
        ([ClusterNode(0, 0), ClusterNode(192, 8), ClusterNode(8, 1)], 1, 7),
        ([ClusterNode(6, 1)], 1, 5),
        ([ClusterNode(6, 1)], 0, 1),
        ([ClusterNode(2, 1)], 0.5, 1),
    ],
)
def test_an_engine_gets_the_cores_of_its_part_of_a_gpu_but_one(
    nodes: list[ClusterNode], gpus: float, cpus: float, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(machines, "cluster_nodes", lambda: nodes)
    assert default_num_cpus("head:6379", gpus) == cpus


@pytest.mark.parametrize(
    ("cpus", "gpus", "why"),
    [(9, 0, "--engine-cpus 9: Ray has 8 CPUs on this machine;"), (1, 2, "--engine-gpus 2: Ray has 1 GPU on this ")],
)
def test_an_engine_that_is_larger_than_this_machine_is_refused(
    cpus: float, gpus: float, why: str, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(machines, "cluster_nodes", lambda: [ClusterNode(8, 1)])
    refuse_unfit_engine("local", 8, 1)
    with pytest.raises(PrivsieveError, match=why):
        refuse_unfit_engine("local", cpus, gpus)


def test_the_pool_of_a_cluster_grows_unless_its_size_is_given(monkeypatch: Patch) -> None:
    monkeypatch.setattr(machines, "cluster_nodes", lambda: [ClusterNode(8, 1), ClusterNode(8, 2)])
    assert pool_size("head:6379", 1, 1, None) == (3, machines.MAX_GROWTH)
    assert pool_size("head:6379", 1, 1, 2) == (2, 2)
    assert pool_size("local", 1, 1, None) == (3, 3)
