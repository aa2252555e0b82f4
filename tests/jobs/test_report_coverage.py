"""A report of a part of the source says so before any figure, in every form."""

import json
import os
import socket
import time
from pathlib import Path

import pytest

from scoring.runs.ledger import result_name
from tests.jobs.made import compact_run, made_run, privsieve, tar

SHARDS = ((30, 30), (20,), (0,))


def _headline(run: Path, capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert privsieve("report", run) == 0
    return capsys.readouterr().out.splitlines()[0]


def _kind(run: Path, capsys: pytest.CaptureFixture[str]) -> object:
    capsys.readouterr()
    assert privsieve("report", run, "--format", "json") == 0
    return json.loads(capsys.readouterr().out)["design"]["kind"]


@pytest.mark.slow
def test_a_finished_run_has_no_warning_compacted_or_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = made_run(tmp_path, SHARDS)
    assert _headline(run, capsys) == "all images of the source"
    assert _kind(run, capsys) == "whole"
    compact_run(run)
    assert _kind(run, capsys) == "whole"


def test_a_source_whose_name_holds_two_colons_is_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a::B").mkdir()
    run = made_run(tmp_path / "a::B", SHARDS)
    assert _headline(run, capsys) == "all images of the source"


@pytest.mark.slow
def test_a_part_says_so_in_every_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, page = made_run(tmp_path, SHARDS), tmp_path / "page.html"
    (run / "scores" / result_name("00000.tar", 1, True)).unlink()
    tar(tmp_path / "corpus" / "00003.tar", {})
    message = "UNFINISHED: 2 of 4 shards have images without a row; run the same scan again to finish it"
    assert _headline(run, capsys) == message
    assert privsieve("report", run, "--format", "csv", "--html", page) == 0
    out, err = capsys.readouterr()
    assert err.splitlines() == [message, "MADE-UP ANSWERS: the canned engine looks at no picture"]
    assert out.startswith("group,")
    assert f"<strong>{message}</strong>" in page.read_text()
    assert _kind(run, capsys) == "unfinished"


@pytest.mark.slow
def test_a_scan_at_work_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, host = made_run(tmp_path, SHARDS), socket.gethostname()
    (run / "scores" / result_name("00001.tar", 0, True)).unlink()
    lease = {"id": "x", "host": "elsewhere", "pid": 7, "renewed": time.time()}
    (run / "lease.json").write_text(json.dumps(lease))
    message = "SCAN IN PROGRESS by process 7 on elsewhere: 1 of 3 shards have images without a row"
    assert _headline(run, capsys) == message
    (run / "lease.json").write_text(json.dumps(lease | {"host": host, "pid": 2**22 + os.getpid()}))
    assert _headline(run, capsys).startswith("UNFINISHED: 1 of 3 shards")


@pytest.mark.slow
def test_without_the_source_the_results_alone_are_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = made_run(tmp_path, SHARDS)
    (tmp_path / "corpus").rename(tmp_path / "elsewhere")
    assert _headline(run, capsys) == "MAY BE UNFINISHED: the source cannot be listed now"
    (run / "scores" / result_name("00000.tar", 1, True)).unlink()
    assert _headline(run, capsys).startswith("UNFINISHED: the source cannot be listed now, 1 shard not finished; run")
    assert _kind(run, capsys) == "unfinished"


def test_a_limit_that_the_source_does_not_reach_is_all_of_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = made_run(tmp_path, SHARDS, limit=1000)
    assert _headline(run, capsys) == "all images of the source"
    assert privsieve("report", run, "--format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["scope"], found["is_whole"]) == ("all images of the source", True)


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"sample": 80, "seed": 0}, None),
        ({"sample": 90, "seed": 0}, "UNFINISHED: 80 of 90 chosen images have a row; run the same scan again to finish"),
        ({"limit": 80}, None),
        ({"limit": 90}, "MAY BE UNFINISHED: 80 of 90 chosen images have a row, or the source has no more"),
    ],
)
def test_chosen_images_are_counted(
    chosen: dict[str, int], message: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = made_run(tmp_path, SHARDS[:2], **chosen)
    tar(tmp_path / "corpus" / "00002.tar", {"a.jpg": b"not scanned"})
    scope = "first {} images only (--limit): not representative" if "limit" in chosen else "random sample of {} images"
    assert _headline(run, capsys).startswith(scope.format(chosen.get("limit") or chosen["sample"]))
    assert privsieve("report", run, "--format", "csv") == 0
    first, *others, made_up = capsys.readouterr().err.splitlines()
    assert first.startswith(scope.format(chosen.get("limit") or chosen["sample"]))
    assert [line.startswith(message or "-") for line in others] == ([True] if message else [])
    assert made_up == "MADE-UP ANSWERS: the canned engine looks at no picture"
    assert privsieve("status", run) == 0
    assert capsys.readouterr().out.splitlines()[0] == f"{first}; only shards that were begun are listed"


@pytest.mark.parametrize(
    "source",
    [
        "http://127.0.0.1:{port}/corpus",
        "simplecache::http://127.0.0.1:{port}/corpus",
        "file:///corpus::http://127.0.0.1:{port}/corpus",
    ],
)
def test_a_report_asks_no_host_that_a_foreign_run_names(
    source: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        run = made_run(tmp_path, SHARDS, source=source.format(port=listening.getsockname()[1]))
        assert _headline(run, capsys) == "MAY BE UNFINISHED: the source cannot be listed now"
        listening.setblocking(False)
        with pytest.raises(BlockingIOError):
            listening.accept()
