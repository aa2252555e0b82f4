"""A plan with a screen: its cost next to the cost without, and no advice to use it where it does not pay."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from jobs.planning.arithmetic import plan_of
from scoring.screen.record import Labelled, ScreenRecord
from scoring.screen.screen_file import write_screen
from tests.benchmarks.screen import fitted
from tests.jobs.made import MEASURED, privsieve
from tests.screens import planted_corpus

NUM_LABELS = 10_000


@pytest.fixture(scope="module")
def record() -> ScreenRecord:
    """By its labels a tenth of the pictures passes, and a hundredth of the others is guarded."""
    made = fitted(np.random.default_rng(7), 0.05, 130, 200, 7).record
    labelled = Labelled(num_pictures=NUM_LABELS, num_private=500, num_screened=9_000)
    return made.model_copy(update={"labelled": labelled, "guard_share": 0.01})


def test_an_engine_on_a_gpu_sees_what_passes_and_what_is_guarded(record: ScreenRecord) -> None:
    measured = dataclasses.replace(MEASURED, screen=record, screen_s=(0.02, 0.02), has_gpu=True)
    plan = plan_of(measured, gpus=10, price_per_hour=2.5)
    assert plan.screen is not None
    assert plan.screen.seen_share.value == pytest.approx(0.1 + 0.9 * 0.01)
    assert plan.screen.seen_share.low < plan.screen.seen_share.value < plan.screen.seen_share.high
    assert plan.screen.hours.value == pytest.approx(plan.hours.value * 0.109)
    assert plan.screen.cost is not None
    assert plan.screen.cost.value == pytest.approx(plan.screen.hours.value * 25)
    assert plan.screen.cpus_per_gpu == pytest.approx(80 * 0.024 / 0.109)  # 80 images/s: decoded and screened are more
    assert plan.screen.pays


@pytest.mark.parametrize(("screen_s", "pays"), [(0.002, True), (0.0105, False)])
def test_a_screen_that_takes_the_time_it_saves_is_not_recommended(
    record: ScreenRecord, screen_s: float, pays: bool
) -> None:
    """An engine on the CPU takes 12.5 ms here, and 4 of them are decoding, which a screen does not save."""
    plan = plan_of(dataclasses.replace(MEASURED, screen=record, screen_s=(screen_s,)), gpus=10, price_per_hour=None)
    assert plan.screen is not None
    assert plan.screen.pays is pays
    seconds = screen_s + 0.891 * 0.004 + 0.109 * 0.0125
    assert plan.screen.hours.value == pytest.approx(6_000_000 * seconds / 10 / 3600)
    assert plan.screen.cost is None


def test_a_plan_shows_both_costs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    planted_corpus(tmp_path / "corpus", 5, 5, 1)
    made = fitted(np.random.default_rng(7), 0.05, 130, 200, 7, ("caption",))
    write_screen(str(tmp_path / "screen"), made.record, made.predictor, np.array([1], np.uint64), None)
    given = ("plan", tmp_path / "corpus", "--engine", "canned", "--screen", tmp_path / "screen", "--quiet")
    assert privsieve(*given) == 2  # its features are planted ones, which no version computes
    assert "the screen was fitted with other features of the modality caption" in capsys.readouterr().err
