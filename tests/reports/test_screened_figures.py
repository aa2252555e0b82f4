"""Figures of a run with a screen beside those of the same pictures without one, with the guard as `screen fit` sets it.

The engine's answers are canned ones; which pictures the screen leaves out is planted.
"""

import csv
import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from ingest.errors import Fault
from jobs.screening.request import FitRequest
from reports.report.compute import summarise
from reports.report.results import Report
from reports.report.words import bounds_of_all
from reports.run.warehouse import open_warehouse
from reports.words import percent_within
from scoring.assessment import Assessment, EngineOptions, View
from scoring.engines import canned
from scoring.privacy import private_of_values
from scoring.screen.guard import is_guarded
from scoring.table import FULL, GUARD, SCREEN, Facts, FirstLook, ScreenedOut, Verdict, to_table
from scoring.taxonomy import KEYS
from tests.auditing.made import write
from tests.jobs.made import privsieve
from tests.making import Capture
from tests.records import run_record, write_result

NUM_IMAGES = 6_000
NUM_PRIVATE = 300
NUM_PUBLIC = NUM_IMAGES - NUM_PRIVATE
NUM_ASSESSED = 600
"""The answers about these are those of all; most of them are private."""

PASSED = 0.1
"""Share of the public pictures that pass the screen."""

GUARD_SHARE = FitRequest.guard

Answers = list[tuple[str, Assessment, bool]]
"""sha256, the engine's answer, and whether that is private."""


@pytest.fixture(scope="module")
def answers() -> Answers:
    engine, pixels = canned.load(EngineOptions()), np.zeros((1, 1, 3), np.uint8)
    hashes = [hashlib.sha256(f"picture {number}".encode()).hexdigest() for number in range(NUM_IMAGES)]
    given = engine.assess([View(pixels, frozenset(), sha256) for sha256 in hashes[:NUM_ASSESSED]])
    assessments = [answer for answer in given if isinstance(answer, Assessment)]
    private = private_of_values(np.stack([answer.values for answer in assessments]).astype(np.float64))
    places = [np.resize(np.flatnonzero(private == side), num) for side, num in ((1, NUM_PRIVATE), (0, NUM_PUBLIC))]
    chosen = zip(hashes, np.concatenate(places).tolist(), strict=True)
    return [(sha256, assessments[place], bool(private[place] == 1)) for sha256, place in chosen]


@pytest.fixture
def reported(answers: Answers, tmp_path: Path) -> Callable[..., Report]:
    """seed, share of the private pictures that the screen misses (None: no screen), unreadable pictures -> report."""

    def report(seed: int, miss_rate: float | None, num_quarantined: int = 0) -> Report:
        generator = np.random.default_rng(seed)
        is_private = np.array([is_private for _, _, is_private in answers])
        left_out = np.zeros(NUM_IMAGES, dtype=np.bool_)
        if miss_rate is not None:
            left_out[generator.choice(np.flatnonzero(is_private), round(miss_rate * NUM_PRIVATE), replace=False)] = True
            left_out |= ~is_private & (generator.random(NUM_IMAGES) >= PASSED)
        looks = [
            FirstLook(GUARD if is_guarded(sha256, GUARD_SHARE) else SCREEN, 0.01) if is_left_out else FirstLook(FULL)
            for (sha256, _, _), is_left_out in zip(answers, left_out, strict=True)
        ]
        verdicts: list[Verdict] = [
            ScreenedOut() if look.stage == SCREEN else answer
            for look, (_, answer, _) in zip(looks, answers, strict=True)
        ]
        judged = [place for place, look in enumerate(looks) if look.stage == FULL]
        for place in judged[:num_quarantined]:
            verdicts[place] = Fault("truncated", "the file ends early")
        facts = [Facts("0.tar", i, f"{i}.jpg", None, 9, sha256) for i, (sha256, _, _) in enumerate(answers)]
        folder = tmp_path / f"{seed} {miss_rate}"
        (folder / "scores").mkdir(parents=True)
        record = run_record(asdict(canned.describe(EngineOptions())) | {"assessed": list(KEYS)})
        (folder / "run.json").write_text(record.model_dump_json())
        write_result(folder, "0.tar", 0, True, to_table(facts, verdicts, looks))
        return summarise(open_warehouse(str(folder)))

    return report


@pytest.mark.slow
def test_the_rate_over_all_has_the_rate_without_a_screen_in_its_interval(reported: Callable[..., Report]) -> None:
    """Also where the screen misses more than it promises: the guarded pictures show it."""
    truth = reported(0, None)
    assert truth.overall.rate == NUM_PRIVATE / NUM_IMAGES
    assert (truth.total.num_screened, truth.total.num_scored) == (0, NUM_IMAGES)
    for seed, miss_rate in enumerate((0.0, 0.01, 0.01, 0.3)):
        found = reported(seed, miss_rate)
        total, overall = found.total, found.overall
        assert total.num_scored + total.num_screened == NUM_IMAGES
        assert 30 < total.num_guarded < 80  # one in a hundred of about 5,100
        assert total.num_private == NUM_PRIVATE - round(miss_rate * NUM_PRIVATE) + total.num_missed
        assert overall.low is not None
        assert overall.high is not None
        assert overall.low <= NUM_PRIVATE / NUM_IMAGES <= overall.high
        assert overall.high - overall.low < 0.12
        assert total.privacy_rate is not None
        assert total.privacy_rate > 0.2  # the screen left out nearly all public pictures


def test_labels_of_what_passed_and_of_the_guard_give_the_rate_of_all_pictures(
    reported: Callable[..., Report], answers: Answers, tmp_path: Path, capsys: Capture
) -> None:
    num_quarantined = 100
    before = reported(2, 0.0, num_quarantined)
    run = before.run
    assert privsieve("audit", "sample", run, "--out", tmp_path / "list.csv", "--n", 200) == 0
    is_private = {sha256: private for sha256, _, private in answers}
    rows = [row | {"private": int(is_private[row["sha256"]])} for row in csv.DictReader((tmp_path / "list.csv").open())]
    assert privsieve("audit", "apply", run, write(tmp_path / "labels.csv", rows), "--format", "json") == 0
    out = capsys.readouterr().out
    audit = json.loads(out[out.index("{") :])
    private = audit["subjects"][0]
    assert audit["population"] == "images that were scored or screened out"
    assert audit["num_images"] - audit["num_scored"] - audit["num_screened"] == num_quarantined
    assert private["raw_rate"] == pytest.approx(before.overall.rate)
    rate = (NUM_PRIVATE - num_quarantined) / (NUM_IMAGES - num_quarantined)  # the first pictures are private
    assert private["corrected"]["low"] < rate < private["corrected"]["high"] < 0.2
    assert not audit["categories"]

    report = summarise(open_warehouse(run))
    assert privsieve("report", run, "--full", "--html", tmp_path / "page.html") == 0
    text, page = capsys.readouterr().out, (tmp_path / "page.html").read_text()
    value, low, high = private["corrected"].values()
    sentence = (
        f"{percent_within(value, low, high)} of the images that were scored or screened out are private (corrected"
    )
    for where in (text, page):
        assert sentence in where
        assert "; the engine itself found " in where
    low, high = (end * (1 - num_quarantined / NUM_IMAGES) for end in (low, high))
    high += num_quarantined / NUM_IMAGES
    left_out = (
        f"The corrected rate leaves out {num_quarantined} quarantined images. With them it is between "
        f"{percent_within(low, low, high)} (none of them private, low end of the interval) and "
        f"{percent_within(high, low, high)} (all of them, high end)."
    )
    assert bounds_of_all(report) == left_out
    assert left_out in page
    assert left_out in text


def test_without_a_label_of_the_guard_only_bounds_of_all_pictures_are_known(
    reported: Callable[..., Report], answers: Answers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = reported(2, 0.0).run
    assert privsieve("audit", "sample", run, "--out", tmp_path / "list.csv", "--n", 200) == 0
    is_private = {sha256: private for sha256, _, private in answers}
    rows = [
        row | {"private": "" if is_guarded(row["sha256"], GUARD_SHARE) else int(is_private[row["sha256"]])}
        for row in csv.DictReader((tmp_path / "list.csv").open())
    ]
    assert privsieve("audit", "apply", run, write(tmp_path / "labels.csv", rows)) == 0
    assert privsieve("report", run) == 0
    text = capsys.readouterr().out
    assert "% of the images that were scored or screened out are private: label more of the sample." in text
    assert "were found private (" in text
