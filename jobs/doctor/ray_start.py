"""Ray, and the executors that there are."""

from jobs.doctor.findings import ProblemError
from jobs.doctor.processes import python_process
from jobs.runtime.executors import EXECUTORS, Executor

RAY = """
import sys
from ingest.errors import PrivsieveError
from jobs.runtime.cluster import cluster_nodes, ray_session
try:
    with ray_session(sys.argv[1] or None):
        nodes = cluster_nodes()
        cpus, gpus = sum(node.num_cpus for node in nodes), sum(node.num_gpus for node in nodes)
        print(f"starts; machines: {len(nodes)}, logical CPUs: {cpus:g}, GPUs: {gpus:g}")
except PrivsieveError as error:
    print(error)
    sys.exit(3)
"""

MEANING: dict[Executor, str] = {
    "ray": "the cores of this machine, or a cluster",
    "inline": "this process only, without Ray",
}


def check_ray(address: str | None) -> str:
    done = python_process("-c", RAY, address or "")
    last = (done.stdout.strip().splitlines() or [""])[-1]
    if done.returncode == 3:
        raise ProblemError(last)
    if done.returncode:
        raise ProblemError(
            f"does not start (exit code {done.returncode}); look at the logs below /tmp/ray/session_latest"
        )
    return last


def list_executors() -> str:
    return "; ".join(f"{executor}: {MEANING[executor]}" for executor in EXECUTORS)
