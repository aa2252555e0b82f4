"""`filter --previous`: in what a release differs from the one before it, and what was taken down stays away."""

from pathlib import Path

import pytest

from jobs.releases.previous import PreviousRelease
from tests.jobs.in_process import scan_in_process
from tests.jobs.made import jpeg as small
from tests.jobs.made import privsieve, tar
from tests.jobs.releases import KEEP_ALL, asked, decided, with_policy
from tests.making import Patch


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


def test_a_takedown_of_the_release_before_while_a_filter_runs_brings_nothing_back(
    v1: Path, tmp_path: Path, monkeypatch: Patch
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
    assert privsieve(*command, "--out", tmp_path / "v3") == 0
    keep = ("keep", "(default)")
    assert decided(tmp_path / "v3") == {"a": ("drop", "(removed_before)"), "b": keep, "c": keep, "d": keep}
