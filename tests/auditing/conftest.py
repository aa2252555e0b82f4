"""The run that is audited."""

import shutil
from pathlib import Path

import pytest

from tests.auditing.made import make_run
from tests.making import Folders


@pytest.fixture(scope="module")
def original(tmp_path_factory: Folders) -> Path:
    return make_run(tmp_path_factory.mktemp("audit"))


@pytest.fixture
def run(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "run"))
