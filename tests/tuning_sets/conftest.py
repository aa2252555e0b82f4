"""A small labelled corpus, of as many pictures as a test module says with NUM."""

from pathlib import Path

import pytest

from tests.making import Request
from tests.tuning_sets import made


@pytest.fixture
def pictures(request: Request) -> dict[str, bytes]:
    return made.files(request.module.NUM)


@pytest.fixture
def source(tmp_path: Path, pictures: dict[str, bytes]) -> Path:
    return made.tree(tmp_path / "pictures", pictures)


@pytest.fixture
def truth(tmp_path: Path, pictures: dict[str, bytes]) -> Path:
    return made.by_hash(tmp_path / "labels.parquet", pictures)
