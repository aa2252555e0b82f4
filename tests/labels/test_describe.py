"""`labels describe`: what labels say, in counts."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from scoring.labels.table import LabelsOrigin, to_labels, write_labels
from tests.jobs.made import privsieve


def test_labels_are_described_as_papers_describe_theirs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    columns: dict[str, Sequence[object]] = {
        "key": ["a", "b", "c", "a", "b"],
        "annotator": ["ana"] * 3 + ["ben"] * 2,
        "vote": ["clearly private", "public", None, "private", "private"],
        "private": [1, 0, None, 1, 1],
        "class": ["passport", "public", None, "passport", None],
        "nudity": [0, 0, None, 1, None],
        "age": [1, 0.5, None, None, None],
    }
    write_labels(to_labels(columns, 5), str(tmp_path / "labels.parquet"), LabelsOrigin("hand"))
    assert privsieve("labels", "describe", tmp_path / "labels.parquet", "--format", "json") == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["num_pictures"], said["people_per_picture"]) == (3, {"1": 1, "2": 2})
    assert said["pictures"] == {"num_private": 1, "num_public": 0, "num_open": 2}  # of b they say both
    assert said["people"]["ben"] == {"num_private": 2, "num_public": 0, "num_open": 0}
    assert said["votes"] == {"clearly private": 1, "private": 2, "public": 1, "clearly public": 0}
    assert said["attributes"] == {"nudity": {"1": 1, "0.5": 0, "0": 2}, "age": {"1": 1, "0.5": 1, "0": 0}}
    assert said["classes"] == {"passport": 2, "public": 1}
    assert privsieve("labels", "describe", tmp_path / "labels.parquet") == 0
    text = capsys.readouterr().out
    assert "people    2; pictures labelled 1 by 1, 2 by 2" in text
    assert "private   1 private, 0 public, 2 open, by the majority" in text
