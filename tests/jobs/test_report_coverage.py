"""A report of a part of the source says so before any figure, in every form."""

import json
import socket
from pathlib import Path

import pytest

from scoring.runs.ledger import result_name
from tests.jobs.made import made_run, privsieve
from tests.making import Capture

SHARDS = ((30, 30), (20,), (0,))


def _headline(run: Path, capsys: Capture) -> str:
    capsys.readouterr()
    assert privsieve("report", run) == 0
    return capsys.readouterr().out.splitlines()[0]


def test_a_source_whose_name_holds_two_colons_is_listed(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "a::B").mkdir()
    run = made_run(tmp_path / "a::B", SHARDS)
    assert _headline(run, capsys) == "all images of the source"


@pytest.mark.slow
def test_without_the_source_the_results_alone_are_judged(tmp_path: Path, capsys: Capture) -> None:
    run = made_run(tmp_path, SHARDS)
    (tmp_path / "corpus").rename(tmp_path / "elsewhere")
    assert _headline(run, capsys) == "MAY BE UNFINISHED: the source cannot be listed now"
    (run / "scores" / result_name("00000.tar", 1, True)).unlink()
    assert _headline(run, capsys).startswith("UNFINISHED: the source cannot be listed now, 1 shard not finished; run")
    assert privsieve("report", run, "--format", "json") == 0
    assert json.loads(capsys.readouterr().out)["design"]["kind"] == "unfinished"


@pytest.mark.parametrize(("settings", "num_without_row"), [({}, None), ({"sample": 81, "seed": 0}, 31)])
def test_json_of_an_unfinished_run_does_not_call_it_whole(
    settings: dict[str, int], num_without_row: int | None, tmp_path: Path, capsys: Capture
) -> None:
    run = made_run(tmp_path, SHARDS, **settings)
    (run / "scores" / result_name("00000.tar", 1, True)).unlink()
    assert privsieve("report", run, "--format", "json", "--html", tmp_path / "page.html") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["scope"].startswith("those scanned so far of: ")
    assert (found["is_whole"], found["coverage"]["is_complete"]) == (False, False)
    assert found["coverage"]["num_without_row"] == num_without_row
    assert found["scope"] in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize(
    "source",
    [
        "http://127.0.0.1:{port}/corpus",
        "simplecache::http://127.0.0.1:{port}/corpus",
        "file:///corpus::http://127.0.0.1:{port}/corpus",
    ],
)
def test_a_report_asks_no_host_that_a_foreign_run_names(source: str, tmp_path: Path, capsys: Capture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        run = made_run(tmp_path, SHARDS, source=source.format(port=listening.getsockname()[1]))
        assert _headline(run, capsys) == "MAY BE UNFINISHED: the source cannot be listed now"
        listening.setblocking(False)
        with pytest.raises(BlockingIOError):
            listening.accept()
