"""A short turn of the kill drill; the long one is `python -m tests.faults.kills`."""

from pathlib import Path

import pytest

from tests.faults.kills import run_drill


@pytest.mark.ray
def test_nothing_is_lost_and_nothing_doubled(tmp_path: Path) -> None:
    """Scans of one run: the driver of the first, and two actors and a node of the second are killed."""
    num_kills = {"driver": 1, "actor": 2, "raylet": 1}
    outcome = run_drill(tmp_path, 16, 125, num_kills, seed=3)
    assert outcome.kills == num_kills
    assert (outcome.num_lost, outcome.num_doubled, outcome.num_foreign, outcome.num_repeated) == (0, 0, 0, 0)
    assert outcome.last_line == "2,000 images in 16 of 16 shards: 2,000 scored, 0 quarantined"
