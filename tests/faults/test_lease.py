"""Two scans on one run: the second is refused, unless it is given --takeover."""

import json
import socket
import time
from pathlib import Path

import pytest

from ingest.errors import IncompleteError, RunError
from ingest.storage.place import place
from scoring.runs import lease as lease_module
from scoring.runs.lease import STALE_S, Lease, lease
from tests.conftest import GiveDrill
from tests.faults.drill import finish, make_shards, rows, start_scan
from tests.jobs.made import privsieve
from tests.making import Capture, Patch


@pytest.mark.ray
def test_the_second_scan_is_refused_and_takes_over_if_asked_to(
    joining_head: None, drill_of_head: GiveDrill, tmp_path: Path
) -> None:
    """The first is on Ray, whose workers may still write when the other has taken over."""
    make_shards(tmp_path / "corpus", 4, 15)
    run = tmp_path / "run"
    drill_of_head({"*": str(tmp_path / "go on")})
    first = start_scan(tmp_path / "corpus", run)
    while first.poll() is None and not (run / "lease.json").exists():
        time.sleep(0.05)
    code, out, err = finish(start_scan(tmp_path / "corpus", run, "--executor", "inline"))
    assert (code, out) == (2, "")
    assert f"{run} is being worked on by process {first.pid} on {socket.gethostname()}" in err
    assert "--takeover" in err
    code, out, err = finish(start_scan(tmp_path / "corpus", run, "--executor", "inline", "--takeover"))
    assert (code, err) == (0, "")
    (tmp_path / "go on").touch()
    finish(first)
    assert len(rows(run)) == 60
    assert not (run / "lease.json").exists()


@pytest.mark.slow
def test_an_inline_scan_that_was_taken_over_stops_and_the_other_ends_the_run(
    tmp_path: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    """The other begins after the first slice of the first; the first reads the lease again while the other scans."""
    make_shards(tmp_path / "corpus", 4, 3)
    run, check = tmp_path / "run", Lease.check
    scan = ("scan", tmp_path / "corpus", "--run", run, "--engine", "canned", "--executor", "inline", "--processes", 1)
    monkeypatch.setattr(lease_module, "RENEW_S", 10_000)  # the lease is read below, and at no other moment

    def check_of_first(first: Lease) -> None:
        assert len(rows(run)) == 3

        def check_of_second(second: Lease) -> None:
            monkeypatch.setattr(Lease, "check", check)
            with pytest.raises(IncompleteError):
                first.confirm()
            check(second)

        monkeypatch.setattr(Lease, "check", check_of_second)
        assert privsieve(*scan) == 2
        assert "--takeover" in capsys.readouterr().err
        assert privsieve(*scan, "--takeover") == 0
        assert "12 images in 4 of 4 shards: 12 scored" in capsys.readouterr().out
        check(first)

    monkeypatch.setattr(Lease, "check", check_of_first)
    assert privsieve(*scan, "--quiet") == 1
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("privsieve: another command has taken this run over")
    assert len(rows(run)) == len({row["sha256"] for row in rows(run)}) == 12
    assert not (run / "lease.json").exists()


def _held_by(path: Path, host: str, pid: int, age_s: float) -> None:
    path.write_text(json.dumps({"id": "other", "host": host, "pid": pid, "renewed": time.time() - age_s}))


@pytest.mark.parametrize(
    ("host", "pid", "age_s"), [("elsewhere", 1, STALE_S + 1), (socket.gethostname(), 2**22 + 1, 0)]
)
def test_a_lease_of_a_scan_that_is_gone_is_taken(host: str, pid: int, age_s: float, tmp_path: Path) -> None:
    _held_by(tmp_path / "lease.json", host, pid, age_s)
    with lease(place(str(tmp_path / "lease.json")), "run", takeover=False):
        assert json.loads((tmp_path / "lease.json").read_text())["id"] != "other"
    assert not (tmp_path / "lease.json").exists()


@pytest.mark.parametrize(("takeover", "advice"), [(False, "give --takeover"), (None, f"try again {STALE_S} s later")])
def test_a_lease_of_another_machine_holds_until_it_is_stale(tmp_path: Path, takeover: bool | None, advice: str) -> None:
    _held_by(tmp_path / "lease.json", "elsewhere", 1, STALE_S - 30)
    with (
        pytest.raises(RunError, match=f"run is being worked on by process 1 on elsewhere .* stop it and {advice}$"),
        lease(place(str(tmp_path / "lease.json")), "run", takeover=takeover),
    ):
        pass


def test_who_was_taken_over_stops(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(lease_module, "RENEW_S", 0.01)
    with lease(place(str(tmp_path / "lease.json")), "run", takeover=False) as held:
        held.check()
        with pytest.raises(IncompleteError, match="another command has taken this run over"):  # noqa: PT012
            for _ in range(1000):
                # Again and again, since a renewal that has begun is written over it.
                _held_by(tmp_path / "lease.json", "elsewhere", 1, 0)
                time.sleep(0.01)
                held.check()
    assert json.loads((tmp_path / "lease.json").read_text())["id"] == "other"
