"""A machine on which no engine can be loaded costs a notice: no slice, no death, no scan while another one works."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import ray

from ingest.errors import IncompleteError
from ingest.formats import open_source
from ingest.storage.place import place
from jobs.runtime.cluster import ray_session
from jobs.scanning import on_ray
from jobs.scanning.handed_back import HandedBack
from jobs.scanning.request import ScanRequest, ScanResources
from jobs.scanning.run import run_scan
from jobs.scanning.slice_scanner import SliceScanner
from jobs.scanning.slice_tasks import ScanSettings, SliceCounts, SliceTask
from scoring.assessment import EngineDescription, EngineOptions
from scoring.engines.canned import DRILL
from scoring.runs.attempts import Attempts
from tests.conftest import free_ports, joined, ray_folder, ray_node
from tests.faults.drill import finish, make_shards, rows
from tests.records import scanned_record

ROOT = Path(__file__).parents[2]
REFUSES = {"load": "refuse"}
REFUSED = f"machine {platform.node()}: this is a drill: the canned engine cannot be loaded here"


def scan(corpus: Path, run: Path, address: str) -> "subprocess.Popen[str]":
    words = ["scan", str(corpus), "--run", str(run), "--engine", "canned", "--quiet", "--ray-address", address]
    return subprocess.Popen(
        [sys.executable, "-m", "jobs", *words, "--num-engines", "2"],
        cwd=ROOT,
        env=os.environ | {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@dataclass(frozen=True)
class TwoMachines:
    address: str

    first_drill: Path
    """What engines do on the first of them; on the second none can be loaded."""


@pytest.fixture(scope="module")
def two_machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoMachines]:
    """Two nodes that hold an engine each."""
    first, second = (tmp_path_factory.mktemp("drills") / f"{name}.json" for name in ("first", "second"))
    second.write_text(json.dumps(REFUSES))
    (port,) = free_ports(1)
    environment = {name: text for name, text in os.environ.items() if not name.startswith("RAY_")}
    environment |= {"RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}
    with ray_folder() as folder, ExitStack() as stack:
        head = ["--head", "--num-cpus", "1", "--temp-dir", str(folder), "--port", str(port)]
        head += ["--include-dashboard", "false"]
        other = ["--address", f"127.0.0.1:{port}", "--num-cpus", "1", "--temp-dir", str(folder / "second")]
        stack.enter_context(ray_node(head, environment | {DRILL: str(first)}, folder / "head.log"))
        stack.enter_context(ray_node(other, environment | {DRILL: str(second)}, folder / "second.log"))
        yield TwoMachines(f"127.0.0.1:{port}", first)


def test_the_other_machine_scans_what_it_was_given(two_machines: TwoMachines, tmp_path: Path) -> None:
    two_machines.first_drill.write_text(json.dumps({"*": str(tmp_path / "other was given something")}))
    make_shards(tmp_path / "corpus", 8, 5)
    begun = scan(tmp_path / "corpus", tmp_path / "run", two_machines.address)
    assert begun.stdout is not None
    assert begun.stderr is not None
    notice = begun.stderr.readline()
    (tmp_path / "other was given something").touch()
    out, err = begun.stdout.read(), notice + begun.stderr.read()
    assert begun.wait(1500) == 0, err
    assert out == "40 images in 8 of 8 shards: 40 scored, 0 quarantined\n"
    assert err == f"{REFUSED}; other machines scan what it was given\n"
    assert len(rows(tmp_path / "run")) == 40
    assert Attempts(place(str(tmp_path / "run" / "attempts"))).all() == []


def test_where_none_has_an_engine_the_scan_ends_in_one_line(two_machines: TwoMachines, tmp_path: Path) -> None:
    two_machines.first_drill.write_text(json.dumps(REFUSES))
    make_shards(tmp_path / "corpus", 6, 5)
    code, out, err = finish(scan(tmp_path / "corpus", tmp_path / "run", two_machines.address))
    assert (code, out) == (1, "")
    assert err.splitlines()[-1] == f"privsieve: {REFUSED}; run the same command again to continue"
    assert "Traceback" not in err
    assert Attempts(place(str(tmp_path / "run" / "attempts"))).all() == []


def test_a_machine_with_another_program_gets_nothing(
    head: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have come after the look before the run."""
    make_shards(tmp_path / "corpus", 1, 5)
    monkeypatch.setattr(on_ray, "code_hash", lambda: "changed since the machine was installed")
    request = ScanRequest(str(tmp_path / "corpus"), str(tmp_path / "run"), engine="canned")
    ends = pytest.raises(IncompleteError, match=r"^it has other code of privsieve .* install the same on all")
    with joined(head), ends:
        run_scan(request, ScanResources(ray_address=head))
    assert rows(tmp_path / "run") == []


def test_a_machine_is_tried_again_only_if_another_engine_of_it_works(head: str) -> None:
    """One of its engines was still being loaded when the other handed its slice back."""
    with joined(head), ray_session(head):
        [node] = [node["NodeID"] for node in ray.nodes() if node["Alive"]]
        counts = SliceCounts(failure="it has no model", machine="m", node_id=node, is_fatal=True, is_handed_back=True)
        with closing(HandedBack(1, 0, lambda line: None)) as handed_back:
            ray.get(handed_back.states.report.remote("other", node, "loading"))
            handed_back.note(counts, 0)
            ray.get(handed_back.states.report.remote("other", node, "loaded"))
            assert handed_back.next_pass() == {}
            ray.get(handed_back.states.report.remote("other", node, "loading"))
            handed_back.note(counts, 0)
            ray.get(handed_back.states.report.remote("other", node, "failed"))
            with pytest.raises(IncompleteError, match=r"^it has no model; run the same command again to continue$"):
                handed_back.next_pass()


def test_a_call_waits_where_the_actor_of_the_scan_is_lost_and_started_again(head: str) -> None:
    """An engine that is just being loaded makes such calls; were one an error, Ray Data would end the scan."""
    with joined(head), ray_session(head), closing(HandedBack(1, 0, lambda line: None)) as handed_back:
        node = ray.get_runtime_context().get_node_id()
        for number in range(3):
            ray.get(handed_back.states.report.remote("first", node, "loaded"))
            ray.kill(handed_back.states, no_restart=False)
            answers = [handed_back.states.report.remote(f"engine {n} of {number}", node, "loading") for n in range(100)]
            assert ray.get(answers) == [None] * 100


def test_an_engine_with_other_packages_than_the_run_scores_nothing(tmp_path: Path) -> None:
    make_shards(tmp_path / "corpus", 1, 5)
    source = open_source(str(tmp_path / "corpus"), None, None)
    run = place(str(tmp_path / "run"))
    same = ScanSettings(source, run, scanned_record(), EngineOptions(), code="")
    slice_ = next(iter(source.slices("00000.tar")))
    task = SliceTask(slice_, "name.parquet", "", source.version_mark("00000.tar"), "")
    counts = SliceScanner(
        replace(same, description=EngineDescription("canned", "", (), versions={"numpy": "0.1"}))
    ).scan(task)
    assert (counts.is_handed_back, counts.num_rows) == (True, 0)
    assert counts.failure.startswith("the package numpy is 0.1 where the engine was described, and ")
    assert SliceScanner(same).scan(task).failure == ""
