"""How long engines had fewer requests than a step takes, and why: seen by a worker, added up in the run, shown."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from ingest.errors import RunError
from ingest.sample import Sample
from ingest.storage.place import place
from jobs.scanning import batch
from jobs.scanning.batch import BATCH_SAMPLES, Flow, Room, batches, rows_in_order
from jobs.scanning.engine_host import EngineWatch, causes
from scoring.assessment import BuiltWith
from scoring.runs.attempts import EngineTime, add_engine_time, engine_time
from scoring.runs.record import refuse_other, start_or_continue, with_built
from tests.jobs.made import privsieve
from tests.making import Capture, Patch
from tests.records import run_record

ENGINE = {"name": "vllm", "protocol": "slots-1", "assessed": []}
BUILT: list[BuiltWith] = [{"max_num_seqs": 1024}, {"max_num_seqs": 256, "enforce_eager": True}]


class StepsOfTen:
    """An engine whose requests a test sets."""

    requests_per_step = 10
    num_requests = 0
    num_prepared = 0
    built_with: dict[str, bool | int | float | str] = {"max_num_seqs": 10}  # noqa: RUF012


@pytest.mark.parametrize(
    ("num_missing", "num_prepared", "flow", "expected"),
    [
        (0, 5, {"slices": 2, "reading": 2}, {}),
        (4, 9, {"slices": 2, "decoding": 32}, {"preparing": 1.0}),
        (10, 2, {"slices": 2, "decoding": 5, "reading": 1}, {"preparing": 0.2, "decoding": 0.5, "reading": 0.3}),
        (10, 0, {"slices": 2, "reading": 1, "memory": 1}, {"memory": 1.0}),
        (10, 0, {"slices": 1, "writing": 1}, {"writing": 1.0}),
        (10, 0, {"slices": 1, "rows": 1}, {"slices": 1.0}),
        (10, 0, {"slices": 2, "rows": 2}, {"writing": 1.0}),
    ],
)
def test_what_is_missing_to_a_step_is_looked_for_from_the_engine_backwards(
    num_missing: int, num_prepared: int, flow: dict[str, int], expected: dict[str, float]
) -> None:
    assert causes(num_missing, num_prepared, flow, slices_at_once=2) == pytest.approx(expected)


def test_only_time_with_something_to_scan_counts() -> None:
    flow, engine = Flow(), StepsOfTen()
    watch = EngineWatch(engine, flow, slices_at_once=2)
    watch.stop()
    watch.look(100.0)
    assert watch.taken().seconds == 0
    with flow.at("slices", 2), flow.at("reading"):
        watch.look(1.0)
        engine.num_requests, engine.num_prepared = 7, 1
        watch.look(3.0)
        engine.num_requests = 20
        watch.look(6.0)
    flow.held(500)
    flow.held(-500)
    seen = watch.taken()
    assert seen.seconds == 10.0
    assert seen.short_s == pytest.approx({"preparing": 1.0, "reading": 3.0})
    assert seen.share_short == pytest.approx(0.4)
    assert seen.most_bytes_ahead == 500
    assert watch.taken() == EngineTime()


def test_the_times_of_several_engines_are_added_up_in_the_run(tmp_path: Path) -> None:
    run = place(str(tmp_path))
    assert engine_time(run) is None
    add_engine_time(run, EngineTime(seconds=10, short_s={"reading": 1}, most_bytes_ahead=7))
    add_engine_time(run, EngineTime(seconds=30, short_s={"reading": 2, "decoding": 1}, most_bytes_ahead=5))
    both = engine_time(run)
    assert both == EngineTime(seconds=40, short_s={"reading": 3, "decoding": 1}, most_bytes_ahead=7)
    (tmp_path / "engine-time.json").write_text('{"seconds": -1}')
    with pytest.raises(RunError, match="is damaged; remove it, only status reads it"):
        engine_time(run)


def test_status_says_how_long_engines_had_too_few_requests(scanned: Path, tmp_path: Path, capsys: Capture) -> None:
    run = shutil.copytree(scanned, tmp_path / "run")
    assert privsieve("status", run) == 0
    assert "than a step takes" not in capsys.readouterr().out
    time = EngineTime(
        seconds=7200, short_s={"reading": 36, "preparing": 72}, most_bytes_ahead=200 * 2**20, num_restarts=2
    )
    add_engine_time(place(str(run)), time)
    assert privsieve("status", run) == 0
    shown = capsys.readouterr().out
    assert "engines had fewer requests than a step takes for 1.5 % of " in shown
    assert " (preparing 1.0 %, reading 0.5 %); at most 200 MiB ahead of one engine\n" in shown
    assert "engines were loaded again because their memory had grown: 2 times\n" in shown
    assert privsieve("status", run, "--format", "json") == 0
    assert json.loads(capsys.readouterr().out)["engine_time"]["short_s"] == {"reading": 36, "preparing": 72}


def test_what_an_engine_was_built_with_is_kept_once_and_hinders_no_later_scan(tmp_path: Path) -> None:
    url, record = str(tmp_path / "run"), run_record(ENGINE)
    (tmp_path / "run").mkdir()
    begun = start_or_continue(place(url), record)
    before = begun.settings_hash()
    for built_with in (BUILT[0], BUILT[0], BUILT[1]):
        begun = with_built(place(url), begun, built_with)
    stored = json.loads((tmp_path / "run" / "run.json").read_text())
    assert stored["built_with"] == BUILT
    continued = refuse_other(place(url), record)
    assert continued == begun
    assert begun.settings_hash() == before


class _CountedRoom(Room):
    num_under_way = most = 0

    def entered(self, number: int) -> None:
        super().entered(number)
        self.num_under_way += number
        self.most = max(self.most, self.num_under_way)


def _read_ahead(room: Room, flow: Flow, num_batches: int) -> list[int]:
    """Indices of the rows of so many batches."""

    def score(batch: list[Sample]) -> pa.Table:
        return pa.table({"index": [sample.index for sample in batch]})

    samples = (Sample("a.tar", number, "", None, b"0" * 1000) for number in range(num_batches * BATCH_SAMPLES))
    waiting = batches(samples)
    with ThreadPoolExecutor(4) as threads:
        return [i for rows in rows_in_order(waiting, score, threads, room, flow) for i in rows["index"].to_pylist()]


def test_reading_is_ahead_of_the_engine_by_as_many_pictures_as_it_wants() -> None:
    flow = Flow()
    room = _CountedRoom(flow, lambda: 3 * BATCH_SAMPLES)
    assert _read_ahead(room, flow, 20) == list(range(20 * BATCH_SAMPLES))
    assert 1 <= room.most <= 3
    assert room.is_left


def test_reading_waits_where_too_many_bytes_are_ahead_and_a_slice_still_comes_to_its_end(monkeypatch: Patch) -> None:
    monkeypatch.setattr(batch, "MAX_BYTES_AHEAD", 1)
    flow = Flow()
    room = _CountedRoom(flow, lambda: 100 * BATCH_SAMPLES)
    flow.held(1)
    assert _read_ahead(room, flow, 5) == list(range(5 * BATCH_SAMPLES))
    assert room.most == 1
    assert not room.is_left
