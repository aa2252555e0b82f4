"""A run that cannot be written to ends in one line; what was done before stays right."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.drill import finish, make_shards, rows, start_scan
from tests.jobs.made import privsieve
from tests.making import Capture


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 256 KB; skips where mounting is not allowed."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting a small disk is not allowed here")
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.slow
def test_a_full_disk_is_one_line_and_the_scan_goes_on_when_there_is_room(small_disk: Path, tmp_path: Path) -> None:
    make_shards(tmp_path / "corpus", 8, 40)
    options = ("--executor", "inline")
    code, out, err = finish(start_scan(tmp_path / "corpus", small_disk / "run", *options))
    assert (code, out) == (1, "")
    assert "no space left on device" in err
    assert "run the same command again to continue" in err
    assert len(err.splitlines()) == 1
    subprocess.run(["mount", "-o", "remount,size=16m", str(small_disk)], check=True)
    code, out, err = finish(start_scan(tmp_path / "corpus", small_disk / "run", *options))
    assert (code, err) == (0, "")
    assert "320 images in 8 of 8 shards: 320 scored, 0 quarantined" in out
    assert len(rows(small_disk / "run")) == 320


def test_a_run_that_cannot_be_written_is_reported_before_anything_is_scanned(tmp_path: Path, capsys: Capture) -> None:
    make_shards(tmp_path / "corpus", 1, 3)
    (tmp_path / "file").write_text("")
    for run, why in ((Path("/proc/run"), "no such file or directory"), (tmp_path / "file" / "run", "not a directory")):
        assert privsieve("scan", tmp_path / "corpus", "--run", run, "--engine", "canned", "--executor", "inline") == 2
        assert capsys.readouterr() == ("", f"privsieve: cannot write {run}/lease.json: {why}\n")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_shard_that_may_not_be_read_fails_alone(tmp_path: Path) -> None:
    make_shards(tmp_path / "corpus", 2, 3)
    (tmp_path / "corpus" / "00000.tar").chmod(0)
    code, out, err = finish(start_scan(tmp_path / "corpus", tmp_path / "run", "--executor", "inline"))
    assert code == 1
    assert "3 images in 1 of 2 shards" in out
    assert "00000.tar" in err


@pytest.mark.slow
@pytest.mark.ray
def test_on_ray_a_scan_with_a_shard_that_is_gone_counts_the_others(tmp_path: Path, joining_head: None) -> None:
    make_shards(tmp_path / "corpus", 2, 3)
    (tmp_path / "corpus" / "00009.tar").symlink_to("nowhere.tar")
    code, out, err = finish(start_scan(tmp_path / "corpus", tmp_path / "run", "--executor", "ray"))
    assert (code, out) == (1, "6 images in 2 of 3 shards: 6 scored, 0 quarantined\n")
    assert len(err.splitlines()) == 1
    assert "00009.tar" in err
