"""An engine whose memory grows is loaded again between two slices; one that does not start is tried again."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from ingest.errors import EngineError
from ingest.formats import open_source
from ingest.storage.place import place
from jobs.scanning import engine_host
from jobs.scanning.batch import Flow
from jobs.scanning.engine_host import EngineHost, NotLoadedError
from jobs.scanning.slice_scanner import SliceScanner
from jobs.scanning.slice_tasks import ScanSettings, slices_left
from scoring.assessment import Engine, EngineDescription, EngineOptions, Outcome, View
from scoring.engines import canned
from scoring.runs.attempts import EngineTime
from scoring.runs.ledger import Ledger
from tests.ingest.made import jpeg
from tests.jobs.made import tar
from tests.jobs.test_engine_time import StepsOfTen
from tests.making import Patch
from tests.records import scanned_record

NUM_SHARDS = 9
LEFT_BYTES = 500_000_000


class LeakingEngine(canned.CannedEngine):
    """Keeps 100 MB of every batch until it is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.kept = bytearray()

    def assess(self, views: Sequence[View]) -> list[Outcome]:
        self.kept += b"\1" * 100_000_000
        return super().assess(views)

    def close(self) -> None:
        self.kept.clear()


def _settings(folder: Path, num_gpus: int = 0) -> ScanSettings:
    (folder / "corpus").mkdir()
    for number in range(NUM_SHARDS):
        tar(folder / "corpus" / f"{number:02}.tar", {"a.jpg": jpeg(number)})
    corpus = open_source(str(folder / "corpus"), None, None)
    description = EngineDescription("canned", "", (), num_gpus=num_gpus)
    return ScanSettings(
        corpus, place(str(folder / "run")), scanned_record(), EngineOptions(), code="", description=description
    )


def test_an_engine_that_leaks_is_loaded_again_between_slices_and_each_picture_has_a_row(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    """Of 500 MB that are left it may take 250: it is closed once three slices have left theirs."""
    engines: list[LeakingEngine] = []
    most = [0]

    def load(options: EngineOptions) -> Engine:
        most.append(sum(len(engine.kept) for engine in engines))
        engines.append(LeakingEngine())
        return engines[-1]

    monkeypatch.setattr(canned, "load", load)
    monkeypatch.setattr(engine_host, "available_bytes", lambda: LEFT_BYTES)
    settings = _settings(tmp_path)
    scanner = SliceScanner(settings)
    time = EngineTime()
    for shard in settings.source.shards:
        for task in slices_left(settings, shard, None, Ledger({}, {})):
            counts = scanner.scan(task)
            assert (counts.num_rows, counts.failure) == (1, "")
            time += counts.engine_time or EngineTime()
    assert time.num_restarts == len(engines) - 1 == NUM_SHARDS // 3 - 1
    assert set(most) == {0}, "an engine is closed before another is loaded"


@pytest.mark.parametrize(("num_failures", "num_gpus", "num_tries"), [(2, 1, 3), (9, 1, 3), (9, 0, 1)])
def test_an_engine_on_a_gpu_is_tried_three_times(
    num_failures: int, num_gpus: int, num_tries: int, tmp_path: Path, monkeypatch: Patch
) -> None:
    tries = []

    def load(options: EngineOptions) -> Engine:
        tries.append(options)
        if len(tries) <= num_failures:
            raise EngineError("the GPU is full")
        return canned.CannedEngine()

    monkeypatch.setattr(canned, "load", load)
    monkeypatch.setattr(engine_host, "WAIT_S", 0)
    host = EngineHost(_settings(tmp_path, num_gpus), Flow())
    if num_failures < num_tries:
        host.scorer()
    else:
        with pytest.raises(NotLoadedError, match="the GPU is full"):
            host.scorer()
    assert len(tries) == num_tries


class SteppingEngine(StepsOfTen, LeakingEngine):
    pass


def test_what_was_measured_of_an_engine_outlives_it(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(canned, "load", lambda options: SteppingEngine())
    flow = Flow()
    host = EngineHost(_settings(tmp_path), flow)
    host.scorer()
    flow.held(5)
    flow.held(-5)
    host.restart()
    assert host.built_with == StepsOfTen.built_with
    assert host.engine_time() == EngineTime(most_bytes_ahead=5, num_restarts=1)
    assert host.engine_time() is None
