"""Shards that were replaced by others of the same size and time, as `cp -p`, `rsync -t` and `tar -x` leave them."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.formats import open_source
from ingest.storage.place import place
from jobs.scanning.inline import scan_slices
from jobs.scanning.slice_tasks import ScanSettings
from scoring.assessment import EngineOptions
from scoring.runs.ledger import Ledger
from tests.ingest.made import jpeg, parquet_file
from tests.jobs.in_process import scan_in_process
from tests.jobs.made import compact_run, privsieve, tar
from tests.making import Capture, Patch
from tests.records import scanned_record

NUM_IMAGES = 8

DROP_ALL = (
    "name: drop-all\ndefault: drop\nquarantined: drop\n"
    "rules:\n  - {name: all, when: 'true', then: drop, reason: all go}\n"
)


def _picture(first_shade: int, number: int) -> bytes:
    """All have the same size."""
    return jpeg(first_shade + number % 100).ljust(800, b"\0")


def _tar(folder: Path, first_shade: int) -> None:
    tar(folder / "a.tar", {f"{n:05d}.jpg": _picture(first_shade, n) for n in range(NUM_IMAGES)})


def _tree(folder: Path, first_shade: int) -> None:
    (folder / "a").mkdir()
    for n in range(NUM_IMAGES):
        (folder / "a" / f"{n:05d}.jpg").write_bytes(_picture(first_shade, n))


def _parquet(folder: Path, first_shade: int) -> None:
    pictures = pa.table({"image": [_picture(first_shade, n) for n in range(NUM_IMAGES)]})
    pq.write_table(pictures, folder / "a.parquet", row_group_size=2, compression="none", use_dictionary=False)


LAYOUTS = pytest.mark.parametrize("make", [_tar, _tree, _parquet])
Make = Callable[[Path, int], None]


def _replace(source: Path, make: Make) -> None:
    """Other pictures in files of the same names, sizes and times."""
    other = source.with_name("other")
    other.mkdir()
    make(other, 120)
    for path in sorted(path for path in source.rglob("*") if path.is_file()):
        new, stat = other / path.relative_to(source), path.stat()
        assert new.stat().st_size == stat.st_size
        shutil.copy(new, path)
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    return folder


@pytest.fixture
def small_slices(monkeypatch: Patch) -> None:
    """A shard has two of them."""
    monkeypatch.setattr("ingest.sample.MAX_SAMPLES", 4)


@pytest.mark.usefixtures("small_slices")
@LAYOUTS
def test_a_shard_replaced_while_its_scan_was_interrupted_is_reported(
    make: Make, source: Path, tmp_path: Path, capsys: Capture
) -> None:
    make(source, 0)
    command = ("scan", source, "--run", tmp_path / "run", "--engine", "canned", "--executor", "inline")
    assert privsieve(*command) == 0
    next((tmp_path / "run" / "scores").glob("*-last.parquet")).unlink()
    _replace(source, make)
    assert privsieve(*command) == 1
    assert " changed between two scans of this run (1 such shard)" in capsys.readouterr().err


@pytest.mark.parametrize("is_compacted", [False, True])
def test_a_finished_shard_that_was_replaced_is_reported_by_the_next_scan(
    is_compacted: bool, source: Path, tmp_path: Path, capsys: Capture
) -> None:
    _tar(source, 0)
    command = ("scan", source, "--run", tmp_path / "run", "--engine", "canned", "--executor", "inline")
    assert privsieve(*command) == 0
    if is_compacted:
        compact_run(tmp_path / "run")
    assert privsieve(*command) == 0
    _replace(source, _tar)
    assert privsieve(*command) == 1
    assert "privsieve: a.tar changed between two scans of this run" in capsys.readouterr().err


@pytest.mark.usefixtures("small_slices")
def test_a_shard_replaced_while_it_is_scanned_gets_no_further_rows(source: Path, tmp_path: Path) -> None:
    _tar(source, 0)
    run = tmp_path / "run"
    run.mkdir()
    corpus = open_source(str(source), None, None)
    settings = ScanSettings(corpus, place(str(run)), scanned_record(), EngineOptions(), "code")
    slices = scan_slices(settings, list(corpus.shards), None, Ledger({}, {}))
    assert next(slices).failure == ""
    _replace(source, _tar)
    assert [found.failure for found in slices] == ["a.tar changed while it was scanned"]
    assert [path.name.rpartition(".0")[2] for path in (run / "scores").iterdir()] == ["0000.parquet"]


@pytest.mark.parametrize("is_compacted", [False, True])
@LAYOUTS
def test_a_filter_that_drops_everything_reports_a_replaced_shard_too(
    make: Make, is_compacted: bool, source: Path, tmp_path: Path, capsys: Capture
) -> None:
    """No copied picture can show it."""
    make(source, 0)
    run, policy = tmp_path / "run", tmp_path / "policy.yaml"
    policy.write_text(DROP_ALL)
    scan_in_process(source, run)
    if is_compacted:
        compact_run(run)
    assert privsieve("filter", run, "--policy", policy, "--out", tmp_path / "before") == 0
    _replace(source, make)
    capsys.readouterr()
    assert privsieve("filter", run, "--policy", policy, "--out", tmp_path / "after") == 1
    assert "has changed since it was scanned: its content was replaced; nothing is released" in capsys.readouterr().err
    assert not (tmp_path / "after" / "release.json").exists()


def test_a_source_restored_from_a_copy_with_new_times_is_still_released(source: Path, tmp_path: Path) -> None:
    _tar(source, 0)
    run, policy = tmp_path / "run", tmp_path / "policy.yaml"
    policy.write_text(DROP_ALL)
    scan_in_process(source, run)
    os.utime(source / "a.tar", (1, 1))
    assert privsieve("filter", run, "--policy", policy, "--out", tmp_path / "release") == 0


def test_blocks_of_a_file_are_few_and_reach_from_its_first_byte_to_its_last(tmp_path: Path) -> None:
    file = tmp_path / "large"
    file.touch()
    os.truncate(file, 5 * 10**9)
    before = place(str(file)).blocks_sha256()
    for offset in (0, 5 * 10**9 - 1):
        with file.open("r+b") as stream:
            stream.seek(offset)
            stream.write(b"\x01")
        after = place(str(file)).blocks_sha256()
        assert after != before
        before = after


def test_every_byte_of_a_small_file_counts(tmp_path: Path) -> None:
    parquet_file(tmp_path / "small", pa.table({"image": [jpeg(1)]}))
    file, content = place(str(tmp_path / "small")), (tmp_path / "small").read_bytes()
    assert len(content) < 8_192
    hashes = {file.blocks_sha256()}
    for offset in range(0, len(content), 7):
        (tmp_path / "small").write_bytes(content[:offset] + bytes([content[offset] ^ 1]) + content[offset + 1 :])
        hashes.add(file.blocks_sha256())
    assert len(hashes) == 1 + len(range(0, len(content), 7))


def test_blocks_are_read_from_a_store_that_gives_no_hash_of_its_files() -> None:
    where = place("memory://replaced/a.tar")
    where.write(bytes(100_000))
    before = where.blocks_sha256()
    where.write(b"\x01" * 100_000)
    assert before != where.blocks_sha256() != ""
    where.remove()


def test_a_folder_with_pipes_links_and_closed_files_has_blocks(tmp_path: Path) -> None:
    (tmp_path / "picture.jpg").write_bytes(jpeg(1))
    os.mkfifo(tmp_path / "pipe.jpg")
    (tmp_path / "nowhere.jpg").symlink_to("gone.jpg")
    (tmp_path / "loop.jpg").symlink_to("loop.jpg")
    (tmp_path / "system.jpg").symlink_to("/proc/kmsg")
    source = open_source(str(tmp_path), "tree", None)
    before = source.fingerprint(".")
    assert source.fingerprint(".") == before
    (tmp_path / "picture.jpg").write_bytes(jpeg(2))
    assert source.blocks_sha256(".") != before.split()[1]
