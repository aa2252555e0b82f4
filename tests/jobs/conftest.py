"""A small corpus of two tars, and its finished run; small releases; tests about Ray join a head."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import joined
from tests.jobs.in_process import scan_in_process
from tests.jobs.made import privsieve, shard
from tests.jobs.releases import CLEAN, FIRST_DROPPED, make_corpus, with_policy

LAYOUTS = ("tars", "tree", "parquet")


@pytest.fixture(autouse=True)
def joining(request: pytest.FixtureRequest) -> Iterator[None]:
    """Tests marked `ray` join the head, unless the mark says `own=True`. All others scan in this process."""
    mark = request.node.get_closest_marker("ray")
    if mark is None or mark.kwargs.get("own"):
        yield
        return
    with joined(request.getfixturevalue("head")):
        yield


@pytest.fixture(scope="package")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    shard(folder / "00000.tar", 0, 20)
    shard(folder / "00001.tar", 20, 15)
    return folder


@pytest.fixture(scope="package")
def scanned(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Not to be changed: copy it."""
    run = tmp_path_factory.mktemp("runs") / "run"
    assert privsieve("scan", corpus, "--run", run, "--engine", "canned") == 0
    return run


@pytest.fixture(scope="module")
def releases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """For each layout, a release as it is and one that is cleaned."""
    folder = tmp_path_factory.mktemp("releases")
    made = {}
    for layout in LAYOUTS:
        source, run = make_corpus(folder, layout), folder / f"run-{layout}"
        scan_in_process(source, run, max_frames=16)
        for name, text in (("as-is", FIRST_DROPPED), ("clean", CLEAN)):
            made[f"{layout}-{name}"] = folder / f"{layout}-{name}"
            policy = with_policy(folder, text)
            assert privsieve("filter", run, "--policy", policy, "--out", made[f"{layout}-{name}"], "--quiet") == 0
    return made


@pytest.fixture(params=[f"{layout}-{files}" for layout in LAYOUTS for files in ("as-is", "clean")])
def release(request: pytest.FixtureRequest, releases: dict[str, Path], tmp_path: Path) -> Path:
    """A copy of one of the releases; its name says which."""
    shutil.copytree(releases[request.param], tmp_path / request.param)
    return tmp_path / str(request.param)


@pytest.fixture
def tars(releases: dict[str, Path], tmp_path: Path) -> Path:
    shutil.copytree(releases["tars-as-is"], tmp_path / "tars-as-is")
    return tmp_path / "tars-as-is"
