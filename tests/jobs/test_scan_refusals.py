"""What a scan refuses, and that nothing of it is left: the right command works in the same place afterwards."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from ingest.formats import open_source
from ingest.storage.place import place
from jobs.scanning.slice_scanner import SliceScanner
from jobs.scanning.slice_tasks import ScanSettings, SliceTask
from scoring.assessment import EngineDescription, EngineOptions
from scoring.runs.ledger import result_name
from tests.jobs.made import privsieve, rows, shard
from tests.records import scanned_record

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    shard(folder / "00000.tar", 1, 3)
    shard(folder / "00001.tar", 4, 3)
    return folder


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("--stall-seconds nan", "nan is no finite number"),
        ("--stall-seconds inf", "inf is no finite number"),
        ("--engine-cpus nan", "nan is no finite number"),
        ("--engine-gpus nan", "nan is no finite number"),
        ("--engine-gpus 1.5", "--engine-gpus 1.5: give a part of one GPU, or a whole number of GPUs"),
        ("--sample 2 --seed -1", "-1 is not in the range x>=0"),
        ("--num-engines 3 --max-engines 2", "--max-engines 2 is less than --num-engines 3"),
        ("--sample 7", "--sample 7 of a corpus of 6: leave --sample out to scan all"),
        pytest.param("--engine-cpus 4096 --ray-address local", "--engine-cpus 4096: Ray has ", marks=pytest.mark.ray),
    ],
)
def test_a_wrong_number_is_one_line_and_no_run(
    corpus: Path, tmp_path: Path, capsys: Capture, options: str, why: str
) -> None:
    run = tmp_path / "run"
    scan = ("scan", corpus, "--run", run, "--engine", "canned", "--quiet")
    assert privsieve(*scan, *options.split()) == 2
    output = capsys.readouterr()
    assert why in output.err
    assert len(output.err.splitlines()) == 1
    assert output.out == ""
    assert not run.exists() or not any(run.iterdir())


def test_a_source_whose_path_is_not_utf_8_is_one_line(corpus: Path, tmp_path: Path, capsys: Capture) -> None:
    odd = Path(f"{tmp_path}/caf\udce9")
    corpus.rename(odd)
    assert privsieve("scan", odd, "--run", tmp_path / "run", "--engine", "canned") == 2
    message = f"{tmp_path}/caf\\xe9 has bytes that are not UTF-8, as run.json is; rename it, or give a link to it"
    assert capsys.readouterr().err == f"privsieve: {message}\n"
    assert not (tmp_path / "run").exists()


def test_the_right_sample_is_taken_after_a_wrong_one(corpus: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    scan = ("scan", corpus, "--run", run, "--engine", "canned", "--quiet", "--sample")
    assert privsieve(*scan, 7) == 2
    assert privsieve(*scan, 5) == 0
    assert len(rows(run)) == 5


@pytest.mark.slow
def test_a_result_that_was_made_with_other_settings_is_reported(corpus: Path, tmp_path: Path, capsys: Capture) -> None:
    run, other = tmp_path / "run", tmp_path / "other"
    scan = ("scan", corpus, "--engine", "canned", "--quiet", "--run")
    assert privsieve(*scan, run) == 0
    assert privsieve(*scan, other, "--max-frames", 3) == 0
    name = min(path.name for path in (run / "scores").iterdir())
    shutil.copy(other / "scores" / name, run / "scores" / name)
    capsys.readouterr()
    assert privsieve(*scan, run) == 2
    message = f"the score file {run}/scores/{name} was made with other settings; remove it and run the same scan again"
    assert capsys.readouterr().err == f"privsieve: {message}\n"
    (run / "scores" / name).unlink()
    assert privsieve(*scan, run) == 0


@pytest.mark.slow
def test_a_run_that_other_code_began_goes_on_with_a_word(corpus: Path, tmp_path: Path, capsys: Capture) -> None:
    run = tmp_path / "run"
    scan = ("scan", corpus, "--run", run, "--engine", "canned", "--quiet")
    assert privsieve(*scan) == 0
    record = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps(record | {"code": "0" * 64}))
    assert privsieve(*scan) == 0
    assert capsys.readouterr().err == ""  # nothing was left to do
    min((run / "scores").iterdir()).unlink()
    assert privsieve(*scan) == 0
    assert capsys.readouterr().err == f"{run} was begun with other code of privsieve; new rows are of this one\n"


def test_an_engine_that_was_refused_leaves_nothing_that_others_must_agree_with(corpus: Path, tmp_path: Path) -> None:
    run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    source = open_source(str(corpus), None, None)
    settings = ScanSettings(
        source,
        place(str(run)),
        scanned_record(),
        EngineOptions(),
        code="",
        description=EngineDescription("canned", "", (), num_gpus=1),
    )
    slice_ = next(iter(source.slices("00000.tar")))
    task = SliceTask(slice_, result_name("00000.tar", 0, slice_.is_last), "", source.version_mark("00000.tar"), "")
    assert SliceScanner(replace(settings, run=place(str(elsewhere)))).scan(task).failure == ""
    (own,) = (elsewhere / "canary").iterdir()
    answer = json.loads(own.read_text())
    different = run / "canary" / "of-the-first-engine.json"
    different.parent.mkdir(parents=True)
    different.write_text(json.dumps(answer | {"probabilities": [[0.1, 0.8, 0.1]] * 22}))
    refused = SliceScanner(settings).scan(task)
    assert refused.is_fatal
    assert "an engine is set up differently from another one of this run" in refused.failure
    assert list(different.parent.iterdir()) == [different]
    different.write_text("{")
    assert SliceScanner(settings).scan(task).failure == f"{different} is damaged; remove it"
    different.unlink()
    own_again = different.with_name(own.name)
    assert SliceScanner(settings).scan(task).failure == ""
    assert list(different.parent.iterdir()) == [own_again]
