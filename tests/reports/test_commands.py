"""`privsieve report` and `privsieve sql` as a user calls them."""

import csv
import fcntl
import io
import json
import os
import re
import struct
import subprocess
import sys
import termios
from contextlib import suppress
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from ingest.errors import QueryError, RunError, StorageError
from jobs.commands.report import report
from jobs.commands.sql import sql
from reports.run.warehouse import Run
from tests.jobs.made import privsieve
from tests.reports.conftest import HOSTILE, ROWS, MakeRun, answer, nothing


def ran(command: object, *arguments: object) -> Result:
    result = CliRunner().invoke(command, [str(a) for a in arguments], catch_exceptions=False)  # type: ignore[arg-type]
    assert result.exit_code == 0, result.output
    return result


def test_report_text_says_first_what_it_rests_on(common_run: Run) -> None:
    text = ran(report, common_run.url).stdout
    in_this_order = (
        "MAY BE UNFINISHED: the source cannot be listed now\n",
        "MADE-UP ANSWERS: the canned engine looks at no picture\n",
        "50.0 % of the scored images were found private (3 of 6 images that could be judged), most often because of",
        "whether these are all images of the source is not known now",
        "Too few images to say which category has the highest rate: each of the",
        "Not measured on this run: the rates are what the engine answered, right or wrong.",
        "source     /data/corpus\n",
        "engine     canned · sha256\n",
        "images     8: 6 scored, 2 quarantined (not_an_image 1, truncated 1)\n",
        "severity   level 1 33.3 %, level 2 16.7 %, level 3 16.7 %, level 4 16.7 %\n",
        "shows      ",
        "private    The image shows a unique identifier",
        "Highest privacy rates by category",
        "--full has the rest",
    )
    assert text.startswith(in_this_order[0])
    positions = [text.find(words) for words in in_this_order]
    assert -1 not in positions
    assert positions == sorted(positions)
    assert len(text.splitlines()) <= 30
    assert "\x1b" not in text
    assert "secret-key" not in text


def test_report_text_shows_hostile_names_as_they_are(make_run: MakeRun) -> None:
    text = ran(report, make_run(rows=[(name, answer()) for name in HOSTILE])).stdout
    assert "<script>alert(1)</script>" in text
    assert "[bold]x[/bold]" in text
    assert "a\\nb\\x1b[31m" in text
    assert "\x1b" not in text


def test_report_text_never_shows_not_assessed_as_zero(make_run: MakeRun) -> None:
    text = ran(report, make_run(rows=[("a", nothing())], assessed=["biometrics"])).stdout
    (line,) = (line for line in text.splitlines() if "gov_ids" in line)
    assert line.split()[:3] == ["not", "asked", "gov_ids,"]


@pytest.mark.slow
def test_a_category_of_pages_is_cut_where_people_read_it_and_whole_in_json_and_csv(
    make_run: MakeRun, tmp_path: Path
) -> None:
    long = "x" * 15_000
    folder, page = make_run(rows=[(long, answer(gov_ids=1)), ("b", answer())]), tmp_path / "page.html"
    text = ran(report, folder, "--html", str(page)).stdout
    assert (text.count("x" * 50) > 0, text.count("x") < 450, "…" in text) == (True, True, True)
    shown = page.read_text()
    assert f'<th scope="row">{"x" * 199}… ' in shown
    assert "x" * 200 not in shown
    assert long in ran(report, folder, "--format", "json").stdout
    assert long in ran(report, folder, "--format", "csv").stdout


def test_report_text_keeps_numbers_whole_on_a_narrow_terminal(make_run: MakeRun) -> None:
    folder = str(make_run(rows=[*ROWS, ("a category with a rather long name", answer(gov_ids=1))]))
    text = CliRunner().invoke(report, [folder, "--full"], env={"COLUMNS": "70"}, catch_exceptions=False).stdout
    lines = text.splitlines()
    assert max(len(line) for line in lines if line.startswith(" ")) <= 70
    for whole in ("66.7 %", "20.8 – 93.9 %", "0.0 – 79.3 %", "20.7 – 100.0 %", "14.3 %"):
        assert any(whole in line for line in lines), whole


def on_terminal(width: int, *arguments: object, keeps_escapes: bool = False) -> list[str]:
    """What a user sees on a terminal of so many columns, without colours unless escapes are kept."""
    mine, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"} | {"TERM": "xterm"}
    command = [sys.executable, "-m", "jobs", *map(str, arguments)]
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        shown = b""
        with suppress(OSError):  # the other end is closed
            while part := os.read(mine, 4096):
                shown += part
    os.close(mine)
    assert process.returncode == 0, shown
    text = shown.decode() if keeps_escapes else re.sub(r"\x1b\[[0-9;]*m", "", shown.decode())
    return text.splitlines()


@pytest.mark.parametrize("option", ["--by", "--private"])
def test_an_empty_expression_is_one_line(
    make_run: MakeRun, tmp_path: Path, option: str, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "report.yaml"
    config.write_text(f'{option[2:]}: ""\n')
    for value in ("", "  "):
        assert privsieve("report", make_run(name=f"run{len(value)}"), option, value) == 2
        default = {"--by": "category", "--private": "the usual meaning"}[option]
        message = f"privsieve: Invalid value for '{option}': it is empty; leave it out for {default}\n"
        assert capsys.readouterr().err == message
        assert privsieve("report", tmp_path, "--config", config) == 2
        assert capsys.readouterr().err == message


@pytest.mark.parametrize(
    ("verb", "message"),
    [
        (["sql", "SELECT \udcff"], r"character 8 is not valid UTF-8 text: SELECT \xff"),
        (["report", "--by", "\udcff"], r"character 1 is not valid UTF-8 text: \xff"),
        (["report", "--private", "level = \udcff"], r"character 9 is not valid UTF-8 text: level = \xff"),
        (["report", "--by", "(" * 3000 + "level" + ")" * 3000], "Max expression depth limit of 1000 exceeded: ((((("),
        (["report", "--by", "+".join(["level"] * 600)], "this is nested too deeply; write it in several parts: level+"),
        (
            ["sql", "SELECT " + "(" * 3000 + "1" + ")" * 3000],
            "the SQL is not valid: Max expression depth limit of 1000 exceeded",
        ),
        (["report", "--by", "no" * 2000], 'no column "nonono'),
    ],
)
def test_sql_that_nobody_can_ask_is_one_short_line(
    common_run: Run, verb: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert privsieve(verb[0], common_run.url, *verb[1:]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"privsieve: {message}")
    assert len(error.splitlines()) == 1
    assert len(error) < 600
    assert "SET max" not in error


def test_report_json_and_csv(common_run: Run) -> None:
    folder = common_run.url
    found = json.loads(ran(report, folder, "--format", "json").stdout)
    assert found["total"]["num_scored"] == 6
    scope = "perhaps not all of: all images of the source"  # the source is not there
    assert (found["scope"], found["is_whole"]) == (scope, False)
    assert found["made_up"] == "MADE-UP ANSWERS: the canned engine looks at no picture"
    assert found["rates"][0]["group"] == "beach"
    rows = list(csv.DictReader(io.StringIO(ran(report, folder, "--format", "csv").stdout)))
    assert [row["group"] for row in rows] == ["beach", "office", "(none)"]
    assert float(rows[0]["privacy_rate"]) == pytest.approx(2 / 3)


def test_report_errors_are_the_users(common_run: Run, tmp_path: Path) -> None:
    def fails(*arguments: object) -> None:
        CliRunner().invoke(report, [str(a) for a in arguments], catch_exceptions=False)

    with pytest.raises(RunError):
        fails(tmp_path)
    with pytest.raises(QueryError, match='did you mean "category"'):
        fails(common_run.url, "--by", "categry")
    with pytest.raises(StorageError, match="cannot be written"):
        fails(common_run.url, "--html", tmp_path / "absent" / "page.html")


def test_a_page_takes_the_place_of_no_pipe_and_keeps_a_link(make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StorageError, match="pipe is a folder, pipe, socket or device; give the path of a file"):
        CliRunner().invoke(report, [str(run), "--html", str(tmp_path / "pipe")], catch_exceptions=False)
    assert (tmp_path / "pipe").is_fifo()
    (tmp_path / "old.html").write_text("old")
    (tmp_path / "link.html").symlink_to("old.html")
    assert privsieve("report", run, "--html", tmp_path / "link.html") == 0
    assert (tmp_path / "link.html").is_symlink()
    assert (tmp_path / "old.html").read_text().startswith("<!DOCTYPE html>")


def test_sql_formats(common_run: Run) -> None:
    folder = common_run.url
    asked = "SELECT category, count(*) AS n, avg(score) AS s FROM images GROUP BY ALL ORDER BY ALL"
    found = json.loads(ran(sql, folder, asked, "--format", "json").stdout)
    assert [row["category"] for row in found] == ["attic", "beach", "office", None]
    assert found[0]["s"] is None
    assert ran(sql, folder, asked, "--format", "csv").stdout.splitlines()[0] == "category,n,s"
    assert "beach" in ran(sql, folder, asked).stdout
    assert json.loads(ran(sql, folder, "FROM images WHERE false", "--format", "json").stdout) == []
    assert json.loads(ran(sql, folder, "SELECT 'nan'::FLOAT AS x", "--format", "json").stdout) == [{"x": None}]


@pytest.mark.slow
def test_sql_csv_on_a_terminal_holds_no_control_characters(common_run: Run) -> None:
    asked = "SELECT chr(27) || '[31m' || chr(155) || chr(7) AS \"a\x1b[2J\", NULL AS b, ['x\x1b']  AS c, 1.5 AS d"
    folder = common_run.url
    shown = on_terminal(80, "sql", folder, asked, "--format", "csv", keeps_escapes=True)
    assert shown[:2] == ["a\\x1b[2J,b,c,d", '\\x1b[31m\\x9b\\x07,,"[""x\\u001b""]",1.5']
    exact = ran(sql, folder, asked, "--format", "csv").stdout
    assert exact == 'a\x1b[2J,b,c,d\n\x1b[31m\x9b\x07,,"[""x\\u001b""]",1.5\n'


def test_sql_json_holds_no_control_characters(common_run: Run) -> None:
    asked = 'SELECT chr(27) || chr(127) || chr(155) AS "a\x7f\x9b"'
    text = ran(sql, common_run.url, asked, "--format", "json").stdout
    assert json.loads(text) == [{"a\x7f\x9b": "\x1b\x7f\x9b"}]
    assert text.isascii()
    assert text.replace("\n", "").isprintable()


def test_sql_text_takes_no_markup_and_says_where_it_ends(common_run: Run) -> None:
    folder = common_run.url
    result = ran(sql, folder, "SELECT '[bold]x[/bold]' AS \"[red]a\", chr(27) AS b FROM range(1200)")
    assert "[bold]x[/bold]" in result.stdout
    assert "\x1b" not in result.stdout
    assert "1,000 rows" in result.stderr


def test_sql_wants_a_statement_or_the_setup(common_run: Run) -> None:
    folder = common_run.url
    assert "CREATE OR REPLACE VIEW images" in ran(sql, folder, "--shell-setup").stdout
    for arguments in ([folder], [folder, "SELECT 1", "--shell-setup"]):
        with pytest.raises(QueryError, match="either"):
            CliRunner().invoke(sql, arguments, catch_exceptions=False)


def test_sql_csv_holds_lists_as_json(common_run: Run) -> None:
    asked = "SELECT ['it''s', NULL] AS texts, {'x': 1.5::DOUBLE, 'y': [true]} AS fields, NULL AS nothing"
    rows = list(csv.reader(ran(sql, common_run.url, asked, "--format", "csv").stdout.splitlines()))
    assert [json.loads(cell) if cell else None for cell in rows[1]] == [["it's", None], {"x": 1.5, "y": [True]}, None]


@pytest.mark.parametrize("asked", ["SELECT now() AS t", "SELECT [now()] AS t", "SELECT {'a': now()} AS t"])
def test_sql_says_how_to_print_a_time_with_a_zone(common_run: Run, asked: str) -> None:
    folder = common_run.url
    with pytest.raises(QueryError, match=r'^column "t" has times with a time zone; cast them to TIMESTAMP$'):
        ran(sql, folder, asked)
    assert ran(sql, folder, "SELECT now()::TIMESTAMP AS t", "--format", "csv").stdout.startswith("t\n20")


def test_what_is_never_ruled_out_and_was_not_found_is_not_called_unassessed(make_run: MakeRun) -> None:
    found = ran(report, make_run(rows=[("a", answer(location=None))]), "--full").stdout
    (line,) = (line for line in found.splitlines() if line.strip().startswith("location"))
    assert line.split() == ["location", "3", "0", "0", "1", "never", "found"]
