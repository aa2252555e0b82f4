"""Numbers of pictures that img2dataset left beside its tars: shown before a tar is read, and never believed."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.formats import open_source, stated_counts
from jobs.planning.planning import run_plan
from jobs.runtime.progress import on_terminal
from jobs.scanning.request import ScanRequest, ScanResources
from jobs.scanning.run import run_scan
from tests.jobs.made import privsieve, rows, shard
from tests.making import Capture, Patch


def corpus(folder: Path, num_shards: int = 3, of_each: int = 4) -> Path:
    (folder / "shards").mkdir()
    for number in range(num_shards):
        shard(folder / "shards" / f"{number:05d}.tar", 100 * number, of_each)
    return folder / "shards"


def stats(shards: Path, number: int, successes: object) -> None:
    (shards / f"{number:05d}_stats.json").write_text(json.dumps({"count": 9, "successes": successes}))


def test_counts_come_from_the_stats_and_from_tables_with_a_status(tmp_path: Path) -> None:
    shards = corpus(tmp_path)
    stats(shards, 0, 4)
    status = ["success"] * 3 + ["failed_to_download"] * 2
    pq.write_table(pa.table({"key": ["k"] * 5, "status": status}), shards / "00002.parquet")
    found = stated_counts(open_source(str(shards), None, None))
    assert (dict(found.by_shard), found.num_shards) == ({"00000.tar": 4, "00002.tar": 3}, 3)
    assert found.num_images == 10  # 7 in two of three shards; rounded


@pytest.mark.parametrize("content", [b"", b"[1]", b'{"successes": "4"}', b'{"successes": -1}', b"[" * 10**5, b"\xff"])
def test_a_damaged_file_beside_a_tar_states_nothing(tmp_path: Path, content: bytes) -> None:
    shards = corpus(tmp_path, 1)
    (shards / "00000_stats.json").write_bytes(content)
    (shards / "00000.parquet").write_bytes(content)
    assert stated_counts(open_source(str(shards), "webdataset", None)).num_images is None


def test_a_dry_run_says_how_many_images_are_stated(tmp_path: Path, capfd: Capture) -> None:
    shards = corpus(tmp_path)
    dry_run = ["scan", shards, "--run", tmp_path / "run", "--engine", "canned", "--dry-run"]
    assert privsieve(*dry_run) == 0
    assert "images     in 3 shards; how many is known once they are read" in capfd.readouterr().out
    for number in range(3):
        stats(shards, number, 5_000)
    assert privsieve(*dry_run) == 0
    assert "images     15,000 in 3 shards, as stated next to 3 of them (not counted)" in capfd.readouterr().out


def test_a_plan_takes_stated_numbers_only_if_they_are_right_where_it_looks(tmp_path: Path, monkeypatch: Patch) -> None:
    shards = corpus(tmp_path, 20, 2)
    monkeypatch.setattr("jobs.planning.measuring.SCAN_S", 0.0)
    monkeypatch.setenv("PRIVSIEVE_DRILL", str(tmp_path / "drill.json"))
    (tmp_path / "drill.json").write_text('{"*": 0.05}')  # so slow that the plan ends the scan
    for stated, origin in (
        (2, "stated next to them, and right for 16 of them"),
        (3, "from 16 of the shards, at random"),
    ):
        for number in range(20):
            stats(shards, number, stated)
        request = ScanRequest(str(shards), str(tmp_path / f"run-{stated}"), engine="canned")
        found = run_plan(request, ScanResources(executor="inline"))
        assert (found.images_origin, found.images.value) == (origin, 40)


@pytest.mark.slow
def test_wrong_counts_change_no_row_and_are_said(tmp_path: Path, capfd: Capture) -> None:
    shards = corpus(tmp_path)

    def scan(name: str) -> str:
        request = ScanRequest(str(shards), str(tmp_path / name), engine="canned")
        run_scan(request, ScanResources(executor="inline"), feedback=on_terminal(quiet=False))
        return capfd.readouterr().err

    assert "stated" not in scan("without")
    for number, successes in enumerate((4, 7, 4)):
        stats(shards, number, successes)
    wrong = "00001.tar holds 4 pictures, and 7 are stated there (1 such shard of 3 compared); the number read is used"
    assert wrong in scan("with")
    assert "stated" not in scan("with")  # nothing was left to look at
    assert [row["sha256"] for row in rows(tmp_path / "with")] == [row["sha256"] for row in rows(tmp_path / "without")]


def test_the_difference_names_the_first_shard_and_counts_the_others(tmp_path: Path) -> None:
    shards = corpus(tmp_path)
    for number, successes in enumerate((4, 7, 5)):
        stats(shards, number, successes)
    found = stated_counts(open_source(str(shards), None, None))
    assert found.difference({"00000.tar": 4}) is None
    assert found.difference({"00000.tar": 4, "00001.tar": 4, "00002.tar": 4}) == (
        "00001.tar holds 4 pictures, and 7 are stated there (2 such shards of 3 compared); the number read is used"
    )
