"""`verify`: a release that is whole is said to be, and every change of it is named."""

import hashlib
import json
import os
import shutil
import tarfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.formats.released import DECISIONS, REMOVED, TAKEN_DOWN
from tests.jobs.in_process import scan_in_process
from tests.jobs.made import jpeg, privsieve, tar
from tests.jobs.releases import KEEP_ALL, asked, with_policy


@pytest.mark.parametrize("files", ["as-is", "clean"])
@pytest.mark.parametrize("layout", ["tars", "tree", "parquet"])
def test_a_whole_release_is_verified(
    releases: dict[str, Path], layout: str, files: str, capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert privsieve("release", "verify", releases[f"{layout}-{files}"]) == 0
    num_files = {"tree": "4 files"}.get(layout, "1 file")
    assert capsys.readouterr().out == f"{num_files} and 4 pictures as released, and all counts agree\n"


def without_a_file(release: Path) -> None:
    (release / "0.tar").unlink()


def with_another_file(release: Path) -> None:
    (release / "more.tar").write_bytes(b"")


def with_a_changed_byte(release: Path) -> None:
    content = bytearray((release / "0.tar").read_bytes())
    content[600] ^= 1
    (release / "0.tar").write_bytes(content)


def with_another_decision(release: Path) -> None:
    table = pq.read_table(release / DECISIONS)
    column = pa.array(["keep"] * table.num_rows)
    pq.write_table(table.set_column(table.schema.names.index("action"), "action", column), release / DECISIONS)


def with_other_counts(release: Path) -> None:
    summary = json.loads((release / "release.json").read_text())
    summary["num_images"] += 1
    (release / "release.json").write_text(json.dumps(summary))


def with_other_counts_of_actions(release: Path) -> None:
    summary = json.loads((release / "release.json").read_text())
    summary["actions"]["flag"] += 1
    (release / "release.json").write_text(json.dumps(summary))


def with_other_counts_of_what_was_not_scanned(release: Path) -> None:
    """The decisions know three pictures with such content."""
    summary = json.loads((release / "release.json").read_text())
    assert summary["num_unseen_kept"] == 3
    summary["num_unseen_kept"] = 0
    (release / "release.json").write_text(json.dumps(summary))


def with_another_kind_of_what_was_not_scanned(release: Path) -> None:
    summary = json.loads((release / "release.json").read_text())
    del summary["unseen_kept"]["frames"]
    (release / "release.json").write_text(json.dumps(summary))


def with_a_count_of_what_was_removed(release: Path) -> None:
    summary = json.loads((release / "release.json").read_text())
    summary["num_unseen_removed"] = 3
    (release / "release.json").write_text(json.dumps(summary))


def with_another_picture_and_its_hash(release: Path) -> None:
    """The hash of the file is put right, so that only the decisions show it."""
    with tarfile.open(release / "0.tar") as archive:
        names = [member.name for member in archive]
    tar(release / "0.tar", {name: jpeg(9) for name in names})
    summary = json.loads((release / "release.json").read_text())
    summary["sha256"]["0.tar"] = hashlib.sha256((release / "0.tar").read_bytes()).hexdigest()
    (release / "release.json").write_text(json.dumps(summary))


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (without_a_file, "0.tar: it is not there"),
        (with_another_file, "more.tar: release.json does not name it"),
        (with_a_changed_byte, "0.tar: its content is not what was released"),
        (with_another_decision, f"{DECISIONS}: its content is not what was released"),
        (with_other_counts, f"{DECISIONS}: its decisions are not those that release.json counts"),
        (with_other_counts_of_actions, f"{DECISIONS}: its decisions are not those that release.json counts"),
        (
            with_other_counts_of_what_was_not_scanned,
            f"release.json: its num_unseen_kept is not what {DECISIONS} counts",
        ),
        (
            with_another_kind_of_what_was_not_scanned,
            f"release.json: its unseen_kept is not what {DECISIONS} counts",
        ),
        (
            with_a_count_of_what_was_removed,
            f"release.json: its num_unseen_removed is not what {DECISIONS} counts",
        ),
        (with_another_picture_and_its_hash, f"0.tar: its pictures are not those of {DECISIONS}"),
    ],
)
def test_every_change_is_named(
    releases: dict[str, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    change: Callable[[Path], None],
    fault: str,
) -> None:
    release = tmp_path / "release"
    shutil.copytree(releases["tars-as-is"], release)
    change(release)
    capsys.readouterr()
    assert privsieve("release", "verify", release) == 1
    printed = capsys.readouterr()
    assert printed.out == f"{fault}\n"
    assert printed.err == f"privsieve: {release} is not what filter wrote: 1 fault\n"


@pytest.mark.parametrize("name", ["0.tar", "SHA256SUMS", DECISIONS])
def test_a_pipe_in_a_release_is_a_fault_and_is_not_waited_for(
    releases: dict[str, Path], tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    release = tmp_path / "release"
    shutil.copytree(releases["tars-as-is"], release)
    with_a_pipe(release / name)
    capsys.readouterr()
    assert privsieve("release", "verify", release) == 1
    printed = capsys.readouterr()
    assert printed.out == f"cannot read {release / name}: it is a pipe, socket or device, not a file\n"
    assert printed.err == f"privsieve: {release} is not what filter wrote: 1 fault\n"


def test_a_pipe_in_place_of_the_record_is_refused(tars: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with_a_pipe(tars / "release.json")
    capsys.readouterr()
    assert privsieve("release", "verify", tars) == 2
    refusal = f"privsieve: cannot read {tars / 'release.json'}: it is a pipe, socket or device, not a file\n"
    assert capsys.readouterr().err == refusal


@pytest.mark.parametrize("layout", ["tars", "tree", "parquet"])
def test_a_pipe_hides_no_other_fault(
    releases: dict[str, Path], tmp_path: Path, layout: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also after a takedown, for which the pictures of the other shards are read."""
    release = tmp_path / "release"
    shutil.copytree(releases[f"{layout}-as-is"], release)
    keys = pq.read_table(release / DECISIONS)["key"].to_pylist()
    assert privsieve("release", "takedown", release, asked(release, keys[2])) == 0
    shard = min(name for name in json.loads((release / "release.json").read_text())["sha256"])
    with_a_pipe(release / shard)
    (release / "README.md").unlink()
    (release / "z.tar").write_bytes(b"")
    capsys.readouterr()
    assert privsieve("release", "verify", release) == 1
    assert capsys.readouterr().out.splitlines() == [
        "z.tar: release.json does not name it",
        f"cannot read {release / shard}: it is a pipe, socket or device, not a file",
        "README.md: it is not there",
    ]


def with_a_pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


def test_what_is_no_release_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for content, why in (
        ({}, "is no finished release: it has no release.json"),
        ({"release.json": "{"}, ": release.json is damaged, or no filter wrote it (no JSON)"),
        (
            {"release.unfinished.json": "{}"},
            "is unfinished, so it cannot be verified; run its filter again with --resume",
        ),
    ):
        for name, text in content.items():
            (tmp_path / name).write_text(text)
        assert privsieve("release", "verify", tmp_path) == 2
        error = capsys.readouterr().err
        assert error.endswith(f"{why}\n")
        assert error.count("\n") == 1


def with_a_removed_shard_again(release: Path, before: Path) -> None:
    shutil.copy(before / "0.tar", release / "0.tar")


def with_the_release_of_before_and_its_tombstones(release: Path, before: Path) -> None:
    tombstones = {name: (release / name).read_bytes() for name in (REMOVED, TAKEN_DOWN)}
    shutil.copytree(before, release, dirs_exist_ok=True)
    for name, content in tombstones.items():
        (release / name).write_bytes(content)


def with_fewer_tombstones(release: Path, before: Path) -> None:
    with_tombstones(release, lambda table: table.slice(1))


def with_other_tombstones(release: Path, before: Path) -> None:
    def changed(table: pa.Table) -> pa.Table:
        return table.set_column(1, "key", pa.array(["another", *table["key"].to_pylist()[1:]], pa.string()))

    with_tombstones(release, changed)


def with_other_published_tombstones(release: Path, before: Path) -> None:
    with_tombstones(release, lambda table: table.take([1, 0]), REMOVED)


def with_tombstones(release: Path, change: Callable[[pa.Table], pa.Table], *names: str) -> None:
    """The hashes of the files are put right, so that only their content shows the change."""
    summary = json.loads((release / "release.json").read_text())
    for name in names or (REMOVED, TAKEN_DOWN):
        pq.write_table(change(pq.read_table(release / name)), release / name)
        summary["own_sha256"][name] = hashlib.sha256((release / name).read_bytes()).hexdigest()
    (release / "release.json").write_text(json.dumps(summary))


def with_a_longer_log(release: Path, before: Path) -> None:
    summary = json.loads((release / "release.json").read_text())
    summary["takedowns"][0]["num_pictures"] += 1
    (release / "release.json").write_text(json.dumps(summary))


def with_a_shard_that_cannot_be_read(release: Path, before: Path) -> None:
    (release / "0.tar").write_bytes(b"no tar")


def without_tombstones(release: Path, before: Path) -> None:
    (release / REMOVED).unlink()
    (release / TAKEN_DOWN).unlink()


@pytest.mark.parametrize(
    ("change", "faults"),
    [
        (
            with_a_removed_shard_again,
            ["0.tar: its content is not what was released", "0.tar: it holds 2 pictures of removed.parquet"],
        ),
        (
            with_the_release_of_before_and_its_tombstones,
            [
                f"{TAKEN_DOWN}: release.json does not name it",
                "removed.parquet: release.json does not name it",
                "removed.parquet: it has 2 pictures, and the takedowns in release.json count 0",
                f"{DECISIONS}: 2 pictures of removed.parquet not marked as taken down",
                "0.tar: it holds 2 pictures of removed.parquet",
            ],
        ),
        (
            with_fewer_tombstones,
            [
                "removed.parquet: it has 1 picture, and the takedowns in release.json count 2",
                f"removed.parquet: without 1 picture that {DECISIONS} marks as taken down",
            ],
        ),
        (
            with_other_tombstones,
            [
                f"{DECISIONS}: 1 picture of removed.parquet not marked as taken down",
                f"removed.parquet: without 1 picture that {DECISIONS} marks as taken down",
            ],
        ),
        (with_other_published_tombstones, [f"removed.parquet: its rows are not those of {TAKEN_DOWN}"]),
        (with_a_longer_log, ["removed.parquet: it has 2 pictures, and the takedowns in release.json count 3"]),
        (with_a_shard_that_cannot_be_read, ["0.tar: its content is not what was released"]),
        (
            without_tombstones,
            [
                f"{TAKEN_DOWN}: it is not there",
                "removed.parquet: it is not there",
                "removed.parquet: it has 0 pictures, and the takedowns in release.json count 2",
                f"removed.parquet: without 2 pictures that {DECISIONS} marks as taken down",
            ],
        ),
    ],
)
def test_a_release_that_does_not_fit_its_takedowns_is_named(
    tars: Path,
    releases: dict[str, Path],
    capsys: pytest.CaptureFixture[str],
    change: Callable[[Path, Path], None],
    faults: list[str],
) -> None:
    assert privsieve("release", "takedown", tars, asked(tars, "b", "c")) == 0
    capsys.readouterr()
    assert privsieve("release", "verify", tars) == 0
    assert capsys.readouterr().out == "1 file and 2 pictures as released, and all counts agree\n"
    change(tars, releases["tars-as-is"])
    assert privsieve("release", "verify", tars) == 1
    assert capsys.readouterr().out.splitlines() == faults


def test_a_picture_that_was_removed_by_its_key_may_have_a_copy(tmp_path: Path) -> None:
    """Only the copy of the key was asked for, so the other one is no fault."""
    (tmp_path / "source").mkdir()
    tar(tmp_path / "source" / "0.tar", {"a.jpg": jpeg(1), "b.jpg": jpeg(1), "c.jpg": jpeg(2)})
    policy, out = with_policy(tmp_path, KEEP_ALL), tmp_path / "out"
    scan_in_process(tmp_path / "source", tmp_path / "run")
    assert privsieve("filter", tmp_path / "run", "--policy", policy, "--out", out, "--quiet") == 0
    assert privsieve("release", "takedown", out, asked(out, "a")) == 0
    assert privsieve("release", "verify", out) == 0
