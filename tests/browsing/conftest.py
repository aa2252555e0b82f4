"""A run to browse, a server of it, and a person with a browser."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.serving.browse.server import Browsing
from jobs.serving.local_server import LocalServer
from tests.browsing.made import made_run, served
from tests.making import Folders
from tests.reviewing.made import Person


@pytest.fixture(scope="module")
def run(tmp_path_factory: Folders) -> Path:
    return made_run(tmp_path_factory.mktemp("browse"))


@pytest.fixture(scope="module")
def server(run: Path) -> Iterator[LocalServer[Browsing]]:
    with served(run) as one:
        yield one


@pytest.fixture
def person(server: LocalServer[Browsing]) -> Person:
    return Person(server.address)
