"""One image that kills, hangs or eats memory costs one row; the others get theirs."""

from pathlib import Path

import pytest

from tests.faults.drill import finish, make_shards, rows, sha256, start_scan

NUM_IMAGES = 60
BAD = 47


@pytest.mark.parametrize(
    ("deed", "reason", "options"),
    [
        ("crash", "crash", ()),
        ("memory", "crash", ("--stall-seconds", "20", "--image-memory-mb", "600")),
        ("hang", "timeout", ("--stall-seconds", "3")),
    ],
)
def test_a_bad_image_costs_one_row(deed: str, reason: str, options: tuple[str, ...], tmp_path: Path) -> None:
    make_shards(tmp_path / "corpus", 2, NUM_IMAGES // 2)
    scan = start_scan(tmp_path / "corpus", tmp_path / "run", *options, drill={sha256(BAD): deed})
    code, out, err = finish(scan)
    assert (code, err) == (0, "")
    assert f"{NUM_IMAGES} images in 2 of 2 shards: {NUM_IMAGES - 1} scored, 1 quarantined ({reason} 1)" in out
    found = rows(tmp_path / "run")
    assert [r["sha256"] for r in found] == [sha256(n) for n in range(NUM_IMAGES)]
    assert [r["reason"] for r in found if r["status"] == "quarantined"] == [reason]
    assert found[BAD]["reason"] == reason
    assert not list((tmp_path / "run" / "attempts").iterdir())
