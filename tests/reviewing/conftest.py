"""One scanned corpus for all tests; each has a copy of the run."""

import shutil
from pathlib import Path

import pytest

from tests.making import Folders
from tests.reviewing.made import run_of


@pytest.fixture(scope="session")
def scanned(tmp_path_factory: Folders) -> Path:
    return run_of(tmp_path_factory.mktemp("scanned"))


@pytest.fixture
def run(scanned: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(scanned, tmp_path / "run"))
