"""One image that kills, hangs or eats memory costs one row; the others get theirs."""

from pathlib import Path

import pytest

from tests.conftest import GiveDrill
from tests.faults.drill import finish, make_shards, rows, sha256, start_scan

NUM_IMAGES = 60
BAD = {7: "crash", 30: "hang", 47: "memory"}
REASONS = {7: "crash", 30: "timeout", 47: "crash"}


@pytest.mark.ray
def test_bad_images_cost_a_row_each(joining_head: None, drill_of_head: GiveDrill, tmp_path: Path) -> None:
    """One in each shard, so that each takes its own slice through two deaths and the search for who is to blame."""
    make_shards(tmp_path / "corpus", 3, NUM_IMAGES // 3)
    # What eats memory goes on in the worker until it has been silent for too long or memory ends, whichever is first;
    # the child that is alone with it is past its limit at once, long before the silence counts.
    options = ("--stall-seconds", "20", "--image-memory-mb", "300", "--num-engines", "2")
    drill_of_head({sha256(number): deed for number, deed in BAD.items()})
    code, out, err = finish(start_scan(tmp_path / "corpus", tmp_path / "run", *options))
    assert (code, err) == (0, "")
    scored = f"{NUM_IMAGES - 3} scored, 3 quarantined (crash 2, timeout 1)"
    assert out == f"{NUM_IMAGES} images in 3 of 3 shards: {scored}\n"
    found = rows(tmp_path / "run")
    assert [r["sha256"] for r in found] == [sha256(n) for n in range(NUM_IMAGES)]
    assert {n: r["reason"] for n, r in enumerate(found) if r["status"] == "quarantined"} == REASONS
    assert not list((tmp_path / "run" / "attempts").iterdir())
