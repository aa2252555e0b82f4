"""A scan with a hash list: whatever file a listed picture is in, no engine sees it, and no release has it."""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from ingest.formats import open_source
from ingest.images.pdq import distances, hashes_of
from ingest.images.pixels import ImageLimits
from ingest.sample import Sample
from ingest.storage.place import place
from jobs.runtime.hash_list import hash_list_of
from jobs.scanning.batch import BatchScorer
from jobs.scanning.isolation import isolated_rows
from jobs.scanning.slice_tasks import ScanSettings
from privsieve import filter as release
from privsieve import scan
from scoring.assessment import EngineOptions, View
from scoring.engines.canned import CannedEngine
from tests.conftest import joined
from tests.hash_list.listed import CLEAR, LISTED, SECRET, SHOWING, UNKNOWN, pdq, picture, released, rows_of
from tests.jobs.made import privsieve
from tests.making import Capture
from tests.nasty import encoded
from tests.records import scanned_record

LISTED_ROW = {
    "key": "",
    "status": "quarantined",
    "reason": "listed",
    "error_message": "it is on the hash list of the scan",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plain", "pdq", "list"])
def test_no_release_has_a_file_that_shows_a_listed_picture_or_cannot_be_compared(
    runs: dict[str, Path], hash_list: Path, keep_all: Path, tmp_path: Path, capsys: Capture, name: str
) -> None:
    command = ("filter", runs[name], "--policy", keep_all, "--out", tmp_path / "out", "--hash-list", hash_list)
    assert privsieve(*command, "--quiet") == 0
    printed = capsys.readouterr()
    assert f"drop  {len(SHOWING):8}  (hash_list)" in printed.out
    assert f"drop  {len(UNKNOWN):8}  (not_compared)" in printed.out
    assert released(tmp_path / "out") == {f"clear-{one.replace('.', '-')}" for one in CLEAR}
    assert ("scan --pdq" in printed.err) is (name == "plain")
    decisions = pq.read_table(tmp_path / "out" / "not-for-publication/decisions.parquet").to_pylist()
    withheld = [one for one in decisions if one["rule"] in ("(hash_list)", "(not_compared)")]
    assert len(withheld) == len(SHOWING) + len(UNKNOWN)
    assert {(one["key"], one["sha256"], one["action"]) for one in withheld} == {("", None, "drop")}
    assert SECRET not in json.dumps(decisions)


def test_a_run_that_was_scanned_with_the_list_is_released_without_those_pictures_even_without_it(
    runs: dict[str, Path], keep_all: Path, tmp_path: Path
) -> None:
    result = release(runs["list"], keep_all, tmp_path / "out")
    assert result.counts.by_rule[("drop", "(hash_list)")] == len(SHOWING)
    assert result.counts.by_rule[("drop", "(not_compared)")] == len(UNKNOWN)
    assert released(tmp_path / "out") == {f"clear-{one.replace('.', '-')}" for one in CLEAR}


def test_a_row_of_a_listed_picture_says_nothing_but_where_it_is(runs: dict[str, Path]) -> None:
    rows = rows_of(runs["list"])
    listed = [row for row in rows if row["reason"] == "listed"]
    assert len(listed) == len(SHOWING)
    assert len(rows) == len(SHOWING) + len(CLEAR) + len(UNKNOWN)
    for row in listed:
        known = {name: value for name, value in row.items() if value is not None}
        assert known == LISTED_ROW | {"shard": "00000.tar", "index": row["index"], "stage": "full"}
    others = {row["key"]: row for row in rows if row["reason"] != "listed"}
    before = {row["key"]: row for row in rows_of(runs["pdq"])}
    assert all(others[key] == before[key] for key in others)
    assert json.loads((runs["list"] / "run.json").read_bytes())["pdq"] is True


def test_rows_have_hashes_of_all_that_a_file_shows_and_none_without_the_option(runs: dict[str, Path]) -> None:
    assert {row["pdq"] for row in rows_of(runs["plain"])} == {None}
    by_key = {row["key"]: row["pdq"] for row in rows_of(runs["pdq"])}
    assert [len(one) for one in by_key["clear-other-gif"]] == [64, 64]
    assert distances(hashes_of([pdq(picture(LISTED))]), hashes_of(by_key["secret-plain-png"]))[0, 0] <= 31
    assert by_key["unknown-long-gif"][-1] is None
    assert by_key["unknown-broken-png"] is None
    record = json.loads((runs["plain"] / "run.json").read_bytes())
    assert (record["pdq"], record["hash_list"]) == (False, None)


class Watching(CannedEngine):
    """The canned engine, which keeps what it was shown."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def assess(self, views: Sequence[View]) -> Any:
        self.seen += [view.sha256 for view in views]
        return super().assess(views)


def test_the_engine_never_sees_a_listed_picture(hash_list: Path, tmp_path: Path) -> None:
    wanted = {name: make() for name, make in {**SHOWING, "clear.png": CLEAR["other.png"]}.items()}
    by_file = encoded(picture(9), "PNG")
    text = f"{hash_list.read_text()}sha256 {hashlib.sha256(by_file).hexdigest()}\n"
    (tmp_path / "list.txt").write_text(text)
    engine = Watching()
    limits = ImageLimits(has_pdq=True)
    scorer = BatchScorer(engine, limits, 2, hash_list=hash_list_of(str(tmp_path / "list.txt")))
    encoded_files = [*wanted.values(), by_file]
    rows = scorer.rows([Sample("a", n, SECRET, SECRET, one, caption=SECRET) for n, one in enumerate(encoded_files)])
    assert engine.seen == [hashlib.sha256(wanted["clear.png"]).hexdigest()]
    assert rows["reason"].to_pylist() == ["listed"] * len(SHOWING) + [None, "listed"]
    assert rows["caption_kinds"].to_pylist() == [None] * len(SHOWING) + [[], None]


@pytest.mark.slow
def test_sha256_alone_needs_no_hashes_of_pixels(corpus: Path, tmp_path: Path, capsys: Capture) -> None:
    listed = hashlib.sha256(SHOWING["frames.gif"]()).hexdigest()
    (tmp_path / "list.txt").write_text(f"sha256 {listed}\n")
    command = ("scan", corpus, "--run", tmp_path / "run", "--engine", "canned", "--hash-list", tmp_path / "list.txt")
    assert privsieve(*command) == 0
    assert "listed 1" in capsys.readouterr().out
    assert {row["pdq"] for row in rows_of(tmp_path / "run")} == {None}
    record = json.loads((tmp_path / "run" / "run.json").read_bytes())
    assert record["hash_list"] == hash_list_of(str(tmp_path / "list.txt")).digest
    assert not record["pdq"]


def test_an_image_that_is_looked_at_in_a_process_of_its_own_is_compared_too(
    corpus: Path, hash_list: Path, tmp_path: Path
) -> None:
    source = open_source(str(corpus), None, None)
    settings = ScanSettings(
        source,
        place(str(tmp_path / "run")),
        scanned_record(pdq=True),
        EngineOptions(),
        "",
        hash_list=hash_list_of(str(hash_list)),
    )
    (slice_,) = source.slices("00000.tar")
    rows = [row for table in isolated_rows(settings, slice_) for row in table.to_pylist()]
    assert [row["reason"] for row in rows].count("listed") == len(SHOWING)
    assert SECRET not in json.dumps(rows)


@pytest.mark.ray
def test_a_scan_on_ray_has_the_list_in_its_workers(
    head: str, corpus: Path, hash_list: Path, runs: dict[str, Path], tmp_path: Path
) -> None:
    with joined(head):
        scan(corpus, tmp_path / "run", engine="canned", hash_list=hash_list)
    assert rows_of(tmp_path / "run") == rows_of(runs["list"])
