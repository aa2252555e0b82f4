"""Runs whose rows were written before columns were added: null there, and all else as it was."""

from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.errors import RunError
from ingest.storage.place import place
from reports.run.warehouse import open_warehouse, setup_statements
from scoring.assessment import EngineOptions
from scoring.engines import canned
from scoring.runs.results import results
from scoring.runs.rows import rows_at
from scoring.table import IMAGE_SCHEMA, LATER, SCHEMA
from tests.jobs.made import made_run, privsieve

SHARDS = ((5, 4), (6,))
OLDER = {"all": (0, 1, 2), "some": (0, 2), "none": ()}
"""Which of the result files an older version wrote."""


def older(run: Path, numbers: tuple[int, ...], dropped: frozenset[str] = LATER) -> None:
    for number, file in enumerate(sorted((run / "scores").iterdir())):
        if number in numbers:
            table = pq.read_table(file)
            pq.write_table(table.drop_columns(sorted(dropped)), file, compression="zstd")


@pytest.fixture(params=OLDER)
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    run = run_of_known_content(tmp_path)
    older(run, OLDER[request.param])
    return run


def run_of_known_content(folder: Path) -> Path:
    """Every image has data behind its end."""
    run = made_run(folder, SHARDS, engine=asdict(canned.describe(EngineOptions())))
    for file in (run / "scores").iterdir():
        table = pq.read_table(file)
        for name, value in (("unseen", ["trailing_data"]), ("unseen_bytes", 99)):
            values = pa.array([value] * table.num_rows, SCHEMA.field(name).type)
            table = table.set_column(table.column_names.index(name), name, values)
        pq.write_table(table, file, compression="zstd")
    return run


def test_rows_of_older_versions_are_null_in_later_columns(tmp_path: Path) -> None:
    run = run_of_known_content(tmp_path)
    before = read(run)
    older(run, OLDER["some"])
    after = read(run)
    assert after.schema == SCHEMA
    assert after.drop_columns(sorted(LATER)) == before.drop_columns(sorted(LATER))
    assert after["unseen_bytes"].to_pylist() == [None] * 5 + [99] * 4 + [None] * 6
    assert after["unseen"].to_pylist() == [None] * 5 + [["trailing_data"]] * 4 + [None] * 6


def test_the_views_of_an_older_run_have_every_column(run: Path) -> None:
    names, rows = open_warehouse(str(run)).select('FROM images ORDER BY shard, "index"')
    assert names == IMAGE_SCHEMA.names
    assert [dict(zip(names, row, strict=True))["unseen"] for row in rows] == read(run)["unseen"].to_pylist()
    with duckdb.connect() as shell:
        shell.execute(setup_statements(str(run)))
        asked = 'SELECT unseen_bytes FROM scored ORDER BY shard, "index"'
        scored = read(run).filter(pa.compute.field("status") == "scored")
        assert [row[0] for row in shell.execute(asked).fetchall()] == scored["unseen_bytes"].to_pylist()


def test_an_older_run_is_compacted_with_every_column(run: Path) -> None:
    before = read(run)
    assert privsieve("compact", run) == 0
    assert read(run) == before
    assert open_warehouse(str(run)).select("SELECT count(unseen) FROM images")[1].__next__() == (
        before.num_rows - before["unseen"].null_count,
    )


def test_a_run_that_an_older_version_compacted_is_read(tmp_path: Path) -> None:
    run = run_of_known_content(tmp_path)
    assert privsieve("compact", run) == 0
    [file] = (run / "compact").iterdir()
    marks = {key: value for key, value in pq.read_metadata(file).metadata.items() if key != b"ARROW:schema"}
    table = pq.read_table(file).drop_columns(sorted(LATER))
    pq.write_table(table.replace_schema_metadata(marks), file, compression="zstd")
    assert read(run)["unseen"].null_count == 15
    assert next(open_warehouse(str(run)).select("SELECT count(*), count(unseen) FROM images")[1]) == (15, 0)


@pytest.mark.parametrize("numbers", OLDER["all"])
def test_a_file_without_a_column_that_every_version_has_is_damaged(tmp_path: Path, numbers: int) -> None:
    run = run_of_known_content(tmp_path)
    older(run, (numbers,), frozenset(["gov_ids"]))
    with pytest.raises(RunError, match="is damaged; delete it and run the same scan again"):
        read(run)
    readers: tuple[Callable[[str], object], ...] = (open_warehouse, setup_statements)
    for reader in readers:
        with pytest.raises(RunError, match=r'1 of the score files in .* have no column "gov_ids"'):
            reader(str(run))
    assert privsieve("compact", run) == 2
    assert len(list((run / "scores").iterdir())) == 3


def read(run: Path) -> pa.Table:
    """All rows, as the other verbs read them."""
    where = place(str(run))
    found = results(where)
    ranges = [rows for shard in ("00000.tar", "00001.tar") for rows in found.of(shard)]
    return rows_at(where, ranges).combine_chunks()
