"""Image trees made with ill will: depths, links that multiply, files of the system. Each costs its own row, no more."""

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ingest.errors import Fault
from ingest.formats import FORMATS, open_source
from ingest.formats.released import Kept
from ingest.formats.shard import files_below
from ingest.storage.place import place
from ingest.storage.removal import remove_half_written, remove_tree
from tests.ingest.made import jpeg, samples_of

MORE_THAN_PYTHON_GOES = sys.getrecursionlimit() + 500


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Removed by `rm`: Python's own way of removing a folder ends where these are deep."""
    yield tmp_path
    subprocess.run(["rm", "-rf", *tmp_path.iterdir()], check=True)


def nested(top: Path, name: str, depth: int, picture: bytes) -> None:
    """Folders in each other, with a picture at the bottom. Step by step: as one path it is too long for the system."""
    top.mkdir(exist_ok=True)
    here = os.open(top, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=here)
        above, here = here, os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(above)
    with open(os.open("x.jpg", os.O_CREAT | os.O_WRONLY, dir_fd=here), "wb") as file:
        file.write(picture)
    os.close(here)


@pytest.mark.slow
def test_a_thousand_folders_in_each_other_are_scanned_released_and_removed(folder: Path) -> None:
    nested(folder / "in", "d", MORE_THAN_PYTHON_GOES, jpeg(1))
    source = open_source(str(folder / "in"), None, None)
    (sample,) = samples_of(source)
    assert (sample.fault, sample.encoded) == (None, jpeg(1))
    assert sample.shard == "/".join(["d"] * MORE_THAN_PYTHON_GOES)
    out = place(str(folder / "out"))
    kept = Kept({0: hashlib.sha256(jpeg(1)).hexdigest()}, 1)
    written = FORMATS["tree"].write(source.root, sample.shard, kept, out)
    assert files_below(out) == list(written.files) == [f"{sample.shard}/x.jpg"]
    Path(out.path, sample.shard, "y.jpg.0123abcd.part").write_bytes(b"half")
    remove_half_written(out)
    assert files_below(out) == [f"{sample.shard}/x.jpg"]
    remove_tree(out)
    assert not out.exists()


def test_a_folder_too_deep_for_a_path_costs_its_own_row_only(folder: Path) -> None:
    nested(folder / "in", "n" * 200, 30, jpeg(1))
    (folder / "in" / "top.jpg").write_bytes(jpeg(2))
    top, deep = samples_of(open_source(str(folder / "in"), None, None))
    assert (top.key, top.fault) == ("top.jpg", None)
    assert (deep.key, deep.fault) == ("n" * 200, Fault("unreadable", "file name too long"))


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="this system has no /proc")
def test_a_link_to_a_file_of_the_system_costs_its_own_row_only(tmp_path: Path) -> None:
    links = {
        "mem.jpg": "/proc/self/mem",  # claims to be empty and cannot be read
        "environment.jpg": "/proc/self/environ",  # claims to be empty and holds what is secret
        "kmsg.jpg": "/proc/kmsg",  # claims to be empty and never ends
        "lo.jpg": "/sys/class/net/lo/phys_port_id",  # claims a size and cannot be read
    }
    for name, target in links.items():
        (tmp_path / name).symlink_to(target)
    (tmp_path / "picture.jpg").write_bytes(jpeg(1))
    found = {s.key: s for s in samples_of(open_source(str(tmp_path), None, None))}
    assert {name for name, sample in found.items() if sample.encoded} == {"picture.jpg"}
    assert found["mem.jpg"].fault is None
    assert found["environment.jpg"].fault is None
    lost = found["lo.jpg"].fault
    assert lost is not None
    assert lost.reason == "unreadable"
    assert found["picture.jpg"].encoded == jpeg(1)


def test_a_linked_folder_of_a_release_is_not_emptied(tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "a.jpg").write_bytes(jpeg(1))
    (tmp_path / "release").mkdir()
    (tmp_path / "release" / "link").symlink_to("../kept")
    remove_tree(place(str(tmp_path / "release")))
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    assert (tmp_path / "kept" / "a.jpg").read_bytes() == jpeg(1)
