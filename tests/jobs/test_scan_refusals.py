"""What a scan refuses, and that nothing of it is left: the right command works in the same place afterwards."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ingest.formats import open_source
from ingest.storage.place import place
from jobs.scanning.slice_scanner import SliceScanner
from jobs.scanning.slice_tasks import ScanSettings, SliceTask
from scoring.assessment import EngineDescription, EngineOptions
from scoring.runs.ledger import result_name
from tests.jobs.made import privsieve, shard
from tests.making import Capture
from tests.records import scanned_record


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    shard(folder / "00000.tar", 1, 3)
    shard(folder / "00001.tar", 4, 3)
    return folder


@pytest.mark.ray
def test_more_cpus_than_ray_has_are_one_line_and_no_run(corpus: Path, tmp_path: Path, capsys: Capture) -> None:
    options = ("--engine-cpus", 4096, "--ray-address", "local", "--quiet")
    assert privsieve("scan", corpus, "--run", tmp_path / "run", "--engine", "canned", *options) == 2
    assert "--engine-cpus 4096: Ray has " in capsys.readouterr().err
    assert not (tmp_path / "run").exists() or not any((tmp_path / "run").iterdir())


def test_a_source_whose_path_is_not_utf_8_is_one_line(corpus: Path, tmp_path: Path, capsys: Capture) -> None:
    odd = Path(f"{tmp_path}/caf\udce9")
    corpus.rename(odd)
    assert privsieve("scan", odd, "--run", tmp_path / "run", "--engine", "canned") == 2
    message = f"{tmp_path}/caf\\xe9 has bytes that are not UTF-8, as run.json is; rename it, or give a link to it"
    assert capsys.readouterr().err == f"privsieve: {message}\n"
    assert not (tmp_path / "run").exists()


def test_an_engine_that_was_refused_leaves_nothing_that_others_must_agree_with(corpus: Path, tmp_path: Path) -> None:
    run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    source = open_source(str(corpus), None, None)
    described = EngineDescription("canned", "", (), num_gpus=1)
    settings = ScanSettings(source, place(str(run)), scanned_record(), EngineOptions(), code="", description=described)
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
