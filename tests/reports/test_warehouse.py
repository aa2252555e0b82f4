"""The views hold what the rows say, the intervals are right, and a run cannot be left or changed."""

from pathlib import Path

import duckdb
import fsspec
import pytest
from scipy.stats import binomtest

from ingest.errors import QueryError, RunError, StorageError
from reports.run.run_files import VIEWS
from reports.run.warehouse import Run, open_warehouse, setup_statements
from scoring.table import IMAGE_SCHEMA
from scoring.taxonomy import ATTRIBUTES
from tests.reports.conftest import ROWS, MakeRun


def rows(run: Run, statement: str) -> list[tuple[object, ...]]:
    return list(run.select(statement)[1])


def test_views_hold_every_row(common_run: Run) -> None:
    assert rows(
        common_run,
        "SELECT (FROM images SELECT count(*)), (FROM scored SELECT count(*)), "
        "(FROM quarantined SELECT count(*)), (FROM attributes SELECT count(*))",
    ) == [(8, 6, 2, 8 * 22)]
    assert common_run.select("FROM images")[0] == IMAGE_SCHEMA.names


def test_attributes_keep_what_was_not_assessed_apart(common_run: Run) -> None:
    asked = "SELECT value, count(*) FROM attributes WHERE status = 'scored' AND attribute = 'beliefs' GROUP BY ALL"
    assert sorted(rows(common_run, asked), key=str) == [(0.0, 4), (None, 2)]
    levels = rows(common_run, "SELECT DISTINCT attribute, attribute_level FROM attributes")
    assert dict(levels) == {a.key: a.level for a in ATTRIBUTES}  # type: ignore[arg-type]


def test_rates_leave_out_quarantined_images(common_run: Run) -> None:
    found = {row[0]: row[1:] for row in rows(common_run, "FROM rates")}
    counts, rate = ["num_scored", "num_private", "num_unknown"], ["privacy_rate", "rate_low", "rate_high"]
    screen = ["num_screened", "num_guarded", "num_missed"]
    assert common_run.select("FROM rates")[0] == ["category", *counts, *rate, "num_quarantined", *screen]
    assert set(found) == {"beach", "office", "attic", "(none)"}
    interval = binomtest(2, 3).proportion_ci(0.95, method="wilson")
    expected = [pytest.approx(share) for share in (2 / 3, interval.low, interval.high)]
    assert found["beach"] == (3, 2, 0, *expected, 1, 0, 0, 0)
    assert found["attic"] == (0, 0, 0, None, None, None, 1, 0, 0, 0)
    assert found["(none)"][:4] == (1, 0, 0, 0.0)


def test_wilson_is_scipys_ends_exactly_at_the_edge_and_is_null_of_nothing(common_run: Run) -> None:
    for k, n in ((0, 1), (1, 1), (50, 50), (3, 17), (999, 100_000)):
        interval = binomtest(k, n).proportion_ci(0.95, method="wilson")
        found = rows(common_run, f"SELECT wilson_low({k}, {n}), wilson_high({k}, {n})")
        assert found == [(pytest.approx(interval.low, abs=1e-12), pytest.approx(interval.high, abs=1e-12))]
    asked = "SELECT DISTINCT wilson_low(0, n), wilson_high(n, n), wilson_low(n, n) < 1 FROM range(1, 5000) AS t(n)"
    assert rows(common_run, asked) == [(0.0, 1.0, True)]
    assert rows(common_run, "SELECT wilson_low(0, 0), wilson_high(0, 0)") == [(None, None)]


def test_run_without_score_files_has_empty_typed_views(make_run: MakeRun) -> None:
    run = open_warehouse(str(make_run(rows=())))
    for view in VIEWS:
        assert rows(run, f"FROM {view}") == []
    assert run.select("FROM images")[0] == IMAGE_SCHEMA.names


def test_odd_folder_name(make_run: MakeRun) -> None:
    folder = make_run(name="it's [1] run*?")
    assert rows(open_warehouse(str(folder)), "SELECT count(*) FROM images") == [(len(ROWS),)]


def test_run_behind_a_url(make_run: MakeRun) -> None:
    memory = fsspec.filesystem("memory")
    memory.put(str(make_run()), "/reports-test/run", recursive=True)
    try:
        run = open_warehouse("memory://reports-test/run")
        assert rows(run, "SELECT count(*) FROM images") == [(len(ROWS),)]
        with pytest.raises(QueryError):
            rows(run, "FROM read_text('memory://reports-test/run/run.json')")
    finally:
        memory.rm("/reports-test", recursive=True)


def test_setup_statements_work_in_a_fresh_duckdb(make_run: MakeRun) -> None:
    folder = str(make_run())
    with duckdb.connect() as fresh:
        fresh.execute(setup_statements(folder))
        fresh.execute(setup_statements(folder))  # a second time replaces the first
        theirs = fresh.execute("FROM rates ORDER BY category").fetchall()
    assert theirs == rows(open_warehouse(folder), "FROM rates ORDER BY category")


def test_not_a_run(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"no run\.json"):
        open_warehouse(str(tmp_path))
    with pytest.raises(RunError, match=r"no run\.json"):
        setup_statements(str(tmp_path / "absent"))
    with pytest.raises(StorageError):
        open_warehouse("nosuchprotocol://bucket/run")
    (tmp_path / "run.json").write_text("[1]")
    with pytest.raises(RunError, match="is damaged; scan into"):
        open_warehouse(str(tmp_path))


def test_broken_score_file_is_one_line(make_run: MakeRun) -> None:
    folder = make_run()
    min((folder / "scores").iterdir()).write_bytes(b"PAR1 but no more")
    with pytest.raises(RunError) as caught:
        open_warehouse(str(folder))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("FROM imges", 'no view "imges" (did you mean "images"?); there are: images, scored, '),
        ("SELECT * FROM nothing_like_it", 'no view "nothing_like_it"; there are: images, '),
        ("SELECT categry FROM images", 'no column "categry" (did you mean "category"?); "DESCRIBE '),
        ("SELECT i.bimetrics FROM images AS i", 'no column "bimetrics" (did you mean "biometrics"?); "DESCRIBE '),
        ("SELECT privacy_rte FROM rates", 'no column "privacy_rte" (did you mean "privacy_rate"?); "DESCRIBE '),
        ("SELECT quarantine_reason FROM images", 'no column "quarantine_reason" (did you mean "reason"?); "DESCRIBE '),
        ("SELECT score FROM rates", 'no column "score" (did you mean "num_scored"?); "DESCRIBE '),
        ("SELECT cout(*) FROM images", 'no function "cout" (did you mean "count"?)'),
        ("SELEC 1", 'the SQL is not valid: syntax error at or near "SELEC"'),
    ],
)
def test_a_misspelt_name_is_answered_with_what_is_near(common_run: Run, statement: str, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        rows(common_run, statement)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("statement", "advice"),
    [
        ("SELECT category::INTEGER FROM images", '^at "::INTEGER": a value cannot be converted as asked; TRY_CAST'),
        ("SELECT strptime(category, '%Y') FROM images", "leave such rows out"),
        ("SELECT 9e18::BIGINT * length(category) * 9 FROM images", "DOUBLE"),
        ("SELECT error(category) FROM images", "leave such rows out"),
        ("SELECT regexp_matches('a', category || '(') FROM images", "leave such rows out"),
    ],
)
def test_what_fails_on_a_row_says_what_to_do_and_nothing_of_the_row(
    common_run: Run, statement: str, advice: str
) -> None:
    with pytest.raises(QueryError, match=advice) as caught:
        rows(common_run, statement)
    result = str(caught.value)
    assert "\n" not in result
    assert not [word for word in ("beach", "office", "attic") if word in result]


def test_setup_statements_of_a_run_in_a_folder_of_control_characters(make_run: MakeRun) -> None:
    statements = setup_statements(str(make_run(name="a'b\x1b[31m\x9b\u202eé")))
    assert not [c for c in statements if not c.isprintable() and c != "\n"]
    with duckdb.connect() as fresh:
        fresh.execute(statements)
        assert fresh.execute("SELECT count(*) FROM images").fetchall() == [(len(ROWS),)]
