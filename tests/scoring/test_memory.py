"""What an engine may take is what its container leaves, not what the machine has."""

import os
from pathlib import Path

import pytest

from ingest.machine import available_bytes, num_cores, resident_bytes


@pytest.fixture
def cgroup(tmp_path: Path) -> Path:
    (tmp_path / "memory.max").write_text(f"{100 * 2**20}\n")
    (tmp_path / "memory.current").write_text(f"{30 * 2**20}\n")
    return tmp_path


def test_a_container_leaves_its_limit_less_what_it_uses_but_for_files_that_it_read_earlier(cgroup: Path) -> None:
    assert available_bytes(cgroup) == 70 * 2**20
    (cgroup / "memory.stat").write_text(f"anon {10 * 2**20}\nfile {20 * 2**20}\ninactive_file {18 * 2**20}\n")
    assert available_bytes(cgroup) == 88 * 2**20
    (cgroup / "memory.stat").unlink()
    (cgroup / "memory.current").write_text(f"{101 * 2**20}\n")
    assert available_bytes(cgroup) == 0


def test_a_container_may_use_its_time_in_whole_cores(cgroup: Path) -> None:
    for content, number in (("150000 100000\n", 2), ("50000 100000\n", 1), ("max 100000\n", num_cores(Path("none")))):
        (cgroup / "cpu.max").write_text(content)
        assert num_cores(cgroup) == min(number, num_cores(Path("none")))


def test_without_a_limit_the_machine_decides(cgroup: Path, tmp_path: Path) -> None:
    (cgroup / "memory.max").write_text("max\n")
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 100 * 2**20 < available_bytes(cgroup) <= machine
    assert 100 * 2**20 < available_bytes(tmp_path / "none") <= machine


def test_a_process_that_is_gone_takes_nothing() -> None:
    assert resident_bytes(os.getpid()) > 10 * 2**20
    assert resident_bytes(2**22 + 1) == 0
