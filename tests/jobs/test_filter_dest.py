"""Where `filter` writes: what it refuses to write over, beside or at the same time."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.jobs.in_process import scan_in_process
from tests.jobs.made import jpeg, privsieve
from tests.jobs.releases import CLEAN, KEEP_ALL, files, released, with_policy
from tests.making import Capture


def test_a_second_filter_into_the_same_folder_is_refused(scanned: Path, tmp_path: Path, capsys: Capture) -> None:
    out = tmp_path / "out"
    args = ("filter", scanned, "--policy", with_policy(tmp_path, KEEP_ALL), "--out", out)
    assert privsieve(*args) == 0
    assert not (out / "release.lease.json").exists()
    (out / "00000.tar.0123abcd.part").write_bytes(b"of the other filter, at work")
    hold = (
        "import sys; from ingest.storage.place import place; from scoring.runs.lease import lease\n"
        "with lease(place(sys.argv[1]), '', takeover=False): print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", hold, str(out / "release.lease.json")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        before = files(out)
        capsys.readouterr()
        for more in ((), ("--dry-run",)):
            assert privsieve(*args, "--resume", *more) == 2
            assert f"{out} is being written by process {other.pid} on " in capsys.readouterr().err
        assert files(out) == before
        other.kill()


@pytest.mark.parametrize("more", [[], ["--resume"]])
def test_a_folder_that_a_killed_filter_has_written_nothing_into_counts_as_new(
    scanned: Path, tmp_path: Path, more: list[str]
) -> None:
    out = tmp_path / "out"
    args = ("filter", scanned, "--policy", with_policy(tmp_path, KEEP_ALL), "--out", out, *more)
    stale = {"id": "0", "host": "another", "pid": 1, "renewed": 0.0}
    out.mkdir()
    (out / "release.lease.json").write_text(json.dumps(stale))
    for name in ("release.lease.json.0123abcd.part", "release.unfinished.json.0123abcd.part"):
        (out / name).write_bytes(b"cut o")
    (out / "notes.part").write_text("mine")
    assert privsieve(*args) == 2
    assert (out / "notes.part").exists()
    (out / "notes.part").unlink()
    assert privsieve(*args) == 0
    assert privsieve("release", "verify", out) == 0


def test_names_up_to_the_limit_of_the_file_system_are_released(tmp_path: Path) -> None:
    """243 bytes and more leave no room for a suffix of an unfinished file."""
    names = {"n" * (length - 4) + ".jpg": jpeg(length) for length in (239, 244, 255)}
    (tmp_path / "source").mkdir()
    for name, content in names.items():
        (tmp_path / "source" / name).write_bytes(content)
    scan_in_process(tmp_path / "source", tmp_path / "run")
    for text in (KEEP_ALL, CLEAN):
        out = tmp_path / text.split()[1]
        assert privsieve("filter", tmp_path / "run", "--policy", with_policy(tmp_path, text), "--out", out) == 0
        assert released(out).keys() == names.keys()
        assert privsieve("release", "verify", out) == 0
