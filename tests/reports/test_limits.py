"""A statement ends at its limits and on Ctrl-C, in one line, whatever it computes."""

import _thread
import subprocess
import sys
import threading

import pytest

from ingest.errors import QueryError
from reports.report.compute import summarise
from reports.run.warehouse import open_warehouse
from scoring.sql import limits as duckdb_limits
from scoring.sql.limits import Limits, is_left_behind
from tests.jobs.made import privsieve
from tests.making import Capture, Patch
from tests.reports.conftest import ROWS, MakeRun, answer

ENDLESS = "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT max(n) FROM t"
UNSTOPPABLE = "SELECT levenshtein(repeat('ab', 1000000), repeat('ba', 1000000))"
"""One call of a function, during which DuckDB does not look whether it should stop; it takes hours."""


@pytest.fixture(autouse=True)
def _slow_machines_may_take_longer_to_stop(monkeypatch: Patch) -> None:
    monkeypatch.setattr(duckdb_limits, "GRACE_S", 120.0)


def test_a_statement_without_an_end_is_stopped_in_one_line(make_run: MakeRun, capsys: Capture) -> None:
    assert privsieve("sql", make_run(), ENDLESS, "--timeout", "1") == 2
    out, err = capsys.readouterr()
    message = "privsieve: the statement was stopped after 1 s; ask for less at once, or allow more with --timeout\n"
    assert (out, err) == ("", message)
    assert not is_left_behind()


@pytest.mark.slow
def test_rows_that_come_one_after_the_other_are_stopped_too(make_run: MakeRun) -> None:
    run = open_warehouse(str(make_run()), Limits(seconds=2))
    rows = run.select("SELECT * FROM range(1000000000000) WHERE hash(range) % 1000 = 0")[1]
    with pytest.raises(QueryError, match="stopped after 2 s;"):
        for _ in rows:
            pass


@pytest.mark.slow
def test_a_statement_that_takes_too_much_memory_is_stopped(make_run: MakeRun) -> None:
    run = open_warehouse(str(make_run()), Limits(memory_bytes=10**8))
    with pytest.raises(QueryError, match=r"stopped at 0\.1 GB of memory; ask for less at once$"):
        run.select("SELECT sum(length(repeat(chr(97 + range::INT % 7), 1000000))) FROM range(1000)")
    assert not is_left_behind()


@pytest.mark.slow
def test_what_the_process_used_before_a_statement_does_not_count(make_run: MakeRun) -> None:
    run = open_warehouse(str(make_run()), Limits(memory_bytes=10**8))
    freed, held = b"x" * (3 * 10**8), b"x" * (3 * 10**8)
    del freed
    question = "SELECT count(*) FROM range(300000000) WHERE hash(range) % 7 = 8"  # long enough to be looked at
    assert list(run.select(question)[1]) == [(0,)]
    assert len(held) > 10**8


def test_ctrl_c_ends_a_statement_and_the_connection_stays_usable(make_run: MakeRun) -> None:
    run = open_warehouse(str(make_run()))
    threading.Timer(1, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        run.select(ENDLESS)
    assert not is_left_behind()
    assert list(run.select("SELECT count(*) FROM images")[1]) == [(len(ROWS),)]


@pytest.mark.slow
def test_what_duckdb_does_not_stop_is_left_behind(make_run: MakeRun) -> None:
    command = [sys.executable, "-m", "jobs", "sql", str(make_run()), UNSTOPPABLE, "--timeout", "1"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=1500)
    message = "privsieve: the statement was stopped after 1 s; ask for less at once, or allow more with --timeout\n"
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", message)


@pytest.mark.slow
def test_a_report_with_an_endless_expression_is_stopped_in_one_line(make_run: MakeRun) -> None:
    slow = f"regexp_matches(concat(key, '{'a' * 100_000}'), '(a?){{1000}}b')"
    run = make_run(rows=[("a", answer()) for _ in range(1_000)])
    arguments = ["report", run, "--private", slow, "--timeout", "1", "--html", run / "page.html"]
    command = [sys.executable, "-m", "jobs", *map(str, arguments)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=1500)
    message = "the report was stopped after 1 s; simplify --by or --private, or allow more with --timeout"
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", f"privsieve: {message}\n")
    assert not (run / "page.html").exists()


def test_a_report_that_takes_too_much_memory_is_stopped(make_run: MakeRun) -> None:
    run = open_warehouse(str(make_run(rows=[("a", answer()) for _ in range(4_000)])), Limits(memory_bytes=10**8))
    with pytest.raises(QueryError, match=r"^the report was stopped at 0\.1 GB of memory; simplify --by or --private$"):
        summarise(run, by=f"replace(key, 'e', '{'x' * 100_000}')")


def test_the_questions_of_a_report_share_its_time(make_run: MakeRun) -> None:
    run = open_warehouse(str(make_run()), Limits(seconds=0.5))
    with pytest.raises(QueryError, match=r"^the report was stopped after 0\.5 s; "):
        any(run.ask("prevalence") == [] for _ in range(10**6))


@pytest.mark.parametrize("limit", ["0.5", "nan"])
def test_a_wrong_time_limit_is_one_line(make_run: MakeRun, limit: str, capsys: Capture) -> None:
    assert privsieve("sql", make_run(), "SELECT 1", "--timeout", limit) == 2
    assert capsys.readouterr().err.startswith("privsieve: Invalid value for '--timeout': ")
