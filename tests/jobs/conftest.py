"""A small corpus of two tars, and its finished run; a Ray head that the tests about Ray join."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import joined, ray_head
from tests.jobs.made import privsieve, shard


@pytest.fixture(scope="package")
def head() -> Iterator[str]:
    with ray_head({}) as address:
        yield address


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
