"""How many engines a cluster holds, and what a wrong address is answered with."""

import os
import time
from pathlib import Path
from typing import Any

import pytest
import ray

from ingest.errors import PrivsieveError
from jobs.runtime import cluster
from jobs.runtime.cluster import ray_session
from jobs.runtime.machines import MAX_GROWTH, ClusterNode, cluster_nodes, engines_that_fit, num_slicers
from tests.conftest import HEAD_CPUS, GiveDrill, joined
from tests.faults.drill import engine_actors, finish, make_shards, start_scan
from tests.making import Patch

ROOT = Path(__file__).parent.parent.parent
HEAD = ClusterNode(num_cpus=0, num_gpus=0)


@pytest.mark.parametrize(
    ("nodes", "cpus_per_engine", "gpus_per_engine", "num_engines"),
    [
        ([HEAD, ClusterNode(8, 0)], 1, 0, 7),  # one CPU is left for the reader
        ([HEAD, *[ClusterNode(8, 0)] * 9], 1, 0, 64),  # one in nine
        ([HEAD, *[ClusterNode(8, 0)] * 2], 5, 0, 2),  # an engine of 5 CPUs fits once on 8
        ([HEAD], 1, 0, 1),  # scales from nothing
        ([HEAD, ClusterNode(16, 2), ClusterNode(16, 1)], 1, 1, 3),
        ([HEAD, ClusterNode(16, 3), ClusterNode(16, 1)], 1, 2, 1),  # no engine spans two machines
        ([HEAD, ClusterNode(8, 1)], 1, 0.5, 2),
        ([HEAD, ClusterNode(16, 4), ClusterNode(4, 1)], 8, 1, 2),  # the CPUs hold two on one machine, none on the other
    ],
)
def test_engines_that_fit(
    nodes: list[ClusterNode], cpus_per_engine: float, gpus_per_engine: float, num_engines: int
) -> None:
    assert engines_that_fit(nodes, cpus_per_engine, gpus_per_engine) == num_engines


def test_listing_does_not_grow_with_a_growth_that_has_no_limit() -> None:
    """Each listing process takes 200 MB, and one machine may get them all."""
    assert num_slicers(1, 1) == 1
    assert num_slicers(1, MAX_GROWTH) == 4
    assert num_slicers(64, 64) == 16
    assert num_slicers(64, MAX_GROWTH) == 16


@pytest.mark.parametrize(
    "address", ["cluster", "http://127.0.0.1:8265", "ray://127.0.0.1:10001", "head:", "head:65x", "head:²"]
)
def test_an_address_of_another_form_is_answered_with_what_is_wanted(address: str) -> None:
    with (
        pytest.raises(PrivsieveError, match=f'Ray address "{address}": wanted is HOST:PORT') as refusal,
        ray_session(address),
    ):
        pass
    assert refusal.value.exit_code == 2
    assert len(str(refusal.value).splitlines()) == 1


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nosuchhost.invalid:6379", "127.0.0.1:99999"])
def test_where_nothing_answers_the_user_does_not_wait(address: str) -> None:
    started_s = time.monotonic()
    with pytest.raises(PrivsieveError, match="nothing answers there"), ray_session(address):
        pass
    assert time.monotonic() - started_s < 300


def test_a_busy_head_is_tried_again(head: str, monkeypatch: Patch) -> None:
    """Ray gives up at once on some failures that pass."""
    tries: list[str] = []
    join = ray.init

    def busy(address: str, **options: Any) -> None:
        tries.append(address)
        if len(tries) != 3:
            raise RuntimeError("Failed to connect to GCS. Last connection error:\n  UNAVAILABLE:\ttry later\n")
        join(address=address, **options)

    monkeypatch.setattr(ray, "init", busy)
    monkeypatch.setattr(cluster, "JOIN_PAUSE_S", 0.01)
    with joined(head):
        with ray_session(head):
            assert cluster_nodes() == [ClusterNode(num_cpus=HEAD_CPUS, num_gpus=0)]
        assert tries == [head] * 3
        monkeypatch.setattr(cluster, "JOIN_LIMIT_S", 0.0)
        with pytest.raises(PrivsieveError, match="no cluster that this machine") as refusal, ray_session(head):
            pass
    assert "(RuntimeError: UNAVAILABLE: try later)" in str(refusal.value)


def test_what_will_not_change_is_tried_once(monkeypatch: Patch) -> None:
    tries: list[str] = []

    def without_cluster(address: str, **options: Any) -> None:
        tries.append(address)
        raise ConnectionError("Could not find any running Ray instance.")

    monkeypatch.setattr(ray, "init", without_cluster)
    with pytest.raises(PrivsieveError, match=r"belongs to \(ConnectionError: Could not find"), ray_session("auto"):
        pass
    assert tries == ["auto"]


def test_the_pool_grows_while_slices_wait(joining_head: None, drill_of_head: GiveDrill, tmp_path: Path) -> None:
    make_shards(tmp_path / "corpus", 8, 10)
    drill_of_head({"*": str(tmp_path / "go on")})
    while engine_actors(os.getpid()):  # of a scan before, which has ended
        time.sleep(0.1)
    scan = start_scan(tmp_path / "corpus", tmp_path / "run")  # one engine fits beside the reader
    while len(engine_actors(os.getpid())) < 2:
        assert scan.poll() is None, finish(scan)
        time.sleep(0.1)
    (tmp_path / "go on").touch()
    assert finish(scan) == (0, "80 images in 8 of 8 shards: 80 scored, 0 quarantined\n", "")
