"""What lies beside a picture, as a user who filters sees it: the setting, the counts, and what is dropped as unsafe."""

import tarfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.jobs.in_process import scan_in_process
from tests.jobs.made import jpeg, privsieve, tar
from tests.jobs.releases import KEEP_ALL
from tests.making import Folders

UNSAFE = "(unsafe_member)"


@pytest.fixture(scope="module")
def source(tmp_path_factory: Folders) -> Path:
    """Tars: one of a plain sample and some with odd members, one of a single picture, and one with an odd name."""
    folder = tmp_path_factory.mktemp("corpora") / "source"
    folder.mkdir()
    link = tarfile.TarInfo("2.txt")
    link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
    members = {
        "0.jpg": jpeg(0),
        "0.txt": b"words",
        "1.jpg": jpeg(1),
        "1.npy": b"\x93NUMPY",
        "./1.jpg": jpeg(4),
        "3.jpg": jpeg(3),
        "3.txt": b"caf\xe9",
        "2.jpg": jpeg(2),
    }
    tar(folder / "00000.tar", members)
    with tarfile.open(folder / "00000.tar", "a") as archive:
        archive.addfile(link)
    tar(folder / "00001.tar", {"6.jpg": jpeg(6)})
    tar(folder / "bad\tname.tar", {"5.jpg": jpeg(5)})
    return folder


@pytest.fixture(scope="module")
def run(source: Path, tmp_path_factory: Folders) -> Path:
    where = tmp_path_factory.mktemp("runs") / "run"
    scan_in_process(source, where)
    return where


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    (tmp_path / "keep-all.yaml").write_text(KEEP_ALL)
    return tmp_path / "keep-all.yaml"


def names(out: Path) -> list[str]:
    with tarfile.open(out / "00000.tar") as archive:
        return archive.getnames()


@pytest.mark.parametrize("kind", ["folder", "tar"])
def test_a_name_that_is_not_utf_8_is_not_released_and_loaders_can_read_the_rest(
    policy: Path, tmp_path: Path, kind: str
) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    source.mkdir()
    pictures = {"caf\udce9.jpg": jpeg(0), "plain.jpg": jpeg(1)}
    if kind == "tar":
        tar(source / "00000.tar", pictures)
    else:
        for name, content in pictures.items():
            (source / name).write_bytes(content)
    scan_in_process(source, tmp_path / "run")
    assert privsieve("filter", tmp_path / "run", "--policy", policy, "--out", out) == 0
    assert privsieve("release", "verify", out) == 0
    (dropped,) = [
        r for r in pq.read_table(out / "not-for-publication/decisions.parquet").to_pylist() if r["action"] == "drop"
    ]
    assert (dropped["rule"], dropped["key"][:7]) == (UNSAFE, "caf\\xe9")
    assert dropped["reason"].endswith("has a name that is not valid UTF-8")
    released_names = names(out) if kind == "tar" else [file.name for file in out.rglob("*.jpg")]
    assert released_names == ["plain.jpg"]
