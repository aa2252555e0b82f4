"""Before a run begins on a cluster, one of its machines has to be able to scan: else one line, and nothing is left."""

import os
import platform
from pathlib import Path

import pytest

from ingest.errors import EngineError, SourceError
from jobs.runtime import on_worker as module
from jobs.runtime.cluster import ray_session
from jobs.runtime.on_worker import on_worker
from jobs.runtime.progress import SILENT
from tests.clusters.demo import CORPUS
from tests.conftest import joined
from tests.jobs.made import privsieve
from tests.making import Capture, Patch
from tests.recorded import RecordedMeter


def test_a_model_that_the_workers_lack_is_named_with_the_machine(head: str, tmp_path: Path, capfd: Capture) -> None:
    engine = ("--engine", "transformers", "--model", "/no/such", "--engine-gpus", 0)
    with joined(head):
        assert privsieve("scan", CORPUS, "--run", tmp_path / "run", *engine, "--quiet") == 2
    assert capfd.readouterr().err.splitlines() == [
        f'privsieve: machine {platform.node()}: the model folder "/no/such" does not exist; give a folder, a hub name '
        "such as owner/name, or a URL"
    ]
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_the_workers_do_not_see_is_refused(head: str, capfd: Capture) -> None:
    with joined(head):
        assert privsieve("scan", CORPUS, "--run", "memory://here-alone", "--engine", "canned", "--quiet") == 2
    [line] = capfd.readouterr().err.splitlines()
    assert "here-alone is another folder here than where the command was given: give --run as a URL" in line


def test_another_program_on_the_workers_is_refused(head: str, monkeypatch: Patch) -> None:
    with joined(head), ray_session(head):
        monkeypatch.setattr(module, "code_hash", lambda: "changed since the workers were installed")
        with pytest.raises(EngineError, match=r"it has other code of privsieve .* install the same on all machines"):
            on_worker(lambda: 1, 1, 0, SILENT, RecordedMeter())


def _fails() -> None:
    raise SourceError("s3://corpus/00000.tar: access denied")


def test_an_error_of_a_worker_keeps_its_kind_and_names_the_machine(head: str) -> None:
    meter = RecordedMeter()
    with joined(head), ray_session(head):
        with pytest.raises(SourceError, match=rf"machine {platform.node()}: s3://corpus/00000.tar: access denied"):
            on_worker(_fails, 1, 0, SILENT, meter)
        assert on_worker(lambda: 6 * 7, 1, 0, SILENT, RecordedMeter()) == 42
    assert [text for text, _ in meter.phases] == [
        "waiting for a machine with 1 free CPU",
        f"looking at machine {platform.node()}, which fetches what it needs",
    ]


def test_a_look_that_kills_its_process_is_tried_twice_and_no_more(head: str, tmp_path: Path) -> None:
    tries = tmp_path / "tries"

    def dies() -> None:
        with tries.open("a") as file:
            file.write("x")
        os._exit(1)

    # A process that ends this early may not have said yet where it is.
    where = rf"machine ({platform.node()}|of the cluster)"
    ends = pytest.raises(EngineError, match=rf"{where}: the process that checked it failed \(WorkerCrashedError\)")
    with joined(head), ray_session(head), ends:
        on_worker(dies, 1, 0, SILENT, RecordedMeter())
    assert tries.read_text() == "xx"


def test_dry_run_and_plan_look_at_a_worker(head: str, tmp_path: Path, capfd: Capture) -> None:
    """RAY_ADDRESS names the cluster, as it does in a submitted job."""
    canned = ("--engine", "canned")
    with joined(head):
        assert privsieve("scan", CORPUS, "--run", tmp_path / "run", *canned, "--dry-run") == 0
        assert "pictures   the first 4:" in capfd.readouterr().out
        assert not (tmp_path / "run").exists()
        assert privsieve("plan", CORPUS, "--run", tmp_path / "run", *canned, "--quiet") == 0
        assert "images" in capfd.readouterr().out
