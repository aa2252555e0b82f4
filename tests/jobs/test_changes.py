"""`filter --previous`: in what a release differs from the one before it, and what was taken down stays away."""

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.storage.place import place
from jobs.releases.previous import PreviousRelease
from scoring.runs.lease import lease
from tests.ingest.crafted import jpeg
from tests.jobs.in_process import scan_in_process
from tests.jobs.made import jpeg as small
from tests.jobs.made import privsieve, tar
from tests.jobs.releases import CLEAN, KEEP_ALL, Capture, asked, decisions, files, with_policy

DROP_C = "name: p\ndefault: keep\nrules:\n  - {name: third, when: \"key = 'c'\", then: drop, reason: r}\n"


@pytest.fixture
def v1(tmp_path: Path) -> Path:
    """Pictures a to d."""
    return released(tmp_path, "v1", {"a": 1, "b": 2, "c": 3, "d": 4}, KEEP_ALL)


def released(folder: Path, name: str, pictures: dict[str, int], policy: str, *options: object) -> Path:
    source = folder / f"source-{name}"
    source.mkdir()
    tar(source / "0.tar", {f"{key}.jpg": small(number) for key, number in pictures.items()})
    scan_in_process(source, folder / f"run-{name}")
    command = ("--policy", with_policy(folder, policy), "--out", folder / name, "--quiet")
    assert privsieve("filter", folder / f"run-{name}", *command, *options) == 0
    return folder / name


def changes(release: Path) -> list[tuple[str, str, str | None]]:
    rows = pq.read_table(release / "not-for-publication/changes.parquet").to_pylist()
    return [(row["key"], row["change"], row["rule"]) for row in rows]


def test_added_removed_and_changed_pictures_are_listed_and_counted(v1: Path, tmp_path: Path, capsys: Capture) -> None:
    """b is another picture, c is dropped by a rule, d is gone from the source, e is new."""
    capsys.readouterr()
    v2 = released(tmp_path, "v2", {"a": 1, "b": 9, "c": 3, "e": 5}, DROP_C, "--previous", v1)
    assert (
        "since the release before: 1 added, 2 removed, 1 changed (not-for-publication/changes.parquet)\n"
        in capsys.readouterr().out
    )
    assert sorted(changes(v2)) == [
        ("b", "changed", None),
        ("c", "removed", "third"),
        ("d", "removed", None),
        ("e", "added", None),
    ]
    [row] = [row for row in pq.read_table(v2 / "not-for-publication/changes.parquet").to_pylist() if row["key"] == "b"]
    assert row["previous_sha256"] == decisions(v1)["b"]["released_sha256"]
    assert row["released_sha256"] == decisions(v2)["b"]["released_sha256"]
    summary = json.loads((v2 / "release.json").read_text())
    assert summary["changes"] == {"num_added": 1, "num_removed": 2, "num_changed": 1}
    assert "Pictures since the release before: 1 added, 2 removed, 1 changed" in (v2 / "README.md").read_text()
    assert privsieve("release", "verify", v2) == 0
    (v2 / "not-for-publication/changes.parquet").write_bytes(b"")
    assert privsieve("release", "verify", v2) == 1


def test_the_same_release_again_has_no_changes(v1: Path, tmp_path: Path) -> None:
    command = ("--policy", with_policy(tmp_path, KEEP_ALL), "--out", tmp_path / "again", "--previous", v1, "--quiet")
    assert privsieve("filter", tmp_path / "run-v1", *command) == 0
    assert changes(tmp_path / "again") == []


def test_a_picture_that_left_because_of_a_hash_list_is_not_named(v1: Path, tmp_path: Path) -> None:
    listed = tmp_path / "list.txt"
    listed.write_text(f"sha256 {decisions(v1)['d']['sha256']}\n")
    options = ("--previous", v1, "--hash-list", listed)
    v2 = released(tmp_path, "v2", {"a": 1, "b": 2, "c": 3, "d": 4}, KEEP_ALL, *options)
    assert changes(v2) == [("", "removed", None)]


def test_a_release_of_tables_with_a_list_of_changes_can_be_scanned(v1: Path, tmp_path: Path) -> None:
    source = tmp_path / "tables"
    source.mkdir()
    pq.write_table(pa.table({"image": [{"bytes": jpeg(), "path": "a.jpg"}]}), source / "0.parquet")
    scan_in_process(source, tmp_path / "run")
    command = ("--policy", with_policy(tmp_path, KEEP_ALL), "--out", tmp_path / "out", "--previous", v1, "--quiet")
    assert privsieve("filter", tmp_path / "run", *command) == 0
    assert {key for key, _, _ in changes(tmp_path / "out")} == {"a", "b", "c", "d", "a.jpg"}
    scan_in_process(tmp_path / "out", tmp_path / "again")


def test_what_is_no_release_before_is_refused(v1: Path, tmp_path: Path, capsys: Capture) -> None:
    before = files(v1)
    policy = with_policy(tmp_path, KEEP_ALL)
    shutil.copytree(v1, tmp_path / "unfinished")
    (tmp_path / "unfinished" / "takedown.unfinished.json").write_text("{}")
    cases = {
        (tmp_path / "v2", tmp_path / "source-v1"): "is no finished release: it has no release.json",
        (tmp_path / "v2", tmp_path / "unfinished"): "a takedown is unfinished; run the same takedown again",
        (v1, v1): "--previous is --out; write to another folder",
        (v1.parent, v1): f"--out {v1.parent} holds --previous {v1}, or is inside of it",
        (v1 / "v2", v1): f"--out {v1 / 'v2'} holds --previous {v1}, or is inside of it",
    }
    for (out, previous), message in cases.items():
        command = ("filter", tmp_path / "run-v1", "--policy", policy, "--out", out, "--previous", previous)
        assert privsieve(*command, "--overwrite") == 2
        assert message in capsys.readouterr().err
    with lease(place(str(v1 / "release.lease.json")), str(v1), takeover=None):
        assert (
            privsieve("filter", tmp_path / "run-v1", "--policy", policy, "--out", tmp_path / "v2", "--previous", v1)
            == 2
        )
        assert f"--previous {v1} is being worked on by process" in capsys.readouterr().err
    assert not (tmp_path / "v2").exists()
    assert files(v1) == before
    for name in ("release.json", "not-for-publication/decisions.parquet"):
        broken = tmp_path / f"no-{Path(name).stem}"
        shutil.copytree(v1, broken)
        (broken / name).write_bytes(b"{}")
        command = ("filter", tmp_path / "run-v1", "--policy", policy, "--out", tmp_path / "v2", "--previous", broken)
        assert privsieve(*command) in (1, 2)
        assert name in capsys.readouterr().err
    assert not (tmp_path / "v2").exists()


def dropped(release: Path) -> list[tuple[object, object]]:
    rows = pq.read_table(release / "not-for-publication/decisions.parquet").to_pylist()
    return [(row["key"], row["rule"]) for row in rows if row["action"] == "drop"]


def test_what_was_taken_down_never_comes_back(v1: Path, tmp_path: Path, capsys: Capture) -> None:
    """b is taken down from v1, c from v2: v3 has neither, nor e, a copy of b; each release keeps the earlier logs."""
    assert privsieve("release", "takedown", v1, asked(v1, "b")) == 0
    before = files(v1)
    v2 = released(tmp_path, "v2", {"a": 1, "b": 2, "c": 3, "e": 2}, KEEP_ALL, "--previous", v1)
    assert dropped(v2) == [("b", "(removed_before)"), ("e", "(removed_before)")]
    assert (v2 / "removed.parquet").read_bytes() == (v1 / "removed.parquet").read_bytes()
    assert "Taken down before this release: 1 picture; none is in it." in (v2 / "README.md").read_text()
    assert privsieve("release", "verify", v2) == 0
    assert privsieve("release", "takedown", v2, asked(v2, "c")) == 0
    assert privsieve("release", "verify", v2) == 0
    assert files(v1) == before
    v3 = released(tmp_path, "v3", {"a": 1, "b": 2, "c": 3}, KEEP_ALL, "--previous", v2)
    assert dropped(v3) == [("b", "(removed_before)"), ("c", "(removed_before)")]
    assert pq.read_table(v3 / "removed.parquet")["key"].to_pylist() == ["b", "c"]
    assert privsieve("release", "verify", v3) == 0
    (tmp_path / "b.jpg").write_bytes(small(2))
    capsys.readouterr()
    assert privsieve("release", "lookup", v3, tmp_path / "b.jpg", "--exact") == 1
    assert "taken down  0.tar/b" in capsys.readouterr().out


def test_another_file_of_a_picture_that_was_taken_down_is_not_cleaned_into_it(tmp_path: Path) -> None:
    """e comes with a comment, under another key: cleaned it has the bytes that were taken down."""
    v1 = released(tmp_path, "v1", {"d": 4, "e": 5}, CLEAN)
    assert privsieve("release", "takedown", v1, asked(v1, "e")) == 0
    picture, source = small(5), tmp_path / "source-v1"
    tar(source / "1.tar", {"g.jpg": picture[:2] + b"\xff\xfe\x00\x06more" + picture[2:]})
    scan_in_process(source, tmp_path / "run")
    command = ("--policy", with_policy(tmp_path, CLEAN), "--out", tmp_path / "v2", "--previous", v1, "--quiet")
    assert privsieve("filter", tmp_path / "run", *command) == 0
    assert dropped(tmp_path / "v2") == [("e", "(removed_before)"), ("g", "(removed_before)")]
    assert privsieve("release", "verify", tmp_path / "v2") == 0


def test_a_takedown_of_the_release_before_while_a_filter_runs_brings_nothing_back(
    v1: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = PreviousRelease.refuse_changed

    def late(previous: PreviousRelease) -> None:
        assert privsieve("release", "takedown", v1, asked(v1, "a")) == 0
        check(previous)

    command = ("filter", tmp_path / "run-v1", "--policy", with_policy(tmp_path, KEEP_ALL), "--previous", v1)
    with monkeypatch.context() as patch:
        patch.setattr(PreviousRelease, "refuse_changed", late)
        assert privsieve(*command, "--out", tmp_path / "v2") == 1
    assert not (tmp_path / "v2" / "release.json").exists()
    assert privsieve(*command, "--out", tmp_path / "v2", "--overwrite") == 0
    assert dropped(tmp_path / "v2") == [("a", "(removed_before)")]
