"""`takedown`: pictures leave a release, whatever happens in between."""

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.errors import StorageError
from ingest.formats.released import RELEASE_LEASE, TAKEDOWN_JOURNAL, TAKEDOWN_STAGED
from jobs.releases.taking_down import TakedownRequest, run_takedown
from scoring.runs.lease import Lease
from tests.jobs.made import jpeg, privsieve
from tests.jobs.releases import asked, decisions, files, stopped_at, with_policy
from tests.making import Capture, Patch


def test_of_a_row_with_two_images_one_is_released_and_one_goes(tmp_path: Path, capsys: Capture) -> None:
    before, after = [[jpeg(n) for n in range(first, 4 + first)] for first in (0, 4)]
    columns = {"input": before, "output": [{"bytes": picture, "path": None} for picture in after], "key": [*"abcd"]}
    pq.write_table(pa.table(columns | {"hash": [b"0"] * 4}), tmp_path / "a.parquet")
    source, run, release = tmp_path / "a.parquet", tmp_path / "run", tmp_path / "release"
    assert privsieve("scan", source, "--run", run, "--engine", "canned") == 0
    notice = "not scanned: column hash (it holds bytes, and the first do not begin like a picture)"
    assert notice in capsys.readouterr().err
    rule = "{name: r, when: \"key IN ('a#input', 'b#output')\", then: drop, reason: r}"
    policy = with_policy(tmp_path, f"name: p\ndefault: keep\nquarantined: drop\nrules:\n  - {rule}\n")
    assert privsieve("filter", run, "--policy", policy, "--out", release) == 0
    assert privsieve("release", "verify", release) == 0
    assert privsieve("release", "takedown", release, asked(release, "c#input", "d#input", "d#output")) == 0
    assert privsieve("release", "verify", release) == 0
    table = pq.read_table(release / "a.parquet")
    assert table.column_names == ["input", "output", "key"]
    assert table["key"].to_pylist() == ["a", "b", "c"]
    assert table["input"].to_pylist() == [None, before[1], None]
    assert [cell and cell["bytes"] for cell in table["output"].to_pylist()] == [after[0], None, after[2]]


def test_images_of_a_column_that_is_left_out_are_not_claimed(tmp_path: Path, capsys: Capture) -> None:
    pq.write_table(pa.table({"input": [jpeg(1)], "output": [jpeg(2)]}), tmp_path / "a.parquet")
    given = ("scan", tmp_path / "a.parquet", "--run", tmp_path / "run", "--engine", "canned")
    assert privsieve(*given, "--image-column", "output") == 0
    assert "not scanned: column input (--image-column leaves it out)" in capsys.readouterr().err
    assert privsieve("report", tmp_path / "run") == 0
    assert capsys.readouterr().out.splitlines()[0] == "all images but those of the column input"
    assert privsieve(*given) != 0  # a run has one choice
    assert privsieve("filter", tmp_path / "run", "--policy", "research", "--out", tmp_path / "out") == 0
    assert pq.read_schema(tmp_path / "out" / "a.parquet").names == ["output"]
    assert privsieve("release", "verify", tmp_path / "out") == 0


@pytest.mark.parametrize("line", ["a\u2028c", "a\x85c", "a\x1cc", "a\x0cc", "a\rc", "a\u2028", "\x0ca"])
def test_a_line_ends_at_a_line_feed_only(tars: Path, line: str, capsys: Capture) -> None:
    """Else the name of one picture would be that of others."""
    before, requests = files(tars), asked(tars, line)
    capsys.readouterr()
    assert privsieve("release", "takedown", tars, requests) == 1
    assert "1 line: no picture that the release knows (3)" in capsys.readouterr().out
    assert files(tars) == before


def test_counts_of_what_was_not_scanned_follow_a_takedown(releases: dict[str, Path], tmp_path: Path) -> None:
    """The pictures c (frames after the 16th) and b and f (data behind the end) hold such content."""
    for name in ("tars-as-is", "tars-clean"):
        release = tmp_path / name
        shutil.copytree(releases[name], release)
        before = json.loads((release / "release.json").read_text())
        assert privsieve("release", "takedown", release, asked(release, "c", "d")) == 0
        after = json.loads((release / "release.json").read_text())
        which = "num_unseen_removed" if name == "tars-clean" else "num_unseen_kept"
        assert (before[which], after[which]) == (3, 2)
        assert (before["unseen_kept"].get("frames"), after["unseen_kept"].get("frames")) == (
            (None, None) if name == "tars-clean" else (1, None)
        )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tree-clean", "parquet-clean"])
def test_wherever_it_stops_the_release_is_the_old_one_or_the_next_takedown_ends_it(
    releases: dict[str, Path], tmp_path: Path, monkeypatch: Patch, name: str
) -> None:
    request = TakedownRequest(str(tmp_path / name), str(asked(tmp_path / name, "c", "c.gif")))
    whole, num_ended = dict[str, bytes](), 0
    for number in range(1, 60, 2):
        release = tmp_path / name
        shutil.rmtree(release, ignore_errors=True)
        shutil.copytree(releases[name], release)
        undo = stopped_at(monkeypatch, number, "jobs.releases.journal")
        try:
            run_takedown(request)
            is_done = True
        except StorageError:
            is_done = False
        undo()
        (release / RELEASE_LEASE).unlink(missing_ok=True)
        if not is_done and not (release / TAKEDOWN_JOURNAL).exists():
            shutil.rmtree(release / TAKEDOWN_STAGED, ignore_errors=True)
            assert files(release) == files(releases[name])
        num_ended += (release / TAKEDOWN_JOURNAL).exists()
        run_takedown(request)
        assert privsieve("release", "verify", release) == 0
        whole = whole or files(release)
        assert files(release) == whole
        if is_done:
            assert num_ended > 2
            return
    raise AssertionError("it never came to its end")


def test_of_two_takedowns_that_both_got_the_lease_only_the_later_one_changes_the_release(
    tars: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    """The other one begins, and ends, just before the first would put its files into place."""
    confirm, first = Lease.confirm, asked(tars, "c")
    second = tars.parent / "second.txt"
    second.write_text("b\n")

    def confirmed(held: Lease) -> None:
        monkeypatch.setattr(Lease, "confirm", confirm)
        (tars / RELEASE_LEASE).unlink()
        assert privsieve("release", "takedown", tars, second) == 0
        confirm(held)

    monkeypatch.setattr(Lease, "confirm", confirmed)
    assert privsieve("release", "takedown", tars, first) == 1
    assert "another command has taken this run over" in capsys.readouterr().err
    assert privsieve("release", "verify", tars) == 0
    assert {key: row["rule"] for key, row in decisions(tars).items() if row["rule"] == "(takedown)"} == {
        "b": "(takedown)"
    }
    assert not list(tars.glob("takedown*"))
