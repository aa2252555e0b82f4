"""A compacted run holds the same rows, whatever happens on the way."""

import io
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.errors import RunError
from ingest.formats import open_source
from ingest.storage.place import Place, place
from reports.run import warehouse
from reports.run.warehouse import open_warehouse, setup_statements
from scoring.runs import MANIFEST
from scoring.runs.ledger import finished, has_result, result_name
from scoring.runs.results import RowRange, RunListing, is_compacted, listing, manifest, results
from scoring.runs.rows import rows_at
from scoring.table import IMAGE_SCHEMA, SCHEMA
from tests.jobs.made import SHARDS, _rows, made_run, privsieve, tar
from tests.records import score_files, write_result


def _all(run: Path) -> pa.Table:
    tables = [pq.read_table(io.BytesIO(file.read())).cast(SCHEMA) for file in score_files(place(str(run)))]
    return pa.concat_tables(tables).combine_chunks()


def _seen(run: Path) -> list[tuple[object, ...]]:
    """What the views say: nothing twice, nothing missing."""
    asked = "SELECT count(*), count(DISTINCT (shard, \"index\")), count(*) FILTER (WHERE reason = 'empty') FROM images"
    return list(open_warehouse(str(run)).select(asked)[1])


@pytest.mark.slow
def test_the_same_rows_sorted_in_few_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = made_run(tmp_path, SHARDS)
    before = _all(run).sort_by([("shard", "ascending"), ("index", "ascending")])
    assert privsieve("report", run, "--format", "json") == 0
    report = capsys.readouterr().out
    assert privsieve("compact", run, "--rows-per-file", "100") == 0
    assert re.match(
        r"225 rows of 5 shards in 3 files \([1-9][0-9.]* kB\), from \d+ small ones", capsys.readouterr().out
    )
    assert _all(run).equals(before)  # in the order of shard and index as they lie
    compact = sorted((run / "compact").iterdir())
    assert [path.name[:6] for path in compact] == ["00000-", "00001-", "00002-"]
    assert [f.num_rows for f in pq.read_table(compact[0]).to_batches()] == [98]
    assert list((run / "scores").iterdir()) == []
    assert privsieve("report", run, "--format", "json") == 0
    assert capsys.readouterr().out == report
    described = manifest(place(str(run)))
    assert described is not None
    assert (described.num_shards, described.num_slices, described.num_rows) == (5, 12, 225)
    assert [file.num_rows for file in described.files] == [98, 95, 32]
    footer = pq.read_metadata(compact[0]).metadata
    assert footer[b"privsieve.num_rows"] == b"98"
    assert footer[b"privsieve.reasons"] == b"empty=9"


def test_a_second_time_says_so_and_does_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = made_run(tmp_path, SHARDS)
    assert privsieve("compact", run) == 0
    before = {path: path.stat().st_mtime_ns for path in sorted(run.rglob("*.*"))}
    capsys.readouterr()
    assert privsieve("compact", run) == 0
    assert "is compacted already, nothing to do: 225 rows of 5 shards in 1 file" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in sorted(run.rglob("*.*"))} == before


def test_a_later_scan_sees_that_all_is_done_and_a_shard_finds_its_rows(tmp_path: Path) -> None:
    run = made_run(tmp_path, SHARDS)
    where = place(str(run))
    shards = open_source(str(tmp_path / "corpus"), None, None).shards
    before = {shard: rows_at(where, results(where).of(shard)) for shard in shards}
    assert privsieve("compact", run, "--rows-per-file", "70") == 0
    known = results(where)
    assert all(finished(shard, known.ledger) for shard in shards)
    assert has_result("00004.tar", 4, True, known.ledger)
    assert not has_result("00004.tar", 4, False, known.ledger)
    assert not finished("00005.tar", known.ledger)
    second = sorted((run / "compact").iterdir())[1].name
    assert known.of("00003.tar") == [RowRange(f"compact/{second}", 0, 35)]
    assert len(known.of("00004.tar")) == 3
    assert known.of("00002.tar") == []
    for shard in shards:
        assert rows_at(where, known.of(shard)).equals(before[shard])
        assert rows_at(where, known.of(shard), ["index"])["index"].to_pylist() == list(range(len(before[shard])))


def test_an_unfinished_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = made_run(tmp_path, SHARDS)
    (run / "scores" / result_name("00003.tar", 1, True)).unlink()
    before = sorted(run.rglob("*"))
    assert privsieve("compact", run) == 2
    error = capsys.readouterr().err
    assert "is not finished: 1 shard has images without a row, 00003.tar first" in error
    assert "run the same scan again, then compact" in error
    assert len(error.splitlines()) == 1
    assert sorted(run.rglob("*")) == before


def test_a_shard_that_the_source_has_no_longer_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = made_run(tmp_path, SHARDS)
    (tmp_path / "corpus" / "00004.tar").unlink()
    assert privsieve("compact", run) == 2
    assert "has results of 1 shard that" in capsys.readouterr().err
    assert _seen(run) == [(225, 225, 21)]


@pytest.mark.parametrize(("chosen", "code"), [({"sample": 60, "seed": 0}, 0), ({"sample": 61, "seed": 0}, 2)])
def test_a_sample_is_finished_when_it_has_all_its_rows(
    tmp_path: Path, chosen: dict[str, int], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    run = made_run(tmp_path, ((30,), (30,)), **chosen)
    tar(tmp_path / "corpus" / "00002.tar", {"a.jpg": b"not scanned"})
    assert privsieve("compact", run) == code
    assert is_compacted(place(str(run))) == (code == 0)
    if code:
        assert "60 of 61 chosen images have a row" in capsys.readouterr().err


def test_a_limit_above_the_corpus_is_finished_with_the_corpus(tmp_path: Path) -> None:
    run = made_run(tmp_path, ((30,), (30,)), limit=100)
    tar(tmp_path / "corpus" / "00002.tar", {"a.jpg": b"not scanned"})
    assert privsieve("compact", run) == 2
    (tmp_path / "corpus" / "00002.tar").unlink()
    assert privsieve("compact", run) == 0


def test_rows_that_come_twice_are_reported_and_nothing_is_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = made_run(tmp_path, SHARDS)
    write_result(run, "00003.tar", 1, True, _rows("00003.tar", 29, 5))
    slices = sorted((run / "scores").iterdir())
    assert privsieve("compact", run) == 2
    assert "exactly once, in order (00003.tar first); nothing was removed" in capsys.readouterr().err
    assert privsieve("compact", run, "--rows-per-file", "30") == 2
    assert "comes again in" in capsys.readouterr().err
    assert sorted((run / "scores").iterdir()) == slices
    assert not (run / MANIFEST).exists()


def test_a_damaged_slice_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = made_run(tmp_path, SHARDS)
    (run / "scores" / result_name("00001.tar", 0, True)).write_bytes(b"PAR1 but no more")
    assert privsieve("compact", run) == 2
    error = capsys.readouterr().err
    assert "is damaged; delete it and run the same scan again" in error
    assert len(error.splitlines()) == 1
    assert not (run / "compact").exists()


def test_a_reader_of_the_small_files_learns_that_they_are_gone(tmp_path: Path) -> None:
    run = made_run(tmp_path, SHARDS)
    opened = open_warehouse(str(run))
    assert list(opened.select("SELECT count(*) FROM images")[1]) == [(225,)]
    assert privsieve("compact", run) == 0
    with pytest.raises(RunError, match="was compacted meanwhile; ask again"):
        opened.select("SELECT count(*) FROM images")
    assert _seen(run) == [(225, 225, 21)]


def test_a_reader_that_listed_the_small_files_before_they_went_opens_the_large_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = made_run(tmp_path, SHARDS)

    def listed_and_compacted(root: Place) -> RunListing:
        monkeypatch.undo()
        before = listing(root)
        assert privsieve("compact", run) == 0
        return before

    monkeypatch.setattr(warehouse, "listing", listed_and_compacted)
    assert _seen(run) == [(225, 225, 21)]


def test_the_hash_of_the_rows_stays(tmp_path: Path) -> None:
    """An audit of the run is of its rows, however they lie."""
    run = made_run(tmp_path, SHARDS)
    before = open_warehouse(str(run)).checked.rows_sha256
    assert privsieve("compact", run, "--rows-per-file", "30") == 0
    assert open_warehouse(str(run)).checked.rows_sha256 == before


def test_odd_folder_names(tmp_path: Path) -> None:
    for name in ("it's [1] run*?", "date=today", "1"):
        (tmp_path / name).mkdir()
        made_run(tmp_path / name, ((5,), (6,)))
    for name in ("it's [1] run*?", "date=today"):
        run = tmp_path / name / "run"
        assert privsieve("compact", run) == 0
        assert open_warehouse(str(run)).select("FROM images")[0] == IMAGE_SCHEMA.names
        assert _seen(run) == [(11, 11, 0)]
    assert len(list((tmp_path / "1" / "run" / "scores").iterdir())) == 2


def test_a_run_behind_a_url(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    memory = fsspec.filesystem("memory")
    memory.put(str(made_run(tmp_path, SHARDS)), "/compact-test/run", recursive=True)
    try:
        assert privsieve("compact", "memory://compact-test/run") == 0
        assert memory.find("/compact-test/run/scores") == []
        assert "memory://" in setup_statements("memory://compact-test/run")
        assert list(open_warehouse("memory://compact-test/run").select("SELECT count(*) FROM images")[1]) == [(225,)]
        assert privsieve("compact", "memory://compact-test/run") == 0
        assert "nothing to do" in capsys.readouterr().out
    finally:
        memory.rm("/compact-test", recursive=True)


# ---- killed at any moment ---------------------------------------------------------------------------------------

NUM_SHARDS, SLICES, ROWS = 20, 3, 20
ROWS_PER_FILE = 120


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_run(tmp_path_factory.mktemp("large"), [(ROWS,) * SLICES] * NUM_SHARDS)


@pytest.fixture(scope="module")
def rows_of_large(large: Path) -> pa.Table:
    return _all(large).sort_by([("shard", "ascending"), ("index", "ascending")])


def _num_files(folder: Path) -> int:
    return len([p for p in folder.glob("*.parquet") if p.name[0].isdigit()])


@pytest.mark.slow
@pytest.mark.parametrize(
    "moment",
    [
        pytest.param(lambda run: (run / "compact").exists(), id="the first file is begun"),
        pytest.param(lambda run: _num_files(run / "compact") >= 3, id="some files are there"),
        pytest.param(lambda run: (run / "compact-shards.parquet").exists(), id="all files are there"),
        pytest.param(lambda run: (run / MANIFEST).exists(), id="slices are being removed"),
    ],
)
def test_killed_and_continued(
    large: Path, rows_of_large: pa.Table, tmp_path: Path, moment: Callable[[Path], bool]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(large, run)
    expected = [(NUM_SHARDS * SLICES * ROWS, NUM_SHARDS * SLICES * ROWS, NUM_SHARDS * SLICES * ROWS // 10)]
    command = [sys.executable, "-m", "jobs", "compact", str(run), "--rows-per-file", str(ROWS_PER_FILE)]
    working = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    deadline = time.monotonic() + 1500
    while not moment(run) and time.monotonic() < deadline:
        time.sleep(0.0005)
    working.send_signal(signal.SIGKILL)
    working.communicate()
    assert working.returncode in (-signal.SIGKILL, 0)  # 0: it was faster than the signal
    assert moment(run)
    assert _seen(run) == expected
    made = {path.name: path.stat().st_mtime_ns for path in (run / "compact").glob("[0-9]*.parquet")}
    assert privsieve("compact", run, "--rows-per-file", ROWS_PER_FILE) == 0
    assert _seen(run) == expected
    kept = {name: os.stat(run / "compact" / name).st_mtime_ns for name in made}
    assert kept == made  # what was finished is not done again
    assert sorted(path.name[:6] for path in (run / "compact").iterdir()) == [f"{n:05d}-" for n in range(10)]
    assert list((run / "scores").iterdir()) == []
    assert _all(run).equals(rows_of_large)


@pytest.mark.slow
@pytest.mark.parametrize("rows_per_file", [ROWS_PER_FILE, 180])
def test_a_second_one_takes_over_while_the_first_works(
    large: Path, rows_of_large: pa.Table, tmp_path: Path, rows_per_file: int
) -> None:
    run = tmp_path / "run"
    shutil.copytree(large, run)
    command = [sys.executable, "-m", "jobs", "compact", str(run), "--takeover", "--rows-per-file"]
    first = subprocess.Popen([*command, str(ROWS_PER_FILE)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    while first.poll() is None and _num_files(run / "compact") < 2:
        time.sleep(0.0005)
    assert privsieve(*command[3:], rows_per_file) == 0
    first.communicate(timeout=1500)
    assert _all(run).equals(rows_of_large)
    where = place(str(run))
    known = results(where)
    for n in range(NUM_SHARDS):
        assert set(rows_at(where, known.of(f"{n:05d}.tar"))["shard"].to_pylist()) == {f"{n:05d}.tar"}


def test_nothing_is_removed_where_the_large_files_are_not_what_was_decided(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = made_run(tmp_path, SHARDS)
    shutil.copytree(run / "scores", tmp_path / "before")
    assert privsieve("compact", run, "--rows-per-file", "100") == 0
    shutil.copytree(tmp_path / "before", run / "scores", dirs_exist_ok=True)
    second = sorted((run / "compact").iterdir())[1]
    second.write_bytes(second.read_bytes()[:-1])
    slices = sorted((run / "scores").iterdir())
    assert privsieve("compact", run) == 2
    error = capsys.readouterr().err
    assert f"{second} is not what compact.json says; nothing was removed; delete compact.json and" in error
    assert sorted((run / "scores").iterdir()) == slices
    (run / MANIFEST).unlink()
    (run / "compact" / "00007-of-another-attempt.parquet").write_bytes(b"")
    assert privsieve("compact", run, "--rows-per-file", "100") == 0
    assert _seen(run) == [(225, 225, 21)]
    assert len(list((run / "compact").iterdir())) == len(score_files(place(str(run)))) == 3
    assert list((run / "scores").iterdir()) == []


def test_where_the_rows_of_a_shard_lie_must_be_given_for_the_same_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = made_run(tmp_path, SHARDS)
    shutil.copytree(run, tmp_path / "other")
    assert privsieve("compact", run, "--rows-per-file", "100") == 0
    assert privsieve("compact", tmp_path / "other", "--rows-per-file", "70") == 0
    shutil.copy(tmp_path / "other" / "compact-shards.parquet", run)
    assert privsieve("compact", run) == 2
    assert "compact-shards.parquet does not fit the files that compact.json names" in capsys.readouterr().err


def test_slices_that_were_not_removed_yet_are_not_seen_twice(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = made_run(tmp_path, SHARDS)
    shutil.copytree(run / "scores", tmp_path / "before")
    assert privsieve("compact", run) == 0
    for path in sorted((tmp_path / "before").iterdir())[5:]:
        shutil.copy(path, run / "scores")
    (run / "scores" / "notes.txt").write_text("not ours")
    assert _seen(run) == [(225, 225, 21)]
    assert len(score_files(place(str(run)))) == 1
    capsys.readouterr()
    assert privsieve("compact", run) == 0
    assert (
        "was compacted: 225 rows of 5 shards in 1 file; the last 7 small files are removed" in capsys.readouterr().out
    )
    assert [path.name for path in (run / "scores").iterdir()] == ["notes.txt"]
    assert _seen(run) == [(225, 225, 21)]


# ---- the other verbs --------------------------------------------------------------------------------------------


def test_scan_status_and_filter_on_a_compacted_run(
    corpus: Path, scanned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, policy = tmp_path / "run", Path("scoring/policies/strict.yaml")
    shutil.copytree(scanned, run)
    wanted = ("filter", run, "--policy", policy, "--dry-run", "--out", tmp_path / "out")
    assert privsieve(*wanted) == 0
    decided = capsys.readouterr().out
    assert privsieve("compact", run) == 0
    capsys.readouterr()
    assert privsieve(*wanted) == 0
    assert capsys.readouterr().out == decided
    compacted = sorted(path for path in run.rglob("*") if path.is_file())
    assert privsieve("scan", corpus, "--run", run, "--engine", "canned", "--quiet") == 0
    assert "35 images in 2 of 2 shards: 30 scored, 5 quarantined (not_an_image 5)" in capsys.readouterr().out
    assert sorted(path for path in run.rglob("*") if path.is_file()) == compacted
    assert privsieve("status", run) == 0
    assert _seen(run) == [(35, 35, 0)]
