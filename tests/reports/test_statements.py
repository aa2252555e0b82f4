"""A statement of a user reaches the views of a run and nothing else, whatever it says: the connection is locked."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from ingest.errors import QueryError
from reports.run.warehouse import Run, open_warehouse
from scoring.sql.expressions import FUNCTIONS, value_expression
from scoring.sql.limits import Limits
from scoring.table import IMAGE_SCHEMA
from tests.making import Patch
from tests.reports.conftest import ROWS, MakeRun, contents

CANARY = "words-of-a-file-outside"


NO_FILE = "a file cannot be read: a statement reaches the views and nothing else"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            "SELECT * FROM json_execute_serialized_sql(json_serialize_sql("
            "'WITH x AS (COPY (SELECT 1) TO ''run://0.parquet'') SELECT 1'))",
            "a function was given a value that it cannot take",
        ),
        (
            "FROM query('WITH x AS (COPY (SELECT 1) TO ''run://0.parquet'') FROM x')",
            "WITH clause containing a COPY statement must be at the top level",
        ),
        ("WITH x AS (COPY images TO 'x') FROM x", NO_FILE),
        ("WITH x AS (COPY images TO 'run://0.parquet') FROM x", "DuckDB cannot do this"),
        ("WITH x AS (INSERT INTO images VALUES (1)) SELECT 1", "images is not an table"),
        ("WITH x AS (DELETE FROM images) SELECT 1", "Can only delete from base table"),
        ("FROM read_text('run.json')", f"""at "read_text('run.json')": {NO_FILE}"""),
        ("FROM read_text('/etc/passwd')", f"""at "read_text('/etc/passwd')": {NO_FILE}"""),
        ("FROM '/etc/passwd'", 'no view "/etc/passwd"; there are: images, '),
        ("FROM glob('/etc/*')", f"""at "glob('/etc/*')": {NO_FILE}"""),
        ("FROM enable_logging(storage = 'file', storage_path = 'x')", 'at "enable_logging('),
        ("SELECT $1", "a statement takes no parameters"),
        ("SELECT 1; SELECT 2", "one SELECT statement is wanted, not several statements"),
        ("SET threads = 1", "one SELECT statement is wanted, not SET: a run is read-only"),
        ("COPY images TO 'x'", "one SELECT statement is wanted, not COPY: a run is read-only"),
        ("SELECT 1; COPY images TO 'x'", "one SELECT statement is wanted, not several statements"),
        ("EXPLAIN ANALYZE COPY images TO 'x'", "one SELECT statement is wanted, not EXPLAIN"),
        ("ATTACH 'x.db'", "one SELECT statement is wanted, not ATTACH"),
        ("LOAD httpfs", "one SELECT statement is wanted, not LOAD"),
        ("PRAGMA version", "one SELECT statement is wanted, not PRAGMA"),
        ("CREATE TABLE t AS SELECT 1", "one SELECT statement is wanted, not CREATE"),
        ("DROP VIEW images", "one SELECT statement is wanted, not DROP"),
        ("EXPORT DATABASE 'x'", "one SELECT statement is wanted, not EXPORT"),
        ("CALL pragma_version()", "one SELECT statement is wanted, not CALL"),
        ("SELECT getenv('HOME')", 'no function "getenv"'),
        ("FROM sys", 'no view "sys"; there are: images, '),
        ("-- nothing", "one SELECT statement is wanted"),
        ("", "one SELECT statement is wanted"),
    ],
)
def test_refused_in_one_line_and_nothing_is_written(common_run: Run, statement: str, message: str) -> None:
    folder = Path(common_run.url).parent
    before = contents(folder)
    with pytest.raises(QueryError) as caught:
        list(common_run.select(statement)[1])
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)
    assert contents(folder) == before
    assert list(common_run.select("SELECT count(*) FROM images")[1]) == [(len(ROWS),)]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT max(n) FROM t", [(5,)]),
        ("SELECT count(*) FROM images a JOIN scored b USING (shard, index)", [(6,)]),
        ("SELECT count(*) FROM images, LATERAL (SELECT level) x(y) WHERE y = 1", [(2,)]),
        ("SELECT category FROM images GROUP BY ROLLUP (category) HAVING count(*) = 8", [(None,)]),
        ("SELECT DISTINCT ON (category) category FROM images ORDER BY category DESC NULLS LAST LIMIT 1", [("office",)]),
        ("SELECT rank() OVER w FROM images WINDOW w AS (ORDER BY level) LIMIT 1", [(1,)]),
        ("SELECT category FROM images QUALIFY row_number() OVER (ORDER BY category) = 1", [("attic",)]),
        ("SELECT beach FROM (SELECT category FROM images) PIVOT (count(*) FOR category IN ('beach'))", [(4,)]),
        ("SELECT count(*) FILTER (level = 1), max_by(category, s_lex) FROM images", [(2, "beach")]),
        ("SELECT list_sum([x + 1 FOR x IN [1, 2]]), {'a': 1}.a, [1, 2][1:1], 'a' COLLATE nocase", [(5, 1, [1], "a")]),
        ("SELECT column_name FROM (DESCRIBE images) LIMIT 1", [("shard",)]),
        ("SELECT x FROM (VALUES (1), (2)) t(x) EXCEPT SELECT 1", [(2,)]),
        ("SELECT value FROM json_each('[7]')", [("7",)]),
        ("SELECT count(*) FROM images TABLESAMPLE reservoir(3 ROWS)", [(3,)]),
        ("SELECT random() < 1, uuid() IS NOT NULL, regexp_replace('a', 'a', 'b')", [(True, True, "b")]),
        ("WITH images AS (SELECT 1 AS one) SELECT one FROM IMAGES", [(1,)]),
        ("FROM images SELECT count(*); -- of all", [(8,)]),
    ],
)
def test_questions_that_only_compute_are_answered(
    common_run: Run, statement: str, expected: Sequence[tuple[object, ...]]
) -> None:
    assert list(common_run.select(statement)[1]) == expected


def _argument(kind: str | None, path: str) -> str:
    """Something of that type that the function can work with, and a path where it takes a text."""
    plain = {"BIGINT": "3", "INTEGER": "3", "BOOLEAN": "true", "DOUBLE": "1.5", "VARCHAR[]": f"['{path}']"}
    return f"'{path}'" if kind in (None, "ANY", "T", "VARCHAR") else plain.get(str(kind), f"NULL::{kind}")


def _calls(rows: Sequence[tuple[str, str, list[str | None] | None]], path: str) -> list[tuple[str, str, str]]:
    """Of every function: its name, its type, a call."""
    return [(n, t, f'"{n}"({", ".join(_argument(kind, path) for kind in p or [])})') for n, t, p in rows]


@pytest.mark.slow
def test_no_function_of_duckdb_writes_reads_or_sets_anything(
    make_run: MakeRun, tmp_path: Path, monkeypatch: Patch
) -> None:
    secret, folder = tmp_path / "secret.txt", make_run()
    secret.write_text(CANARY)
    monkeypatch.setenv("PRIVSIEVE_SECRET", CANARY)
    run = open_warehouse(str(folder), Limits(seconds=60))
    listed = run.connection.execute(
        "SELECT function_name, function_type, any_value(parameter_types ORDER BY len(parameter_types) DESC) "
        "FROM duckdb_functions() WHERE internal GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    assert len(listed) > 1_000
    settings = run.connection.execute("SELECT name, value FROM duckdb_settings() ORDER BY name").fetchall()
    before = contents(tmp_path)
    for path in (str(secret), "run://0.parquet", "SELECT 1", "PRIVSIEVE_SECRET"):
        for name, kind, call in _calls(listed, path):
            if name not in ("sleep_ms", "pg_sleep"):  # they only wait
                is_table = kind in ("table", "table_macro", "pragma")
                answer = _answer(run, f"SELECT * FROM {call}" if is_table else f"SELECT {call}")
                assert CANARY not in answer
    assert contents(tmp_path) == before
    assert run.connection.execute("SELECT name, value FROM duckdb_settings() ORDER BY name").fetchall() == settings
    assert list(run.select("SELECT count(*) FROM images")[1]) == [(len(ROWS),)]


def _answer(run: Run, statement: str) -> str:
    """Return the rows as text, or the error, which must be one line."""
    try:
        return str(list(run.select(statement)[1]))
    except QueryError as error:
        message = str(error)
    assert "\n" not in message
    return message


@pytest.mark.slow
def test_no_function_of_duckdb_beyond_the_list_is_allowed_in_an_expression(make_run: MakeRun) -> None:
    run = open_warehouse(str(make_run()))
    listed = run.connection.execute(
        "SELECT function_name, function_type, any_value(parameter_types ORDER BY len(parameter_types) DESC) "
        "FROM duckdb_functions() WHERE internal GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    allowed = set[str]()
    for name, _, call in _calls(listed, "a"):
        with suppress(QueryError):
            value_expression(call, IMAGE_SCHEMA)
            allowed.add(name)
    assert "abs" in allowed
    assert allowed <= FUNCTIONS
