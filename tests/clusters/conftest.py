"""A real Ray cluster of two nodes on this machine, on ports and in a folder of its own.

`ray stop` would end every cluster of the machine, so the processes started here are ended by their process group.
"""

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

START_LIMIT_S = 180.0


@dataclass(frozen=True)
class RayCluster:
    """environment: what a user of the cluster has set, the token among it, for `subprocess`."""

    address: str
    dashboard_url: str
    metrics_url: str
    environment: dict[str, str]


def free_ports(count: int) -> list[int]:
    with ExitStack() as held:
        taken = [held.enter_context(socket.socket()) for _ in range(count)]
        for each in taken:
            each.bind(("127.0.0.1", 0))
        return [int(each.getsockname()[1]) for each in taken]


@contextmanager
def _started(options: list[str], environment: dict[str, str], log: Path) -> Iterator[None]:
    """`ray start` with these options until the block ends; returns once the node says that it runs."""
    node_memory = ["--object-store-memory", "100000000", "--min-worker-port", "0", "--max-worker-port", "0"]
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", *node_memory, *options]
    with log.open("wb") as output:
        node = subprocess.Popen(
            command, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        limit_s = time.monotonic() + START_LIMIT_S
        while b"Ray runtime started" not in log.read_bytes():
            if node.poll() is not None or time.monotonic() > limit_s:
                raise RuntimeError(f"the node did not start:\n{log.read_text()[-3000:]}")
            time.sleep(0.1)
        yield
    finally:
        os.killpg(node.pid, signal.SIGKILL)
        node.wait()


@pytest.fixture(scope="package")
def ray_cluster() -> Iterator[RayCluster]:
    """A head and a second node with two CPUs each; token authentication as on a cluster that others can reach."""
    # Not pytest's own folder: the path of a Unix socket is at most 107 bytes long.
    folder = Path(tempfile.mkdtemp(prefix="ray-"))
    port, dashboard, client, metrics = free_ports(4)
    environment = {name: text for name, text in os.environ.items() if not name.startswith("RAY_")}
    environment |= {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(20),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_metrics_report_interval_ms": "500",
    }
    head = ["--head", "--num-cpus", "2", "--temp-dir", str(folder), "--port", str(port)]
    head += ["--dashboard-port", str(dashboard), "--dashboard-agent-listen-port", "0"]
    head += ["--ray-client-server-port", str(client), "--metrics-export-port", str(metrics)]
    second = ["--address", f"127.0.0.1:{port}", "--num-cpus", "2", "--temp-dir", str(folder / "second")]
    try:
        with (
            _started(head, environment, folder / "head.log"),
            _started([*second, "--dashboard-agent-listen-port", "0"], environment, folder / "second.log"),
        ):
            yield RayCluster(
                address=f"127.0.0.1:{port}",
                dashboard_url=f"http://127.0.0.1:{dashboard}",
                metrics_url=f"http://127.0.0.1:{metrics}/metrics",
                environment=environment,
            )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
