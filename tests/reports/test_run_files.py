"""DuckDB reads a run and can write nowhere, even where the check of statements is passed by."""

import hashlib
import io
import re
import threading
from pathlib import Path

import duckdb
import fsspec
import pytest

from ingest.errors import StorageError
from ingest.storage.place import Place, place
from reports.run.run_files import RunFiles
from reports.run.warehouse import open_warehouse
from tests.reports.conftest import MakeRun, contents


@pytest.mark.parametrize(
    "statement",
    [
        "COPY (SELECT 1) TO 'run://0.parquet'",
        "COPY (SELECT 1) TO 'run://new.parquet'",
        "COPY (SELECT 1 AS a, 2 AS b) TO 'run://' (FORMAT parquet, PARTITION_BY a, OVERWRITE_OR_IGNORE)",
        "COPY (SELECT 1) TO 'RUN/scores/0.parquet'",
        "COPY (SELECT 1) TO 'file://RUN/scores/0.parquet'",
        "COPY (SELECT 1) TO 'RUN/../out.csv'",
        "COPY (SELECT 1) TO 'RUN/new' (FORMAT csv, PER_THREAD_OUTPUT)",
        "WITH x AS (COPY (SELECT 1) TO 'run://0.parquet') SELECT 1",
        "SELECT * FROM json_execute_serialized_sql(json_serialize_sql("
        "'WITH x AS (COPY (SELECT 1) TO ''run://0.parquet'') SELECT 1'))",
        "SELECT * FROM json_execute_serialized_sql(json_serialize_sql("
        "'WITH x AS (COPY (SELECT 1) TO ''RUN/scores/0.parquet'') SELECT 1'))",
        "EXPORT DATABASE 'run://x'",
        "EXPORT DATABASE 'RUN/x'",
        "ATTACH 'RUN/x.duckdb'",
        "ATTACH 'run://x.duckdb'",
        "SET disabled_filesystems = ''",
        "SET allowed_directories = ['RUN']",
        "FROM read_text('RUN/run.json')",
        "FROM read_blob('/etc/passwd')",
        "CREATE PERSISTENT SECRET s (TYPE http)",
        "INSTALL httpfs",
    ],
)
def test_the_connection_itself_cannot_write_nor_read_anything_else(
    make_run: MakeRun, tmp_path: Path, statement: str
) -> None:
    folder = make_run()
    before, run = contents(tmp_path), open_warehouse(str(folder))
    with pytest.raises(duckdb.Error):
        run.connection.execute(statement.replace("RUN", str(folder))).fetchall()
    assert contents(tmp_path) == before


@pytest.mark.parametrize("path", ["run://../run.json", "run:///etc/passwd", "run://*/../run.json"])
def test_the_connection_finds_nothing_above_the_scores(make_run: MakeRun, path: str) -> None:
    assert open_warehouse(str(make_run())).connection.execute(f"FROM read_blob('{path}')").fetchall() == []


def test_only_files_that_lie_directly_in_the_folder_are_reached(tmp_path: Path) -> None:
    (tmp_path / "scores").mkdir()
    for name in ("outside", "scores/a.parquet", "scores/b.txt"):
        (tmp_path / name).write_bytes(b"12345")
    files = RunFiles(place(str(tmp_path / "scores")), ["a.parquet", "b.txt"])
    assert files.glob("run://*.parquet") == ["run://a.parquet"]
    assert files.open("run://a.parquet").read() == b"12345"
    for name in ("../outside", "..", "", "/etc/passwd", str(tmp_path / "outside"), "absent"):
        assert not files.isfile(f"run://{name}")
        with pytest.raises((FileNotFoundError, StorageError)):
            files.open(f"run://{name}")
    for mode in ("wb", "ab", "r+b", "rb+", "xb"):
        with pytest.raises(PermissionError):
            files.open("run://a.parquet", mode)
    assert sorted(contents(tmp_path).values()) == [hashlib.sha256(b"12345").hexdigest()] * 3


@pytest.mark.parametrize("is_local", [True, False])
def test_threads_that_share_an_open_file_do_not_move_each_other(tmp_path: Path, is_local: bool) -> None:
    memory = fsspec.filesystem("memory")
    where = place(str(tmp_path)) if is_local else Place(memory, "/shared-file")
    where.at("a").write(bytes(range(100)))
    with RunFiles(where, ["a"]).open("run://a") as file:
        file.seek(10)
        other = threading.Thread(target=file.seek, args=(90,))
        other.start()
        other.join()
        assert (file.tell(), file.read(3)) == (10, bytes([10, 11, 12]))
        assert file.seek(-5, io.SEEK_END) == 95
        assert (file.read(), file.read(1)) == (bytes(range(95, 100)), b"")
    if not is_local:
        memory.rm("/shared-file", recursive=True)


def test_a_score_file_that_cannot_be_read_is_named(make_run: MakeRun) -> None:
    folder = make_run()
    run = open_warehouse(str(folder))
    file = next((folder / "scores").iterdir())
    file.unlink()
    file.symlink_to("absent")
    with pytest.raises(StorageError, match=rf"cannot read .*/scores/{re.escape(file.name)}: no such file or directory"):
        list(run.select("SELECT sum(index) FROM images")[1])
