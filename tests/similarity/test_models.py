"""The second look, by the detectors."""

import json
from pathlib import Path

import pytest

from tests.jobs.made import privsieve
from tests.making import Capture

DEMO = Path(__file__).parents[2] / "jobs" / "demo" / "corpus" / "tree"


@pytest.mark.slow
def test_detectors_find_faces_below_noise_and_none_below_a_box(tmp_path: Path, capsys: Capture) -> None:
    methods = ("--method", "noise=10", "--method", "solid=100", "--look-again")
    arguments = ("--sample", 2, "--format", "json", "--quiet")
    assert privsieve("similarity", "compare", DEMO / "portrait", *methods, *arguments) == 0
    noisy, black = json.loads(capsys.readouterr().out)["sets"]
    assert noisy["num_detected_in"] == black["num_detected_in"] == 2
    assert noisy["still_detected"] > 0.5
    assert black["still_detected"] == 0
