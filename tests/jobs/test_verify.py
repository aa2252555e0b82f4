"""`verify`: a release that is whole is said to be, and every change of it is named."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.formats.released import DECISIONS, REMOVED, TAKEN_DOWN
from tests.jobs.made import privsieve
from tests.jobs.releases import asked
from tests.making import Capture


@pytest.mark.parametrize("files", ["as-is", "clean"])
@pytest.mark.parametrize("layout", ["tars", "tree", "parquet"])
def test_a_whole_release_is_verified(releases: dict[str, Path], layout: str, files: str, capsys: Capture) -> None:
    capsys.readouterr()
    assert privsieve("release", "verify", releases[f"{layout}-{files}"]) == 0
    num_files = {"tree": "4 files"}.get(layout, "1 file")
    assert capsys.readouterr().out == f"{num_files} and 4 pictures as released, and all counts agree\n"


@pytest.mark.parametrize("layout", ["tars", "tree", "parquet"])
def test_a_pipe_hides_no_other_fault(releases: dict[str, Path], tmp_path: Path, layout: str, capsys: Capture) -> None:
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
    tars: Path, releases: dict[str, Path], capsys: Capture, change: Callable[[Path, Path], None], faults: list[str]
) -> None:
    assert privsieve("release", "takedown", tars, asked(tars, "b", "c")) == 0
    capsys.readouterr()
    assert privsieve("release", "verify", tars) == 0
    assert capsys.readouterr().out == "1 file and 2 pictures as released, and all counts agree\n"
    change(tars, releases["tars-as-is"])
    assert privsieve("release", "verify", tars) == 1
    assert capsys.readouterr().out.splitlines() == faults
