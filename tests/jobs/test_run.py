"""The run folder: what counts as one, what differs, and the message if its files cannot be read."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ingest.errors import RunError, StorageError
from ingest.formats import open_source
from ingest.storage.place import place
from jobs.scanning.run import travels
from scoring.runs.coverage import tally
from scoring.runs.ledger import Ledger
from scoring.runs.record import RunRecord, read_record, remove_unfinished, start_or_continue
from scoring.runs.results import results
from scoring.runs.rows import rows_at
from tests.forbidden import forbidden, public_folder
from tests.jobs.made import compact_run, made_run
from tests.making import Patch
from tests.records import engine_record, run_record


def test_a_scan_that_was_killed_before_its_record_was_whole_begins_again(tmp_path: Path) -> None:
    record = read_record(str(made_run(tmp_path, ((1,),))))[1]
    run = tmp_path / "other"
    run.mkdir()
    (run / "run.json.0123abcd.part").write_bytes(b'{"privs')
    (run / "lease.json").write_bytes(b"{}")
    (run / "look-0123abcd.part").write_bytes(b"look-0123abcd")
    start_or_continue(place(str(run)), record)
    assert read_record(str(run))[1] == record
    remove_unfinished(place(str(run)))
    assert not (run / "look-0123abcd.part").exists()
    (run / "run.json").rename(run / "diary.txt")
    with pytest.raises(RunError, match="holds other files and is not a run"):
        start_or_continue(place(str(run)), record)


def test_a_reader_of_slices_that_were_compacted_meanwhile_is_not_asked_to_delete_anything(tmp_path: Path) -> None:
    run = made_run(tmp_path, ((5,), (6,)))
    where = place(str(run))
    found = results(where).of("00000.tar")
    damaged = next((run / "scores").glob("00000*"))
    content = damaged.read_bytes()
    damaged.write_bytes(b"PAR1")
    with pytest.raises(RunError, match="is damaged; delete it and run the same scan again"):
        rows_at(where, found)
    damaged.write_bytes(content)
    compact_run(run)
    with pytest.raises(RunError, match="run was compacted meanwhile; ask again"):
        rows_at(where, found)
    assert rows_at(where, results(where).of("00000.tar")).num_rows == 5


def test_a_score_file_that_may_not_be_read_is_not_called_damaged() -> None:
    with public_folder() as folder:
        run = made_run(folder, ((5,),))
        where = place(str(run))
        found = results(where).of("00000.tar")
        file = next((run / "scores").iterdir())
        source = open_source(str(folder / "corpus"), None, None)
        for read in (
            lambda: rows_at(where, found),
            lambda: tally(where, "any", source, Ledger({}, {}), results(where)),
        ):
            with (
                forbidden(file),
                pytest.raises(StorageError, match=rf"^cannot read the score file {file}: permission denied$"),
            ):
                read()
        assert rows_at(where, found).num_rows == 5


ENGINE = engine_record(
    name="detectors",
    protocol="sha256",
    assessed=["biometrics", "nudity"],
    weights={"face.onnx": "1a2b3c4d" * 8, "text.onnx": "0" * 64},
    versions={"onnxruntime": "1.31.0"},
)


def _record(**changes: object) -> RunRecord:
    settings: dict[str, object] = {"code": "a" * 64, "source": "/c", "source_format": "tree", "sample": 9, "seed": 0}
    return RunRecord.model_validate(run_record(ENGINE).model_dump() | settings | changes)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"seed": 1}, "seed was 0, now 1"),
        ({"category": "label"}, 'category was not set, now "label"'),
        (
            {"engine": ENGINE | {"weights": {"face.onnx": "5e6f7a8b" * 8, "text.onnx": "0" * 64}}},
            "engine weights face.onnx was 1a2b3c4d…, now 5e6f7a8b…",
        ),
        (
            {"engine": ENGINE | {"versions": {"onnxruntime": "1.32.0"}}},
            'engine versions onnxruntime was "1.31.0", now "1.32.0"',
        ),
        (
            {"engine": ENGINE | {"weights": {}, "versions": {"a": "1", "onnxruntime": "2"}}},
            'onnxruntime was "1.31.0", now "2"; 1 more',
        ),
        ({"engine": ENGINE | {"assessed": ["biometrics", "age"]}}, "engine assessed had nudity and has now age"),
        ({"engine": ENGINE | {"name": "canned", "weights": {}}}, 'engine name was "detectors", now "canned"'),
    ],
)
def test_another_setting_is_reported_in_one_short_line(
    changes: dict[str, object], message: str, tmp_path: Path
) -> None:
    run = str(tmp_path / "run")
    start_or_continue(place(run), _record())
    with pytest.raises(RunError) as caught:
        start_or_continue(place(run), _record(**changes))
    result = str(caught.value)
    assert result.startswith(f"{run} was scanned with other settings: ")
    assert result.endswith(f"{message}; use another --run")
    assert len(result) < len(run) + 220


def test_another_hash_list_and_another_screen_are_answered_with_both_remedies(tmp_path: Path) -> None:
    run = str(tmp_path / "run")
    start_or_continue(place(run), _record(hash_list="a" * 64))
    bounds = {"target_miss": 0.05, "confidence": 0.95, "miss_high": 0.04, "miss_high_level_1": None}
    screen = {"sha256": "b" * 64, **bounds, "guard_share": 0.1}
    with pytest.raises(RunError) as caught:
        start_or_continue(place(run), _record(screen=screen))
    assert str(caught.value).endswith(
        "; give the hash list with which this run began, and give the screen with which this run began, none, or use "
        "another --run"
    )


def test_other_code_continues_a_run_that_keeps_the_code_of_its_beginning(tmp_path: Path) -> None:
    run = tmp_path / "run"
    start_or_continue(place(str(run)), _record())
    start_or_continue(place(str(run)), _record(code="b" * 64))
    written = json.loads((run / "run.json").read_text())
    assert written["code"] == "a" * 64


@pytest.mark.slow
def test_the_code_of_a_working_tree_has_a_hash_of_its_own(tmp_path: Path) -> None:
    top = Path(__file__).parents[2]
    for room in ("ingest", "scoring", "reports", "jobs"):
        shutil.copytree(top / room, tmp_path / room, ignore=shutil.ignore_patterns("__pycache__", "weights", "demo"))
    hashes = [_code_hash_in(tmp_path), _code_hash_in(tmp_path)]
    for changed in ("severity.py", "text_rules/data/first_names.txt"):
        with open(tmp_path / "scoring" / changed, "a") as file:
            file.write("# another line\n")
        hashes.append(_code_hash_in(tmp_path))
    assert [len(found) for found in hashes] == [64] * 4
    assert hashes[0] == hashes[1]
    assert len(set(hashes)) == 3


def _code_hash_in(folder: Path) -> str:
    code = "from jobs.runtime.on_worker import code_hash; print(code_hash())"
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_run_in_the_checkout_that_would_travel_to_a_cluster_gets_a_caution(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    (tmp_path / ".gitignore").write_text("/my-run*/\ndemo-out/\n*.log\n")
    monkeypatch.chdir(tmp_path)
    caution = travels("runs/one", tmp_path)
    assert caution is not None
    assert caution.startswith("runs/one is in the checkout of privsieve: `ray up` and `ray job submit")
    kept_here = ("my-run", "my-run-2", "demo-out/run", "../elsewhere", "s3://bucket/run", str(tmp_path.parent / "run"))
    assert [travels(run, tmp_path) for run in kept_here] == [None] * len(kept_here)
    (tmp_path / ".gitignore").unlink()
    assert travels("runs/one", tmp_path) is None, "an installed package is no checkout"
