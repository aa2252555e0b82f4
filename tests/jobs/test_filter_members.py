"""What lies beside a picture, as a user who filters sees it: the setting, the counts, and what is dropped as unsafe."""

import tarfile
from pathlib import Path

import pytest

from tests.jobs.in_process import scan_in_process
from tests.jobs.made import jpeg, privsieve, tar
from tests.jobs.releases import KEEP_ALL, rows_by_key, with_policy


@pytest.mark.parametrize("kind", ["folder", "tar"])
def test_a_name_that_is_not_utf_8_is_not_released_and_loaders_can_read_the_rest(tmp_path: Path, kind: str) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    source.mkdir()
    pictures = {"caf\udce9.jpg": jpeg(0), "plain.jpg": jpeg(1)}
    if kind == "tar":
        tar(source / "00000.tar", pictures)
    else:
        for name, content in pictures.items():
            (source / name).write_bytes(content)
    scan_in_process(source, tmp_path / "run")
    assert privsieve("filter", tmp_path / "run", "--policy", with_policy(tmp_path, KEEP_ALL), "--out", out) == 0
    assert privsieve("release", "verify", out) == 0
    (dropped,) = [row for row in rows_by_key(out).values() if row["action"] == "drop"]
    assert (dropped["rule"], dropped["key"][:7]) == ("(unsafe_member)", "caf\\xe9")
    assert dropped["reason"].endswith("has a name that is not valid UTF-8")
    if kind == "tar":
        with tarfile.open(out / "00000.tar") as archive:
            archive.extractall(out, filter="data")
    assert [file.name for file in out.rglob("*.jpg")] == ["plain.jpg"]
