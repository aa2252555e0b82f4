"""A real Ray cluster of two nodes on this machine."""

import os
import secrets
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conftest import free_ports, ray_folder, ray_node


@dataclass(frozen=True)
class RayCluster:
    """environment: what a user of the cluster has set, the token among it, for `subprocess`."""

    address: str
    dashboard_url: str
    metrics_url: str
    environment: dict[str, str]


@pytest.fixture(scope="package")
def ray_cluster() -> Iterator[RayCluster]:
    """A head and a second node with two CPUs each; token authentication as on a cluster that others can reach."""
    port, dashboard, client, metrics = free_ports(4)
    environment = {name: text for name, text in os.environ.items() if not name.startswith("RAY_")}
    environment |= {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(20),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_metrics_report_interval_ms": "500",
    }
    with ray_folder() as folder:
        head = ["--head", "--num-cpus", "2", "--temp-dir", str(folder), "--port", str(port)]
        head += ["--dashboard-port", str(dashboard), "--dashboard-agent-listen-port", "0"]
        head += ["--ray-client-server-port", str(client), "--metrics-export-port", str(metrics)]
        second = ["--address", f"127.0.0.1:{port}", "--num-cpus", "2", "--temp-dir", str(folder / "second")]
        second += ["--dashboard-agent-listen-port", "0"]
        with (
            ray_node(head, environment, folder / "head.log"),
            ray_node(second, environment, folder / "second.log"),
        ):
            yield RayCluster(
                address=f"127.0.0.1:{port}",
                dashboard_url=f"http://127.0.0.1:{dashboard}",
                metrics_url=f"http://127.0.0.1:{metrics}/metrics",
                environment=environment,
            )
