"""What a statement may do is judged over everything that it would execute."""

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from ingest.errors import QueryError
from reports.run.statements import TABLE_FUNCTIONS
from reports.run.warehouse import open_run
from scoring.sql.expressions import FUNCTIONS, value_expression
from scoring.sql.limits import Limits
from scoring.table import IMAGE_SCHEMA
from tests.reports.conftest import ROWS, MakeRun
from tests.reports.test_run_files import contents

CANARY = "words-of-a-file-outside"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        (
            "SELECT * FROM json_execute_serialized_sql(json_serialize_sql("
            "'WITH x AS (COPY (SELECT 1) TO ''run://0.parquet'') SELECT 1'))",
            '"json_execute_serialized_sql" cannot stand after FROM; allowed are unnest, range, generate_series, json_',
        ),
        ("SELECT (SELECT count(*) FROM query('SELECT 1'))", '"query" cannot stand after FROM'),
        ("SELECT unnest([1]) WHERE exists(FROM query_table('images'))", '"query_table" cannot stand after FROM'),
        ("WITH a AS (FROM read_text('run.json')) FROM images", '"read_text" cannot stand after FROM'),
        ("FROM duckdb_settings()", '"duckdb_settings" cannot stand after FROM'),
        ("FROM duckdb_settings", 'no view "duckdb_settings"; there are: images, '),
        (
            "FROM (WITH duckdb_settings AS (SELECT 1) FROM duckdb_settings), duckdb_settings",
            'no view "duckdb_settings"',
        ),
        ("FROM information_schema.tables", 'no view "information_schema.tables"; there are: images, '),
        ("SHOW TABLES", "SHOW is not allowed; there are: images, "),
        ("SELECT current_setting('threads')", 'the function "current_setting" is not allowed'),
        ("SELECT getvariable('x')", 'the function "getvariable" is not allowed'),
        ("SELECT nextval('x')", 'the function "nextval" is not allowed'),
        ("SELECT system.main.write_log('x')", 'the function "write_log" is not allowed'),
        ("SELECT pg_catalog.pg_sleep(1)", 'the function "pg_sleep" is not allowed'),
        ("SELECT list_transform([1], lambda x: sleep_ms(x))", 'the function "sleep_ms" is not allowed'),
        ("SELECT json_serialize_plan('SELECT 1')", 'the function "json_serialize_plan" is not allowed'),
        ("SELECT __cast('{}', 1)", 'the function "__cast" is not allowed'),
        ("SELECT __internal_barrier(1)", 'the function "__internal_barrier" is not allowed'),
        ("SELECT $1", "parameter is not allowed"),
        ("WITH x AS (INSERT INTO images VALUES (1)) SELECT 1", "INSERT is not allowed inside a SELECT"),
        ("WITH x AS (COPY images TO 'x') SELECT 1", "COPY is not allowed inside a SELECT"),
    ],
)
def test_refused_with_its_name(make_run: MakeRun, statement: str, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        open_run(str(make_run())).select(statement)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


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
    ],
)
def test_questions_that_only_compute_are_answered(
    make_run: MakeRun, statement: str, expected: Sequence[tuple[object, ...]]
) -> None:
    assert list(open_run(str(make_run())).select(statement)[1]) == expected


def _argument(kind: str | None, path: str) -> str:
    """Something of that type that the function can work with, and a path where it takes a text."""
    plain = {"BIGINT": "3", "INTEGER": "3", "BOOLEAN": "true", "DOUBLE": "1.5", "VARCHAR[]": f"['{path}']"}
    return f"'{path}'" if kind in (None, "ANY", "T", "VARCHAR") else plain.get(str(kind), f"NULL::{kind}")


def _calls(rows: Sequence[tuple[str, str, list[str | None] | None]], path: str) -> list[tuple[str, str, str]]:
    """Of every function: its name, its type, a call."""
    return [(n, t, f'"{n}"({", ".join(_argument(kind, path) for kind in p or [])})') for n, t, p in rows]


@pytest.mark.slow
def test_no_function_of_duckdb_writes_reads_or_sets_anything(make_run: MakeRun, tmp_path: Path) -> None:
    secret, folder = tmp_path / "secret.txt", make_run()
    secret.write_text(CANARY)
    run = open_run(str(folder), Limits(seconds=60))
    listed = run.connection.execute(
        "SELECT function_name, function_type, any_value(parameter_types ORDER BY len(parameter_types) DESC) "
        "FROM duckdb_functions() WHERE internal GROUP BY ALL ORDER BY ALL"
    ).fetchall()
    assert len(listed) > 1_000
    settings = run.connection.execute("SELECT name, value FROM duckdb_settings() ORDER BY name").fetchall()
    before, answered, refusals = contents(tmp_path), set[str](), list[str]()
    for path in (str(secret), "run://0.parquet", "SELECT 1"):
        for name, kind, call in _calls(listed, path):
            is_table = kind in ("table", "table_macro", "pragma")
            try:
                rows = list(run.select(f"SELECT * FROM {call}" if is_table else f"SELECT {call}")[1])
            except QueryError as error:
                refusals.append(str(error))
                continue
            assert CANARY not in str(rows)
            answered.add(name if is_table else "")
    assert not [result for result in refusals if "\n" in result or CANARY in result]
    assert answered <= {"", *TABLE_FUNCTIONS}
    for statement in [s for name, kind, call in _calls(listed, str(secret)) for s in _raw(name, kind, call)]:
        try:
            rows = run.connection.execute(statement).fetchmany(3)
        except Exception as error:  # whatever DuckDB raises: only what is left behind counts
            rows = [(str(error),)]
        assert CANARY not in str(rows)
    assert contents(tmp_path) == before
    assert run.connection.execute("SELECT name, value FROM duckdb_settings() ORDER BY name").fetchall() == settings
    assert list(run.select("SELECT count(*) FROM images")[1]) == [(len(ROWS),)]


def _raw(name: str, kind: str, call: str) -> list[str]:
    """The statements that would call it if nothing were checked; not those that wait, or end the connection."""
    if name in ("sleep_ms", "pg_sleep"):
        return []
    if kind in ("table", "table_macro", "pragma"):
        return [f"SELECT * FROM {call}", f"CALL {call}", f"PRAGMA {call}"]
    return [f"SELECT {call}"]


@pytest.mark.slow
def test_no_function_of_duckdb_beyond_the_list_is_allowed_in_an_expression(make_run: MakeRun) -> None:
    run = open_run(str(make_run()))
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
