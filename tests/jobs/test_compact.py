"""A compacted run holds the same rows, whatever happens on the way; a scan compacts at its end."""

import io
import shutil
from contextlib import suppress
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.errors import IncompleteError, RunError, StorageError
from ingest.formats import open_source
from ingest.storage.place import Place, place
from reports.run import warehouse
from reports.run.warehouse import open_warehouse, setup_statements
from scoring.runs import MANIFEST
from scoring.runs.lease import Lease
from scoring.runs.ledger import finished, has_result, result_name
from scoring.runs.results import RowRange, RunListing, listing, manifest, results
from scoring.runs.rows import rows_at
from scoring.table import IMAGE_SCHEMA, SCHEMA
from tests.jobs.made import SHARDS, _rows, compact_run, made_run, privsieve, shard
from tests.jobs.releases import stopped_at
from tests.making import Capture, Patch
from tests.records import score_files, write_result


def _all(run: Path) -> pa.Table:
    tables = [pq.read_table(io.BytesIO(file.read())).cast(SCHEMA) for file in score_files(place(str(run)))]
    return pa.concat_tables(tables).combine_chunks()


def _seen(run: Path) -> list[tuple[object, ...]]:
    """What the views say: nothing twice, nothing missing."""
    asked = "SELECT count(*), count(DISTINCT (shard, \"index\")), count(*) FILTER (WHERE reason = 'empty') FROM images"
    return list(open_warehouse(str(run)).select(asked)[1])


@pytest.mark.slow
def test_the_same_rows_sorted_in_few_files(tmp_path: Path, capsys: Capture) -> None:
    run = made_run(tmp_path, SHARDS)
    before = _all(run).sort_by([("shard", "ascending"), ("index", "ascending")])
    assert privsieve("report", run, "--format", "json") == 0
    report = capsys.readouterr().out
    compact_run(run, 100)
    assert _all(run).equals(before)  # in the order of shard and index as they lie
    compact = sorted((run / "compact").glob("0*"))
    assert [path.name[:6] for path in compact] == ["00000-", "00001-", "00002-"]
    assert [f.num_rows for f in pq.read_table(compact[0]).to_batches()] == [98]
    assert list((run / "scores").iterdir()) == []
    assert privsieve("report", run, "--format", "json") == 0
    assert capsys.readouterr().out == report
    described = manifest(place(str(run)))
    assert described is not None
    assert (described.num_rows, [file.num_rows for file in described.files]) == (225, [98, 95, 32])
    footer = pq.read_metadata(compact[0]).metadata
    assert footer[b"privsieve.num_rows"] == b"98"
    assert footer[b"privsieve.reasons"] == b"empty=9"


def test_a_later_scan_sees_that_all_is_done_and_a_shard_finds_its_rows(tmp_path: Path) -> None:
    run = made_run(tmp_path, SHARDS)
    where = place(str(run))
    names = open_source(str(tmp_path / "corpus"), None, None).shards
    before = {name: rows_at(where, results(where).of(name)) for name in names}
    compact_run(run, 70)
    known = results(where)
    assert all(finished(name, known.ledger) for name in names)
    assert has_result("00004.tar", 4, True, known.ledger)
    assert not has_result("00004.tar", 4, False, known.ledger)
    assert not finished("00005.tar", known.ledger)
    second = sorted((run / "compact").iterdir())[1].name
    assert known.of("00003.tar") == [RowRange(f"compact/{second}", 0, 35)]
    assert len(known.of("00004.tar")) == 3
    assert known.of("00002.tar") == []
    for name in names:
        assert rows_at(where, known.of(name)).equals(before[name])
        assert rows_at(where, known.of(name), ["index"])["index"].to_pylist() == list(range(len(before[name])))


@pytest.mark.parametrize("rows_per_file", [1000, 30])
def test_rows_that_come_twice_are_reported_and_nothing_is_removed(tmp_path: Path, rows_per_file: int) -> None:
    run = made_run(tmp_path, SHARDS)
    write_result(run, "00003.tar", 1, True, _rows("00003.tar", 29, 5))
    slices = sorted((run / "scores").iterdir())
    with pytest.raises(RunError, match=r"does not hold the rows of its slice of 00003.tar exactly once, in order"):
        compact_run(run, rows_per_file)
    assert sorted((run / "scores").iterdir()) == slices
    assert not (run / MANIFEST).exists()


def test_a_damaged_slice_is_reported(tmp_path: Path) -> None:
    run = made_run(tmp_path, SHARDS)
    (run / "scores" / result_name("00001.tar", 0, True)).write_bytes(b"PAR1 but no more")
    with pytest.raises(RunError, match="is damaged; delete it and run the same scan again"):
        compact_run(run)
    assert not (run / MANIFEST).exists()


def test_a_reader_of_the_small_files_learns_that_they_are_gone(tmp_path: Path) -> None:
    run = made_run(tmp_path, SHARDS)
    opened = open_warehouse(str(run))
    assert list(opened.select("SELECT count(*) FROM images")[1]) == [(225,)]
    compact_run(run)
    with pytest.raises(RunError, match="was compacted meanwhile; ask again"):
        opened.select("SELECT count(*) FROM images")
    assert _seen(run) == [(225, 225, 21)]


def test_a_reader_that_listed_the_small_files_before_they_went_opens_the_large_ones(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    run = made_run(tmp_path, SHARDS)

    def listed_and_compacted(root: Place) -> RunListing:
        monkeypatch.undo()
        before = listing(root)
        compact_run(run)
        return before

    monkeypatch.setattr(warehouse, "listing", listed_and_compacted)
    assert _seen(run) == [(225, 225, 21)]


def test_the_hash_of_the_rows_stays(tmp_path: Path) -> None:
    """An audit of the run is of its rows, however they lie."""
    run = made_run(tmp_path, SHARDS)
    before = open_warehouse(str(run)).checked.rows_sha256
    compact_run(run, 30)
    assert open_warehouse(str(run)).checked.rows_sha256 == before


def test_odd_folder_names(tmp_path: Path) -> None:
    for name in ("it's [1] run*?", "date=today", "1"):
        (tmp_path / name).mkdir()
        made_run(tmp_path / name, ((5,), (6,)))
    for name in ("it's [1] run*?", "date=today"):
        run = tmp_path / name / "run"
        compact_run(run)
        assert open_warehouse(str(run)).select("FROM images")[0] == IMAGE_SCHEMA.names
        assert _seen(run) == [(11, 11, 0)]
    assert len(list((tmp_path / "1" / "run" / "scores").iterdir())) == 2


def test_a_run_behind_a_url(tmp_path: Path) -> None:
    memory = fsspec.filesystem("memory")
    memory.put(str(made_run(tmp_path, SHARDS)), "/compact-test/run", recursive=True)
    try:
        compact_run("memory://compact-test/run")
        assert memory.find("/compact-test/run/scores") == []
        assert "memory://" in setup_statements("memory://compact-test/run")
        assert list(open_warehouse("memory://compact-test/run").select("SELECT count(*) FROM images")[1]) == [(225,)]
    finally:
        memory.rm("/compact-test", recursive=True)


# ---- stopped at any moment --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_wherever_it_stops_no_row_is_lost_or_doubled_and_the_next_scan_ends_it(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    whole, states = made_run(tmp_path, SHARDS), set[tuple[bool, bool]]()
    rows = _all(whole).sort_by([("shard", "ascending"), ("index", "ascending")])
    for number in range(2, 40, 2):
        run = shutil.copytree(whole, tmp_path / str(number))
        undo = stopped_at(monkeypatch, number)
        with suppress(StorageError):
            compact_run(run, 100)
            assert states == {(False, True), (True, True), (True, False)}
            return
        undo()
        states.add(((run / "compact").exists(), not (run / MANIFEST).exists()))
        assert _seen(run) == [(225, 225, 21)]
        compact_run(run, 100)
        assert [path.name[:6] for path in sorted((run / "compact").iterdir())] == [
            *("00000-", "00001-", "00002-", "shards")
        ]
        assert list((run / "scores").iterdir()) == []
        assert _all(run).equals(rows)
    raise AssertionError("it never came to its end")


@pytest.mark.parametrize("rows_per_file", [100, 70])
def test_one_that_was_taken_over_before_it_decides_changes_nothing(
    rows_per_file: int, tmp_path: Path, monkeypatch: Patch
) -> None:
    run, confirm = made_run(tmp_path, SHARDS), Lease.confirm
    rows = _all(run).sort_by([("shard", "ascending"), ("index", "ascending")])

    def taken_over(first: Lease) -> None:
        monkeypatch.setattr(Lease, "confirm", confirm)
        compact_run(run, rows_per_file)
        confirm(first)

    monkeypatch.setattr(Lease, "confirm", taken_over)
    with pytest.raises(IncompleteError, match="another command has taken this run over"):
        compact_run(run, 100)
    assert _all(run).equals(rows)
    assert _seen(run) == [(225, 225, 21)]


def test_nothing_is_removed_where_the_large_files_are_not_what_was_decided(tmp_path: Path) -> None:
    run = made_run(tmp_path, SHARDS)
    shutil.copytree(run / "scores", tmp_path / "before")
    compact_run(run, 100)
    shutil.copytree(tmp_path / "before", run / "scores", dirs_exist_ok=True)
    second = sorted((run / "compact").iterdir())[1]
    second.write_bytes(second.read_bytes()[:-1])
    slices = sorted((run / "scores").iterdir())
    with pytest.raises(RunError, match=f"{second} is not what compact.json says; nothing was removed"):
        compact_run(run)
    assert sorted((run / "scores").iterdir()) == slices


def test_where_the_rows_of_a_shard_lie_must_be_given_for_the_same_files(tmp_path: Path) -> None:
    run = made_run(tmp_path, SHARDS)
    shutil.copytree(run, tmp_path / "other")
    compact_run(run, 100)
    compact_run(tmp_path / "other", 70)
    [mine], [other] = (list((folder / "compact").glob("shards-*")) for folder in (run, tmp_path / "other"))
    shutil.copy(other, mine)
    with pytest.raises(RunError, match=r"does not fit the files that compact\.json names"):
        results(place(str(run)))


def test_slices_that_were_not_removed_yet_are_not_seen_twice(tmp_path: Path) -> None:
    run = made_run(tmp_path, SHARDS)
    shutil.copytree(run / "scores", tmp_path / "before")
    compact_run(run)
    for path in sorted((tmp_path / "before").iterdir())[5:]:
        shutil.copy(path, run / "scores")
    (run / "scores" / "notes.txt").write_text("not ours")
    assert _seen(run) == [(225, 225, 21)]
    assert len(score_files(place(str(run)))) == 1
    compact_run(run)
    assert [path.name for path in (run / "scores").iterdir()] == ["notes.txt"]
    assert _seen(run) == [(225, 225, 21)]


# ---- scans ------------------------------------------------------------------------------------------------------


def _scan(corpus: Path, run: Path) -> int:
    return privsieve("scan", corpus, "--run", run, "--engine", "canned", "--quiet")


def test_a_scan_compacts_at_its_end_and_takes_what_the_source_gains_later(
    tmp_path: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    monkeypatch.setattr("jobs.scanning.compacting.COMPACT_FROM", 2)
    corpus, run = tmp_path / "corpus", tmp_path / "run"
    corpus.mkdir()
    for number in range(2):
        shard(corpus / f"{number:05d}.tar", 20 * number, 20)
    assert _scan(corpus, run) == 0
    assert "40 images in 2 of 2 shards: 34 scored, 6 quarantined" in capsys.readouterr().out
    assert list((run / "scores").iterdir()) == []
    compacted = {path: path.stat().st_mtime_ns for path in (run / "compact").iterdir()}
    assert _scan(corpus, run) == 0
    assert "40 images in 2 of 2 shards: 34 scored, 6 quarantined" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in (run / "compact").iterdir()} == compacted
    shard(corpus / "00002.tar", 40, 10)  # one more: it stays as it is
    assert _scan(corpus, run) == 0
    assert "50 images in 3 of 3 shards" in capsys.readouterr().out
    assert len(list((run / "scores").iterdir())) == 1
    assert _seen(run) == [(50, 50, 0)]
    shard(corpus / "00000a.tar", 50, 10)  # two more, of which one sorts before others
    assert _scan(corpus, run) == 0
    assert list((run / "scores").iterdir()) == []
    assert _seen(run) == [(60, 60, 0)]
    assert len(score_files(place(str(run)))) == 2
    assert len(list((run / "compact").iterdir())) == 3
    known = results(place(str(run)))
    for name, keys in (("00000.tar", range(20)), ("00000a.tar", range(50, 60)), ("00002.tar", range(40, 50))):
        assert rows_at(place(str(run)), known.of(name))["key"].to_pylist() == [f"{n:09d}" for n in keys]
    assert privsieve("report", run, "--format", "json") == 0
    assert '"kind": "whole"' in capsys.readouterr().out


def test_filter_decides_the_same_on_a_compacted_run(scanned: Path, tmp_path: Path, capsys: Capture) -> None:
    run, policy = tmp_path / "run", Path("scoring/policies/strict.yaml")
    shutil.copytree(scanned, run)
    wanted = ("filter", run, "--policy", policy, "--dry-run", "--out", tmp_path / "out")
    assert privsieve(*wanted) == 0
    decided = capsys.readouterr().out
    compact_run(run)
    assert privsieve(*wanted) == 0
    assert capsys.readouterr().out == decided
    assert privsieve("status", run) == 0
    assert _seen(run) == [(35, 35, 0)]
