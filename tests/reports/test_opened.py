"""What a program can ask a run that it opened once."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import duckdb
import fsspec
import pyarrow as pa
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from ingest.errors import Fault, QueryError
from reports.report.opened import OpenRun, open_run
from reports.report.words import private_in_words
from reports.run import warehouse
from reports.run.figures import Rate
from reports.run.warehouse import Run
from scoring.table import SCHEMA
from tests.jobs.made import privsieve
from tests.making import Capture
from tests.reports.conftest import ROWS, MakeRun, answer


class CountedStore(MemoryFileSystem):  # type: ignore[misc]  # fsspec has no types
    """A store in memory that notes which folders are listed."""

    protocol = "counted"
    listed: ClassVar[list[str]] = []

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return str(MemoryFileSystem._strip_protocol(str(path).removeprefix("counted://")))

    def ls(self, path: str, detail: bool = True, **options: Any) -> list[Any]:
        self.listed.append(str(path).rstrip("/").rpartition("/")[2])
        found: list[Any] = super().ls(path, detail, **options)
        return found


@pytest.fixture
def counted_run(common_run: Run) -> Iterator[str]:
    fsspec.register_implementation("counted", CountedStore, clobber=True)
    store = fsspec.filesystem("counted")
    store.put(common_run.url, "/opened-test/run", recursive=True)
    CountedStore.listed.clear()
    yield "counted://opened-test/run"
    store.rm("/opened-test", recursive=True)


@pytest.mark.parametrize(
    "command",
    [["report"], ["report", "--format", "json"], ["sql", "SELECT count(*) FROM attributes"], ["sql", "FROM rates"]],
)
def test_a_command_lists_the_run_once(counted_run: str, command: list[str], capsys: Capture) -> None:
    assert privsieve(command[0], counted_run, *command[1:]) == 0
    assert capsys.readouterr().out
    assert CountedStore.listed == ["scores"]


def test_one_opened_run_answers_many_questions_by_one_listing(counted_run: str) -> None:
    with open_run(counted_run) as run:
        assert run.summary().num_images == run.rows(["key"]).num_rows == len(ROWS)
        assert run.rates()[0].group == "beach"
        assert run.sql("SELECT sum(num_images)::INT AS n FROM patterns").to_pylist() == [{"n": 6}]
    assert CountedStore.listed == ["scores"]


def test_rows_have_the_documented_columns_and_types(common_run: Run) -> None:
    with open_run(common_run.url) as run:
        rows = run.rows()
        assert (rows.schema, rows.num_rows) == (SCHEMA, len(ROWS))
        assert rows["category"].to_pylist() == [category for category, _ in ROWS]
        some = run.rows(["nudity", "index"])
    assert some.schema == pa.schema([SCHEMA.field("nudity"), SCHEMA.field("index")])
    assert some.to_pylist()[1] == {"nudity": 0.5, "index": 1}
    assert some["nudity"].to_pylist()[3] is None


def test_batches_are_the_rows_file_by_file(common_run: Run) -> None:
    with open_run(common_run.url) as run:
        batches = list(run.batches(["shard", "index"]))
        assert [batch.num_rows for batch in batches] == [4, 4]
        assert pa.Table.from_batches(batches) == run.rows(["shard", "index"])


def test_rows_of_a_run_without_results_are_an_empty_table(make_run: MakeRun) -> None:
    with open_run(str(make_run(rows=()))) as run:
        assert run.rows() == SCHEMA.empty_table()
        assert run.rates() == ()


@pytest.mark.parametrize(
    ("columns", "reason"),
    [
        (["categry"], r'^no column "categry" \(did you mean "category"\?\); privsieve help columns lists them$'),
        (["unknown_level"], r'^no column "unknown_level"'),
        ([], "name at least one column, and none twice"),
        (["key", "key"], "name at least one column, and none twice"),
    ],
)
def test_wrong_columns_are_one_line(common_run: Run, columns: list[str], reason: str) -> None:
    with open_run(common_run.url) as run, pytest.raises(QueryError, match=reason):
        run.rows(columns)


def test_rates_by_category_and_by_an_expression(common_run: Run) -> None:
    with open_run(common_run.url) as run:
        groups = {rate.group: rate for rate in run.rates()}
        assert list(groups) == ["beach", "office", "(none)", "attic"]
        beach = groups["beach"]
        assert (beach.num_scored, beach.num_private, beach.num_unknown, beach.num_quarantined) == (3, 2, 0, 1)
        assert (beach.privacy_rate, beach.rate_low, beach.rate_high) == pytest.approx((2 / 3, 0.2077, 0.9385), abs=1e-4)
        assert groups["attic"] == Rate(
            "attic", 0, 0, 0, None, None, None, 1, share_if_none_private=0.0, share_if_all_private=1.0
        )
        assert [(rate.group, rate.num_private) for rate in run.rates("category IS NULL", "age = 1")] == [
            ("false", 2),
            ("true", 0),
        ]
        with pytest.raises(QueryError, match='did you mean "category"'):
            run.rates("categry")


def test_sql_gives_a_table_and_refuses_what_does_not_read(common_run: Run) -> None:
    with open_run(common_run.url) as run:
        found = run.sql("SELECT level, count(*) AS n FROM scored GROUP BY ALL ORDER BY ALL")
        assert found.to_pydict() == {"level": [0, 1, 2, 3, 4], "n": [1, 2, 1, 1, 1]}
        assert (found.schema.field("level").type, found.schema.field("n").type) == (pa.int8(), pa.int64())
        assert run.sql("SELECT 1 AS one WHERE false").num_rows == 0
        with pytest.raises(QueryError, match="one SELECT statement is wanted, not DROP"):
            run.sql("DROP VIEW images")


def test_a_summary_can_be_asked_again_and_leaves_the_views_as_they_were(common_run: Run) -> None:
    with open_run(common_run.url) as run:
        before = run.sql("SELECT num_images FROM patterns ORDER BY ALL")
        first = run.summary(by="upper(category)", top=2)
        assert [rate.group for rate in first.highest] == ["BEACH", "OFFICE"]
        assert run.summary(by="upper(category)", top=2) == first
        assert run.sql("SELECT num_images FROM patterns ORDER BY ALL") == before
        assert (first.total.num_private, first.total.privacy_rate) == (3, 0.5)
        assert run.cautions == first.cautions
        assert run.cautions[0] == "MAY BE UNFINISHED: the source cannot be listed now"


def test_the_total_is_over_all_groups_and_its_interval_is_not_the_mean_of_theirs(make_run: MakeRun) -> None:
    rows = [*[("a", answer(gov_ids=1))] * 3, *[("b", answer())] * 7, ("b", Fault("empty", "no byte"))]
    with open_run(str(make_run(rows=rows))) as run:
        total, alone = run.summary().total, run.rates("'all'")[0]
        assert total == alone
        assert (total.num_scored, total.num_private, total.privacy_rate, total.num_quarantined) == (10, 3, 0.3, 1)


def test_all_answers_are_of_the_files_that_were_there_when_the_run_was_opened(make_run: MakeRun) -> None:
    folder, other = make_run(), make_run(rows=[("late", answer())] * 2, name="other")
    with open_run(str(folder)) as run:
        late = next((other / "scores").glob("1.tar*"))
        shutil.copy(late, folder / "scores" / late.name.replace("1.tar-", "2.tar-"))
        assert run.summary().num_images == run.rows(["key"]).num_rows == len(ROWS)
        assert run.sql("SELECT count(*) AS n FROM images").to_pylist() == [{"n": len(ROWS)}]


def test_the_connection_reads_the_views_and_writes_no_file(common_run: Run, tmp_path: Path) -> None:
    with open_run(common_run.url) as run:
        assert run.connection.execute("SELECT count(*) FROM quarantined").fetchall() == [(2,)]
        with pytest.raises(duckdb.Error):
            run.connection.execute(f"COPY images TO '{tmp_path / 'out.csv'}'")
    assert not (tmp_path / "out.csv").exists()
    with pytest.raises(duckdb.Error):
        run.connection.execute("SELECT 1")


@pytest.mark.parametrize(
    ("protocol", "private", "meaning"),
    [
        ("slots", "level IN (1, 2)", "a unique identifier (level 1, such as a face"),
        ("binary:first", "private_answer = 1", "the model answered yes when asked whether the picture is private"),
        ("severity", "holistic_score >= 0.514", "the model gave a severity of 0.514 or more"),
    ],
)
def test_private_is_what_the_protocol_asks_by_default(
    common_run: Run, protocol: str, private: str, meaning: str
) -> None:
    run = warehouse.open_warehouse(common_run.url)
    engine = run.record.engine | {"protocol": protocol}
    with OpenRun(replace(run, record=run.record.model_copy(update={"engine": engine}))) as opened:
        found = opened.summary()
        assert (found.private, opened.summary(private="level = 1").private) == (private, "level = 1")
        assert meaning in private_in_words(found)
