"""`privsieve status`: done, left and failed shards, while a scan works and after it was killed."""

import json
import os
import signal
import tarfile
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.faults.drill import finish, make_shards, sha256, start_scan
from tests.jobs.in_process import scan_in_process
from tests.jobs.made import compact_run, privsieve
from tests.making import Capture


@pytest.mark.slow
def test_status_of_a_scan_at_work_killed_and_finished(tmp_path: Path, capsys: Capture) -> None:
    make_shards(tmp_path / "corpus", 3, 30)
    run = tmp_path / "run"
    # The first image of the second shard takes so long that the scan is killed before it is through with it.
    scan = start_scan(tmp_path / "corpus", run, "--executor", "inline", "--processes", "1", drill={sha256(30): 1500.0})
    while scan.poll() is None and not list((run / "scores").glob("*.parquet")):
        time.sleep(0.05)
    assert privsieve("status", run) == 0
    shown = capsys.readouterr().out
    assert "3 shards: 1 done, 2 left, 0 failed" in shown
    assert f"process {scan.pid} on" in shown
    os.kill(scan.pid, signal.SIGKILL)
    finish(scan)
    assert privsieve("status", run, "--format", "json") == 0
    output = json.loads(capsys.readouterr().out)
    assert [shard["shard"] for shard in output["shards"]] == ["00000.tar", "00001.tar", "00002.tar"]
    assert output["scanned_by"]["pid"] == scan.pid
    assert output["scope"] is None, "not yet all of the source"
    assert privsieve("status", run) == 0
    assert "and is gone; run the same scan again to continue" in capsys.readouterr().out
    unfinished = [run / "scores" / "a.parquet.0123abcd.part", run / "attempts" / "a.parquet.json.0123abcd.part"]
    for left_behind in unfinished:
        left_behind.write_bytes(b"of a worker that was killed while it wrote")
    code, out, err = finish(start_scan(tmp_path / "corpus", run, "--executor", "inline"))
    assert (code, err) == (0, "")
    assert not any(left_behind.exists() for left_behind in unfinished)
    assert "90 images in 3 of 3 shards: 90 scored, 0 quarantined" in out
    assert privsieve("status", run) == 0
    assert capsys.readouterr().out.splitlines() == [
        "3 shards: 3 done, 0 left, 0 failed",
        "90 images so far: 90 scored, 0 quarantined",
        "no scan is running",
        f"next: privsieve report {run}",
    ]


def test_a_shard_that_vanishes_fails_alone_and_is_listed(tmp_path: Path, capsys: Capture) -> None:
    make_shards(tmp_path / "corpus", 2, 5)
    broken = tmp_path / "corpus" / "00001.tar"
    broken.unlink()
    broken.symlink_to(tmp_path / "nowhere")
    run = tmp_path / "run"
    scan = ("scan", tmp_path / "corpus", "--run", run, "--engine", "canned", "--executor", "inline")
    assert privsieve(*scan) == 1
    out, err = capsys.readouterr()
    assert "5 images in 1 of 2 shards: 5 scored" in out
    assert "1 of 2 shards have images without a row, 00001.tar first" in err
    assert "no such file or directory" in err
    assert privsieve("status", run) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == "2 shards: 1 done, 0 left, 1 failed"
    assert "failed  00001.tar" in shown[1]
    broken.unlink()
    with tarfile.open(broken, "w"):
        pass
    assert privsieve(*scan) == 0
    assert privsieve("status", run) == 0
    assert "2 shards: 2 done" in capsys.readouterr().out


@pytest.mark.slow
def test_verify_names_a_result_in_which_one_bit_of_a_page_was_flipped(tmp_path: Path, capsys: Capture) -> None:
    make_shards(tmp_path / "corpus", 2, 5)
    run = tmp_path / "run"
    scan_in_process(tmp_path / "corpus", run)
    assert privsieve("status", run, "--verify") == 0
    assert "10 rows read: no page of a result is damaged" in capsys.readouterr().out
    file, *_ = sorted((run / "scores").glob("*.parquet"))
    content, metadata = file.read_bytes(), pq.read_metadata(file)
    columns = [metadata.row_group(0).column(number) for number in range(metadata.num_columns)]
    for column in columns:
        last = (column.dictionary_page_offset or column.data_page_offset) + column.total_compressed_size - 1
        file.write_bytes(content[:last] + bytes([content[last] ^ 4]) + content[last + 1 :])
        assert privsieve("status", run, "--verify") == 2, column.path_in_schema
        assert f"the score file {file} is damaged" in capsys.readouterr().err
    file.write_bytes(content)
    compact_run(run)
    capsys.readouterr()
    assert privsieve("status", run, "--verify", "--format", "json") == 0
    assert json.loads(capsys.readouterr().out)["num_rows_verified"] == 10
