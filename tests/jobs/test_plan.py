"""What a scan will take: the arithmetic on made-up measurements, and plans on small real corpora."""

import json
from pathlib import Path
from threading import Thread

import pytest

from jobs.commands.plan import TIMES, in_unit
from jobs.planning import measuring
from jobs.planning.planning import PlanRequest, run_plan, speed_of
from jobs.scanning.request import ScanRequest, ScanResources
from jobs.scanning.run import run_scan
from tests.jobs.made import jpeg, privsieve, tar
from tests.making import Capture, Patch

INLINE = ScanResources(executor="inline", processes=1)


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    for number in range(3):
        images = {f"{number}{n}.jpg": jpeg(50 * number + n) for n in range(10 + number)}
        tar(folder / f"{number:05d}.tar", images | {"zz.jpg": b"", "zzz.txt": b"no picture"})
    return folder


def test_the_speed_is_that_after_the_start() -> None:
    """Ten images a second for 10 s, in which further processes load their engines, then thirty."""
    marks = [*((float(s), 10 * s) for s in range(11)), *((float(s), 100 + 30 * (s - 10)) for s in range(11, 31))]
    assert speed_of(marks) == pytest.approx(30)
    assert speed_of([(0.0, 0), (10.0, 8)]) == 0.8
    assert speed_of([(0.0, 5)]) == 0


def test_a_scan_ended_by_a_plan_is_continued_and_no_row_is_there_twice(
    corpus: Path, tmp_path: Path, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(measuring, "SCAN_S", 0.0)
    request = ScanRequest(str(corpus), str(tmp_path / "run"), engine="canned")
    found = run_plan(request, INLINE, PlanRequest(price_per_hour=2.0))
    assert (found.num_shards, found.num_images) == (3, 39)
    assert found.num_done <= 39
    assert (found.cost is None) is (found.hours is None)
    result = run_scan(request, INLINE)
    assert (result.num_images, result.num_new_images) == (39, 39 - found.num_done)


def test_what_is_scanned_whole_leaves_nothing(corpus: Path, tmp_path: Path) -> None:
    request = ScanRequest(str(corpus), str(tmp_path / "run"), engine="canned")
    first = run_plan(request, INLINE)
    assert (first.num_images, first.num_done, first.hours_left) == (39, 39, 0)
    assert first.quarantined_share == 6 / 39
    assert first.result_gigabytes is not None
    assert run_plan(request, INLINE).num_done == 39


def test_of_a_sample_and_of_the_first_images_the_number_is_known(corpus: Path, tmp_path: Path) -> None:
    sample = ScanRequest(str(corpus), str(tmp_path / "sample"), engine="canned", sample=5)
    assert run_plan(sample, INLINE).num_images == 5
    first = ScanRequest(str(corpus), str(tmp_path / "first"), engine="canned", limit=7)
    assert run_plan(first, INLINE).num_images == 7


def test_a_plan_in_another_thread_is_refused(corpus: Path, tmp_path: Path) -> None:
    caught = list[Exception]()

    def planned() -> None:
        try:
            run_plan(ScanRequest(str(corpus), str(tmp_path / "run"), engine="canned"), INLINE)
        except Exception as error:
            caught.append(error)

    thread = Thread(target=planned)
    thread.start()
    thread.join()
    assert "must be asked for in the main thread" in str(caught[0])
    assert not (tmp_path / "run").exists()


def test_the_images_of_a_corpus_are_estimated_from_the_shards_that_are_listed(
    corpus: Path, tmp_path: Path, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(measuring, "MAX_LISTED_SHARDS", 2)
    monkeypatch.setattr("jobs.scanning.run.MAX_COUNTED_TARS", 0)
    monkeypatch.setattr(measuring, "SCAN_S", 0.0)
    monkeypatch.setenv("PRIVSIEVE_DRILL", str(tmp_path / "drill.json"))
    (tmp_path / "drill.json").write_text('{"*": 0.05}')  # so slow that the plan ends the scan
    found = run_plan(ScanRequest(str(corpus), str(tmp_path / "run"), engine="canned"), INLINE)
    assert 36 <= found.num_images <= 42  # the three shards have 12, 13 and 14
    assert "from 2 of the shards" in found.images_origin


def test_the_verb_in_json_and_text(corpus: Path, tmp_path: Path, capsys: Capture) -> None:
    given = ("plan", corpus, "--run", tmp_path / "run", "--engine", "canned", "--executor", "inline", "--quiet")
    assert privsieve(*given, "--format", "json", "--price-per-hour", 1) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["num_images"] == 39
    assert privsieve(*given) == 0
    text = capsys.readouterr().out
    assert "15.4 % of them quarantined" in text
    assert "cost" not in text


@pytest.mark.parametrize(
    ("hours", "time"),
    [(0.163 / 3600, "0.163 s"), (0.5, "30 min"), (2.0, "2 h"), (300.0, "12.5 days"), (20_000.0, "2.28 years")],
)
def test_times_have_units_that_fit(hours: float, time: str) -> None:
    assert in_unit(hours, TIMES) == time
