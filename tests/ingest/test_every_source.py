"""Every reader x every kind of source: nothing is lost, nothing comes twice."""

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pyarrow as pa
import pytest

from ingest import sample as sample_module
from ingest.formats import open_source, parquet
from ingest.sample import Slice
from tests.ingest.made import corpus, jpeg, parquet_file, samples_of, slices_of, tar_bytes
from tests.making import Patch

NUM_SHARDS, PER_SHARD = 3, 11
PICTURES = [[jpeg(20 * shard + n) for n in range(PER_SHARD)] for shard in range(NUM_SHARDS)]
SUFFIXES = {"webdataset": ".tar", "parquet": ".parquet"}


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: Patch) -> None:
    for module in (sample_module, parquet):
        monkeypatch.setattr(module, "MAX_SAMPLES", 4)


@pytest.fixture
def memory_url() -> Iterator[str]:
    """A folder on another file system."""
    url = f"memory://{uuid.uuid4().hex}"
    yield url
    fsspec.filesystem("memory").rm(url, recursive=True)


def corpora(tmp_path: Path, memory_url: str, format_name: str) -> tuple[str, str]:
    """The same corpus on this machine and on another file system."""
    folder = corpus(tmp_path / "corpus", format_name, PICTURES)
    fsspec.filesystem("memory").put(f"{folder}/", f"{memory_url}/", recursive=True)
    return str(folder), memory_url


def check(url: str, format_name: str, num_shards: int) -> None:
    source = open_source(url, None, None)
    assert source.format == format_name
    assert len(source.shards) == num_shards
    assert list(source.shards) == sorted(source.shards)
    for shard, name in enumerate(source.shards):
        all_slices = list(source.slices(name))
        assert [slice_.number for slice_ in all_slices] == list(range(len(all_slices)))
        assert [slice_.is_last for slice_ in all_slices] == [False] * (len(all_slices) - 1) + [True]
        assert all(1 <= len(slice_.locators) <= 4 for slice_ in all_slices)
        assert all(Slice.from_json(slice_.to_json()) == slice_ for slice_ in all_slices)
        samples = [s for slice_ in all_slices for s in source.read(slice_)]
        assert [s.index for s in samples] == list(range(PER_SHARD))
        assert [s.key.removesuffix(".jpg") for s in samples] == [f"{n:03d}" for n in range(PER_SHARD)]
        assert [s.encoded for s in samples] == PICTURES[shard]
        assert {s.shard for s in samples} == {name}
        assert {s.fault for s in samples} == {None}
        assert list(source.slices(name)) == all_slices, "the same input gives the same slices"


@pytest.mark.parametrize("format_name", ["webdataset", "tree", "parquet"])
def test_a_folder_is_read_whole_and_once(tmp_path: Path, memory_url: str, format_name: str) -> None:
    for folder in corpora(tmp_path, memory_url, format_name):
        check(folder, format_name, NUM_SHARDS)


@pytest.mark.parametrize("format_name", SUFFIXES)
@pytest.mark.parametrize(
    ("pattern", "num_shards"), [("00000", 1), ("*", 3), ("0000[01]", 2), ("{00000..00002}", 3), ("{00000,00001}", 2)]
)
def test_a_file_a_glob_and_a_brace_range(
    tmp_path: Path, memory_url: str, format_name: str, pattern: str, num_shards: int
) -> None:
    for folder in corpora(tmp_path, memory_url, format_name):
        check(f"{folder}/{pattern}{SUFFIXES[format_name]}", format_name, num_shards)


def test_slices_end_at_the_byte_limit_with_one_sample_at_least(monkeypatch: Patch) -> None:
    monkeypatch.setattr(sample_module, "MAX_BYTES", 100)
    sizes = [60, 40, 1, 500, 50, 50, 1]
    found = list(sample_module.cut("a", [({"index": i}, size) for i, size in enumerate(sizes)]))
    assert [[at["index"] for at in slice_.locators] for slice_ in found] == [[0, 1], [2], [3], [4, 5], [6]]
    assert [slice_.number for slice_ in found] == [0, 1, 2, 3, 4]
    assert [slice_.is_last for slice_ in found] == [False, False, False, False, True]


def test_parquet_slices_keep_to_the_byte_limit(tmp_path: Path, monkeypatch: Patch) -> None:
    table = pa.table({"image": [os.urandom(10_000) for _ in range(6)]})
    parquet_file(tmp_path / "a.parquet", table, rows=6)
    monkeypatch.setattr(parquet, "MAX_BYTES", 25_000)
    source = open_source(str(tmp_path / "a.parquet"), None, None)
    assert [len(slice_.locators) for slice_ in slices_of(source)] == [2, 2, 2]
    monkeypatch.setattr(parquet, "MAX_BYTES", 10)
    assert [len(slice_.locators) for slice_ in slices_of(source)] == [1] * 6


def test_an_empty_shard_leaves_one_empty_slice(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(tar_bytes([]))
    parquet_file(tmp_path / "c.parquet", pa.table({"image": pa.array([], pa.binary())}))
    for name in ("a.tar", "c.parquet"):
        assert slices_of(open_source(str(tmp_path / name), None, None)) == [Slice(name, 0, True, [])]


def test_a_file_whose_own_name_looks_like_a_pattern(tmp_path: Path) -> None:
    for name in ("faces[1].tar", "faces{2}.tar"):
        (tmp_path / name).write_bytes(tar_bytes([("a.jpg", jpeg(1))]))
        assert [s.key for s in samples_of(open_source(str(tmp_path / name), None, None))] == ["a"]
