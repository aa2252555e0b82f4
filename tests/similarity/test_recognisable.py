"""The acceptance of SemSim: pairs that PSNR gets wrong, on the pictures of the demo.

A person recognises the negative of a picture, a bright, pale, grainy or shifted one, though all of its pixels differ.
Nobody recognises one of a few blurred spots, though its pixels are nearer to the original's.
"""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.jobs.made import privsieve

DEMO = Path(__file__).parents[2] / "jobs" / "demo" / "corpus" / "tree"
RECOGNISABLE = ("invert=1", "brightness=180", "contrast=35", "shift=6", "noise=45")
UNRECOGNISABLE = ("downscale=10", "blur=6", "pixelate=8")


@pytest.mark.slow
def test_semsim_orders_pairs_of_equal_psnr_by_whether_they_can_be_recognised(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out, labels = tmp_path / "pairs.parquet", tmp_path / "labels.csv"
    methods = [part for name in (*RECOGNISABLE, *UNRECOGNISABLE) for part in ("--method", name)]
    assert privsieve("similarity", "compare", DEMO, *methods, "--out", out, "--quiet") == 0
    pairs = [row for row in pq.read_table(out).to_pylist() if row["state"] == "compared"]
    assert len(pairs) == 11 * 8
    lines = [f"{row['set']},{row['key']},{int(row['set'] in RECOGNISABLE)}" for row in pairs]
    labels.write_text("\n".join(["set,key,recognised", *lines]))
    capsys.readouterr()
    assert privsieve("similarity", "rank", out, "--labels", labels, "--format", "json") == 0
    metrics = json.loads(capsys.readouterr().out)["collections"][0]["metrics"]
    assert metrics["psnr"]["of_pairs"] < 0.3
    assert metrics["mse"]["of_pairs"] < 0.3
    assert metrics["semsim"]["of_pairs"] > 0.9
    assert metrics["semsim"]["of_sets"]["kendall"] > 0.6 > 0 > metrics["psnr"]["of_sets"]["kendall"]

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
