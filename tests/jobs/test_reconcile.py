"""A slice without a result is missing; results of two states of a shard are a change."""

from pathlib import Path

import pyarrow as pa

from ingest.formats import open_source
from scoring.runs.coverage import tally
from scoring.runs.ledger import finished, result_name
from scoring.runs.record import read_record
from scoring.runs.results import results
from tests.ingest.made import jpeg, parquet_file
from tests.jobs.in_process import scan_in_process

SHARD = "a.parquet"


def _changed(run: Path) -> list[str]:
    """What a scan that continues the run calls changed."""
    opened, record = read_record(str(run))
    source = open_source(str(run.parent / "corpus"), None, None)
    found = results(opened)
    return tally(opened, record.settings_hash(), source, found.ledger, found).changed


def test_a_slice_given_up_between_two_others_is_missing_and_not_changed(tmp_path: Path) -> None:
    run, pictures = tmp_path / "run", pa.table({"image": [jpeg(number) for number in range(6)]})
    parquet_file(tmp_path / "corpus" / SHARD, pictures, rows=2)
    scan_in_process(tmp_path / "corpus", run)
    (run / "scores" / result_name(SHARD, 1, False)).unlink()
    assert _changed(run) == []
    opened, _ = read_record(str(run))
    assert not finished(SHARD, results(opened).ledger)
    scan_in_process(tmp_path / "corpus", run)
    assert finished(SHARD, results(opened).ledger)
    assert _changed(run) == []
