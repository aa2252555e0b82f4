"""A machine on which no engine can be loaded ends the scan with its name, and costs no slice and no death."""

import platform
from dataclasses import replace
from pathlib import Path

import pytest

from ingest import __version__
from ingest.errors import IncompleteError
from ingest.formats import open_source
from ingest.storage.place import place
from jobs.scanning import on_ray
from jobs.scanning.request import ScanRequest, ScanResources
from jobs.scanning.run import run_scan
from jobs.scanning.slice_scanner import SliceScanner
from jobs.scanning.slice_tasks import ScanSettings, SliceTask
from scoring.assessment import EngineDescription, EngineOptions
from scoring.runs.attempts import Attempts
from tests.conftest import GiveDrill, joined
from tests.faults.drill import finish, make_shards, rows, start_scan
from tests.making import Patch
from tests.records import scanned_record

REFUSED = f"machine {platform.node()}: this is a drill: the canned engine cannot be loaded here"


def test_the_scan_ends_in_one_line_with_the_machine(
    joining_head: None, drill_of_head: GiveDrill, tmp_path: Path
) -> None:
    drill_of_head({"load": "refuse"})
    make_shards(tmp_path / "corpus", 6, 5)
    code, out, err = finish(start_scan(tmp_path / "corpus", tmp_path / "run", "--num-engines", "2"))
    assert (code, out) == (1, "")
    assert err == f"privsieve: {REFUSED}; run the same command again to continue\n"
    assert Attempts(place(str(tmp_path / "run" / "attempts"))).all() == []


def test_a_machine_with_another_program_gets_nothing(head: str, tmp_path: Path, monkeypatch: Patch) -> None:
    """It may have come after the look before the run."""
    make_shards(tmp_path / "corpus", 1, 5)
    monkeypatch.setattr(on_ray, "program", lambda: (__version__, "changed since the machine was installed", ""))
    request = ScanRequest(str(tmp_path / "corpus"), str(tmp_path / "run"), engine="canned")
    ends = pytest.raises(IncompleteError, match=r"^machine \S+: it has other code of privsieve .* install the same")
    with joined(head), ends:
        run_scan(request, ScanResources(ray_address=head))
    assert rows(tmp_path / "run") == []


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
    assert (counts.is_fatal, counts.num_rows) == (True, 0)
    assert counts.failure.startswith("the package numpy is 0.1 where the engine was described, and ")
    assert SliceScanner(same).scan(task).failure == ""
