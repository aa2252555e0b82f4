"""The same corpus on Ray and in one process: the same files, whichever begins and whichever finishes."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from tests.ingest.made import jpeg, parquet_file
from tests.jobs.made import privsieve, shard

pytestmark = pytest.mark.ray


def _webdataset(source: Path) -> None:
    shard(source / "00000.tar", 0, 20)
    shard(source / "00001.tar", 20, 15)


def _parquet(source: Path) -> None:
    pictures = [jpeg(number) if number else b"no picture" for number in range(6)]
    for name in ("a", "b"):
        parquet_file(source / f"{name}.parquet", pa.table({"image": pictures, "key": list("uvwxyz")}), rows=4)


def _scan(source: Path, run: Path, executor: str, *options: object) -> None:
    assert privsieve("scan", source, "--run", run, "--engine", "canned", "--executor", executor, *options) == 0


def _results(run: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in (run / "scores").iterdir()}


SAMPLE = ("--sample", 4, "--seed", 3)
"""It is drawn before an executor begins, so one format is scanned whole and the other gives a sample."""


@pytest.mark.parametrize(("make", "options"), [(_webdataset, ()), (_parquet, SAMPLE)])
def test_results_are_equal_byte_by_byte_also_where_one_finishes_what_the_other_began(
    tmp_path: Path, make: Callable[[Path], None], options: tuple[object, ...]
) -> None:
    source = tmp_path / "corpus"
    source.mkdir()
    make(source)
    inline, on_ray, two = (tmp_path / name for name in ("inline", "ray", "two"))
    _scan(source, inline, "inline", *options)
    _scan(source, two, "inline", "--processes", 2, *options)
    assert _results(two) == _results(inline)
    if options:
        shutil.copytree(inline, on_ray)
        min((on_ray / "scores").iterdir()).unlink()
    _scan(source, on_ray, "ray", *options, *(() if options else ("--num-engines", 2)))
    assert _results(on_ray) == _results(inline)
    assert (on_ray / "run.json").read_bytes() == (inline / "run.json").read_bytes()
    min((on_ray / "scores").iterdir()).unlink()
    _scan(source, on_ray, "inline", *options)
    assert _results(on_ray) == _results(inline)
