"""`privsieve similarity rank`: which metric follows what was recognised."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from reports.similarity.results import PAIRS_SCHEMA
from tests.jobs.made import privsieve

rank = ("similarity", "rank")
NO_NAMES = "set,key,recognised"


def pairs(path: Path, semsim: Sequence[float], psnr: Sequence[float], still: float | None = None) -> Path:
    """Sets s0, s1 and so on of two pairs each, whose metrics differ by a little around those given."""
    rows = [
        {
            "set": f"s{n}",
            "key": key,
            "state": "compared",
            "semsim": s + more,
            "psnr": p + more,
            "mse": 10.0,
            "num_areas": 1,
        }
        | {"still_detected": None if still is None else still * n}
        for n, (s, p) in enumerate(zip(semsim, psnr, strict=True))
        for key, more in (("a", 0.0), ("b", 0.01))
    ]
    rows.append({"set": "s0", "key": "c", "state": "unreadable"})
    pq.write_table(pa.Table.from_pylist(rows, schema=PAIRS_SCHEMA), path)
    return path


def votes(path: Path, lines: Sequence[str], head: str = "set,key,recognised,annotator") -> Path:
    path.write_text("\n".join([head, *lines]) + "\n")
    return path


def ranked(capsys: pytest.CaptureFixture[str], *args: object) -> dict[str, Any]:
    assert privsieve(*rank, *args, "--format", "json") == 0
    result: dict[str, Any] = json.loads(capsys.readouterr().out)["collections"][0]
    return result


def test_a_metric_with_the_order_of_people_has_a_tau_of_one_and_the_opposite_order_minus_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = pairs(tmp_path / "pairs.parquet", semsim=[0.1, 0.5, 0.9, 1.2], psnr=[10, 20, 30, 40])
    labels = votes(
        tmp_path / "v.csv", ["s0,a,1,x", "s0,b,1,x", "s1,a,1,x", "s1,b,0,x", "s2,a,0,x", "s2,b,0,x", "s3,a,0,x"]
    )
    result = ranked(capsys, file, "--labels", labels)
    assert {each["name"]: each["recognised"] for each in result["sets"]} == {"s0": 1, "s1": 0.5, "s2": 0, "s3": 0}
    semsim, psnr = (result["metrics"][name] for name in ("semsim", "psnr"))
    assert semsim["of_sets"]["kendall"] == pytest.approx(-psnr["of_sets"]["kendall"])
    assert semsim["of_sets"]["kendall"] == pytest.approx(5 / (5 * 6) ** 0.5)  # τ-b with one tie of people
    assert (semsim["of_pairs"], psnr["of_pairs"]) == (1, 0)
    assert result["metrics"]["mse"]["of_sets"]["kendall"] is None, "it is the same everywhere"
    assert "ssim" not in result["metrics"]
    assert result["num_without_answer"] == 1


def test_five_votes_are_decided_by_the_majority_and_a_tie_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = pairs(tmp_path / "pairs.parquet", [0.1, 0.2, 0.3], [3, 2, 1])
    five = [f"s0,a,{answer},p{n}" for n, answer in enumerate([1, 1, 0, 1, 0])]
    tie = ["s0,b,1,p0", "s0,b,0,p1", "s0,b,,p2"]
    labels = votes(tmp_path / "v.csv", [*five, *tie, "s1,a,0,p0", "s2,a,0,p0"])
    result = ranked(capsys, file, "--labels", labels)
    assert result["num_tied"] == 1
    assert result["sets"][0] | {"means": {}} == {"name": "s0", "num_pairs": 1, "recognised": 1, "means": {}}


def test_detectors_judge_without_labels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = pairs(tmp_path / "pairs.parquet", [0.9, 0.6, 0.3], [1, 2, 3], still=0.4)
    result = ranked(capsys, file)
    assert [each["recognised"] for each in result["sets"]] == pytest.approx([0, 0.4, 0.8])
    assert result["metrics"]["semsim"]["of_sets"]["spearman"] == pytest.approx(1)


def test_the_text_warns_of_few_sets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = pairs(tmp_path / "pairs.parquet", [0.9, 0.6, 0.3], [1, 2, 3], still=0.4)
    assert privsieve(*rank, file) == 0
    text = capsys.readouterr().out
    assert "6 judged pairs of 3 sets" in text
    assert "below 14 a high figure can be chance" in text


def test_labels_may_be_parquet_with_booleans(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = pairs(tmp_path / "pairs.parquet", [0.9, 0.6, 0.3], [1, 2, 3])
    columns = {"set": ["s0", "s1", "s2"], "key": ["a"] * 3, "recognised": [False, True, True]}
    pq.write_table(pa.table(columns), tmp_path / "votes.parquet")
    result = ranked(capsys, file, "--labels", tmp_path / "votes.parquet")
    assert [each["recognised"] for each in result["sets"]] == [0, 1, 1]


@pytest.mark.parametrize(
    ("lines", "head", "error"),
    [
        (["s0,a,perhaps,x"], "set,key,recognised,annotator", "line 2: needs set and key, and recognised as 1 or 0"),
        (["s0,a,1,x", "s0,a,0,x"], "set,key,recognised,annotator", "line 3: this annotator judges the pair a second"),
        (["s0,a,1,x"], "set,key,private,annotator", 'has no column "recognised"'),
        (["s0,a,1,x"], "set,key,recognised,annotator", "at least three sets with judged pairs, and there are 1"),
    ],
)
def test_wrong_labels_are_one_line(
    tmp_path: Path, lines: list[str], head: str, error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = pairs(tmp_path / "pairs.parquet", [0.9, 0.6, 0.3], [1, 2, 3])
    assert privsieve(*rank, file, "--labels", votes(tmp_path / "v.csv", lines, head)) == 2
    assert error in (line := capsys.readouterr().err)
    assert line.count("\n") == 1


def test_pairs_without_any_judgement_and_other_files_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert privsieve(*rank, pairs(tmp_path / "pairs.parquet", [0.9, 0.6, 0.3], [1, 2, 3])) == 2
    assert "give --labels, or compare with --look-again" in capsys.readouterr().err
    (tmp_path / "other.parquet").write_bytes(b"PAR1 and no more")
    assert privsieve(*rank, tmp_path / "other.parquet") == 2
    assert "is no file of similarity compare --out" in capsys.readouterr().err
