"""The run folder: what is taken for one, and what a reader is told whose files went away."""

from pathlib import Path

import pytest

from ingest.errors import RunError
from ingest.results import results
from ingest.storage import place
from jobs.run import open_run, rows_at, start_or_continue
from tests.jobs.made import privsieve
from tests.jobs.test_compact import made_run


def test_a_scan_that_was_killed_before_its_record_was_whole_begins_again(tmp_path: Path) -> None:
    record = open_run(str(made_run(tmp_path, ((1,),))))[1]
    run = tmp_path / "other"
    run.mkdir()
    (run / "run.json.0123abcd.part").write_bytes(b'{"privs')
    start_or_continue(str(run), record)
    assert open_run(str(run))[1] == record
    (run / "run.json").rename(run / "diary.txt")
    with pytest.raises(RunError, match="holds other files and is no run"):
        start_or_continue(str(run), record)


def test_a_reader_of_slices_that_were_compacted_meanwhile_is_not_told_to_delete_anything(tmp_path: Path) -> None:
    run = made_run(tmp_path, ((5,), (6,)))
    where = place(str(run))
    found = results(where).of("00000.tar")
    damaged = next((run / "scores").glob("00000*"))
    content = damaged.read_bytes()
    damaged.write_bytes(b"PAR1")
    with pytest.raises(RunError, match="is damaged; delete it and run the same scan again"):
        rows_at(where, found)
    damaged.write_bytes(content)
    assert privsieve("compact", run) == 0
    with pytest.raises(RunError, match="run was compacted meanwhile; ask again"):
        rows_at(where, found)
    assert rows_at(where, results(where).of("00000.tar")).num_rows == 5
