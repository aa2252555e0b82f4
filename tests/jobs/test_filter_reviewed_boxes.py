"""Pictures covered where people corrected the boxes in `review`."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from ingest.storage.place import place
from reports.words import SIDES, first_frame_boxes
from scoring.labels.reviews import ReviewAnswers
from tests.jobs.made import privsieve, rows
from tests.jobs.releases import FACES, rows_by_key, with_policy
from tests.making import Capture


def area_of(run: Path, key: str, attribute: str) -> dict[str, float]:
    """Sides of the only box of an attribute, as `review` shows it."""
    boxes: Any = next(row["boxes"] for row in rows(run) if row["key"] == key)
    [box] = [box for box in first_frame_boxes(boxes) if box["attribute"] == attribute]
    return {side: box[side] for side in SIDES}


def middle_of(box: Mapping[str, object], picture: npt.NDArray[np.uint8]) -> tuple[int, int]:
    """Row and column of a pixel."""
    x, y = ((float(str(box[f"{axis}_min"])) + float(str(box[f"{axis}_max"]))) / 2 for axis in "xy")
    return round(y * picture.shape[0]), round(x * picture.shape[1])


def answered(run: Path, folder: Path, key: str, boxes: list[dict[str, object]], annotator: str = "ann") -> Path:
    """Somebody answers in `review`, and leaves these boxes."""
    sha256 = next(row["sha256"] for row in rows(run) if row["key"] == key)
    answer = {"sha256": sha256, "key": key, "annotator": annotator, "private": 1, "answer": "private"}
    ReviewAnswers(place(str(folder))).add(answer | {"boxes": json.dumps(boxes), "queue": "audit", "is_gold": False})
    return folder


@pytest.mark.slow
def test_a_box_that_people_removed_is_not_covered_and_one_that_they_added_is(
    seen: Path, tmp_path: Path, capsys: Capture
) -> None:
    """woman.png is a statue to ann; in woman.jpg she adds a name tag."""
    answered(seen, tmp_path / "reviews", "woman.png", [])
    tag = {"x_min": 0.0, "y_min": 0.9, "x_max": 0.2, "y_max": 1.0}
    face = {"attribute": "biometrics", "by": "model", **area_of(seen, "woman.jpg", "biometrics")}
    added = {"attribute": "full_legal_name", "by": "person", **tag}
    answered(seen, tmp_path / "reviews", "woman.jpg", [face, added])
    options = ("--policy", with_policy(tmp_path, FACES), "--boxes", tmp_path / "reviews", "--out", tmp_path / "out")
    assert privsieve("filter", seen, *options) == 0
    assert "boxes of 2 pictures are as people left them" in capsys.readouterr().out
    source = seen.parent / "source"
    before, after = (
        np.asarray(Image.open(folder / "woman.png").convert("RGB")) for folder in (source, tmp_path / "out")
    )
    assert (before == after).all()
    photo = np.asarray(Image.open(tmp_path / "out" / "woman.jpg").convert("L"))
    height, width = photo.shape
    assert photo[int(0.92 * height) :, : int(0.18 * width)].max() < 10
    assert photo[middle_of(face, photo)] < 10
    steps = rows_by_key(tmp_path / "out", "redactions")
    assert (steps["woman.png"]["num_areas"], steps["woman.png"]["released"]) == (0, True)
    assert json.loads((tmp_path / "out" / "release.json").read_text())["boxes_sha256"]
    assert privsieve("release", "verify", tmp_path / "out") == 0


@pytest.mark.slow
def test_a_box_is_covered_unless_all_people_who_changed_boxes_removed_it(seen: Path, tmp_path: Path) -> None:
    answered(seen, tmp_path / "reviews", "woman.png", [])
    face = {"attribute": "biometrics", "by": "model", **area_of(seen, "woman.png", "biometrics")}
    tag = {"attribute": "property_assets", "by": "person", "x_min": 0.0, "y_min": 0.0, "x_max": 0.1, "y_max": 0.1}
    answered(seen, tmp_path / "reviews", "woman.png", [face, tag], "bob")
    options = ("--policy", with_policy(tmp_path, FACES), "--boxes", tmp_path / "reviews", "--out", tmp_path / "out")
    assert privsieve("filter", seen, *options) == 0
    picture = np.asarray(Image.open(tmp_path / "out" / "woman.png").convert("L"))
    height, width = picture.shape
    assert picture[middle_of(face, picture)] == 0
    assert picture[: height // 20, : width // 20].max() > 0


def test_boxes_that_are_none_and_boxes_for_nothing_are_refused(seen: Path, tmp_path: Path, capsys: Capture) -> None:
    folder = answered(seen, tmp_path / "reviews", "woman.png", [{"attribute": "biometrics", "by": "model", "x_min": 2}])
    policy = with_policy(tmp_path, FACES)
    cases = {
        (policy, folder): f"{folder}: an answer has boxes that are none; remove this part",
        (policy, policy): f"--boxes {policy} is no folder; give RUN/reviews",
        ("strict", folder): "--boxes says what to cover, and no rule of the policy covers anything; leave it out",
    }
    for (name, boxes), message in cases.items():
        capsys.readouterr()
        options = ("--policy", name, "--boxes", boxes, "--out", tmp_path / "out")
        assert privsieve("filter", seen, *options) == 2
        assert capsys.readouterr().err == f"privsieve: {message}\n"
        assert not (tmp_path / "out").exists()
