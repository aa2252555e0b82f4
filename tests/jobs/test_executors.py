"""The same corpus on Ray and in one process: the same files, whichever begins and whichever finishes."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from tests.ingest.made import jpeg, parquet_file
from tests.jobs.made import privsieve, shard

pytestmark = pytest.mark.ray

EXECUTORS = ("ray", "inline")


def _webdataset(source: Path) -> None:
    shard(source / "00000.tar", 0, 20)
    shard(source / "00001.tar", 20, 15)


def _tree(source: Path) -> None:
    for number in range(6):
        folder = source / f"class-{number % 2}"
        folder.mkdir(exist_ok=True)
        (folder / f"{number}.jpg").write_bytes(jpeg(number) if number else b"no picture")


def _parquet(source: Path) -> None:
    pictures = [jpeg(number) if number else b"no picture" for number in range(6)]
    for name in ("a", "b"):
        parquet_file(source / f"{name}.parquet", pa.table({"image": pictures, "key": list("uvwxyz")}), rows=4)


def _scan(source: Path, run: Path, executor: str, *options: object) -> None:
    assert privsieve("scan", source, "--run", run, "--engine", "canned", "--executor", executor, *options) == 0


def _results(run: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in (run / "scores").iterdir()}


@pytest.mark.parametrize("make", [_webdataset, _tree, _parquet])
@pytest.mark.parametrize("options", [(), ("--sample", 4, "--seed", 3)], ids=["all", "sample"])
def test_results_are_equal_byte_by_byte(tmp_path: Path, make: object, options: tuple[object, ...]) -> None:
    source = tmp_path / "corpus"
    source.mkdir()
    assert callable(make)
    make(source)
    for executor in EXECUTORS:
        _scan(source, tmp_path / executor, executor, *options)
    assert _results(tmp_path / "ray") == _results(tmp_path / "inline")
    _scan(source, tmp_path / "two", "inline", "--processes", 2, *options)
    assert _results(tmp_path / "two") == _results(tmp_path / "inline")
    assert (tmp_path / "ray" / "run.json").read_bytes() == (tmp_path / "inline" / "run.json").read_bytes()


@pytest.mark.parametrize(("begins", "finishes"), [EXECUTORS, EXECUTORS[::-1]])
def test_a_run_that_one_began_is_finished_by_the_other(
    corpus: Path, tmp_path: Path, begins: str, finishes: str
) -> None:
    _scan(corpus, tmp_path / "whole", begins)
    shutil.copytree(tmp_path / "whole", tmp_path / "run")
    min((tmp_path / "run" / "scores").iterdir()).unlink()
    _scan(corpus, tmp_path / "run", finishes)
    assert _results(tmp_path / "run") == _results(tmp_path / "whole")
