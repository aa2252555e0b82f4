"""The acceptance of SemSim: pairs that PSNR gets wrong, on the pictures of the demo.

A person recognises the negative of a picture, a bright, pale, grainy or shifted one, though all of its pixels differ.
Nobody recognises one of a few blurred spots, though its pixels are nearer to the original's.
"""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.jobs.made import privsieve
from tests.papers.test_scripts import script

DEMO = Path(__file__).parents[2] / "jobs" / "demo" / "corpus" / "tree"
RECOGNISABLE = ("invert=1", "brightness=180", "contrast=35", "shift=6", "noise=45")
UNRECOGNISABLE = ("downscale=10", "blur=6", "pixelate=8")


@pytest.mark.slow
def test_semsim_orders_pairs_of_equal_psnr_by_whether_they_can_be_recognised(tmp_path: Path) -> None:
    out = tmp_path / "pairs.parquet"
    ways = (*RECOGNISABLE, *UNRECOGNISABLE)
    script("change").main([str(DEMO), str(tmp_path / "changed"), *ways])
    folders = [tmp_path / "changed" / name for name in ways]
    assert privsieve("similarity", "compare", DEMO, *folders, "--part", "whole", "--out", out, "--quiet") == 0
    pairs = [row for row in pq.read_table(out).to_pylist() if row["state"] == "compared"]
    assert len(pairs) == 11 * 8
    truth = {(row["set"], row["key"]): float(row["set"] in RECOGNISABLE) for row in pairs}
    taus = {metric: tau for metric, (tau, _) in script("rank_metrics").ranks(truth, pairs).items()}
    assert taus["semsim"] > 0.6 > 0 > taus["psnr"]

    # Of each recognisable pair, the unrecognisable ones whose PSNR is the same but for half a decibel.
    hits = [
        recognised["semsim"] < other["semsim"]
        for recognised in pairs
        if recognised["set"] in RECOGNISABLE
        for other in pairs
        if other["set"] in UNRECOGNISABLE and abs(recognised["psnr"] - other["psnr"]) < 0.5
    ]
    assert len(hits) >= 50
    assert sum(hits) / len(hits) > 0.9
