"""`labels same-tags`: PrivacyAlert's study of pictures that share their tags, and its removal of such pictures."""

import csv
import hashlib
import json
from pathlib import Path

import numpy as np
import pytest

from reports.labels.same_tags import left_out, same_tags, sets_of
from scoring.labels.table import read_labels
from tests.jobs.made import privsieve, tar
from tests.scoring.test_screen import averaging_model
from tests.screens import blocks

CAPTIONS = [
    *("beach, sunset", "Sunset beach", "sunset;beach"),  # one set: private, private, public
    *("my passport", "passport my"),  # another one: private, private
    *("mountain", "", "bridge", "engine", "recipe", "logo", "harbour"),
]
PRIVATE = [1, 1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Twelve pictures, which three people label alike but for the first two, which ben calls public."""
    generator = np.random.default_rng(3)
    pictures = [blocks(generator) for _ in CAPTIONS]
    members = dict[str, bytes]()
    for number, (picture, caption) in enumerate(zip(pictures, CAPTIONS, strict=True)):
        members |= {f"{number:02d}.png": picture, f"{number:02d}.txt": caption.encode()}
    (tmp_path / "shards").mkdir()
    tar(tmp_path / "shards" / "0.tar", members)
    with (tmp_path / "votes.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["sha256", "annotator", "private"])
        for person in ("ana", "ben", "cleo"):
            for number, picture in enumerate(pictures):
                says = 0 if person == "ben" and number < 2 else PRIVATE[number]
                writer.writerow([hashlib.sha256(picture).hexdigest(), person, says])
    (tmp_path / "encoder.onnx").write_bytes(averaging_model())
    return tmp_path


def test_sets_with_the_same_tags_are_compared_and_one_picture_of_each_is_left(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = (corpus / "shards", "--labels", corpus / "votes.csv", "--encoder", corpus / "encoder.onnx")
    asked = ("labels", "same-tags", *files, "--quiet")
    assert privsieve(*asked, "--out", corpus / "distinct.csv") == 0
    said = capsys.readouterr().out
    assert "12 labelled pictures, 11 with tags; 5 share them, in 2 sets" in said
    assert "sets with different labels: 1 of 2 (50.0 %)" in said
    # ana and cleo differ within the first set, ben does not; nobody differs within the second.
    assert "where a person judged several pictures of a set, the labels were the same: 4 of 6 (66.7 %)" in said
    assert "3 pictures left out of" in said
    kept = read_labels(str(corpus / "distinct.csv"))
    assert kept.num_rows == 9 * 3
    assert len(set(kept["sha256"].to_pylist())) == 9
    assert privsieve(*asked, "--format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["num_sets"], found["num_different"], found["num_left_out"]) == (2, 1, 3)
    by_default = tuple(part for part in asked if part not in ("--encoder", corpus / "encoder.onnx"))
    assert privsieve(*by_default, "--format", "json") == 0
    by_frozen = json.loads(capsys.readouterr().out)
    of_neighbours = {"num_alike", "num_fitting"}  # the rest follows from the tags alone
    assert {name: by_frozen[name] for name in {*found} - of_neighbours} == {
        name: found[name] for name in {*found} - of_neighbours
    }
    assert all(by_frozen[name] is not None for name in of_neighbours)
    assert privsieve(*asked, "--out", corpus / "distinct.csv") == 2
    assert "distinct.csv already exists" in capsys.readouterr().err


def test_a_set_looks_alike_if_near_pictures_have_other_labels() -> None:
    """Two groups of pictures in opposite directions; of each set one picture is labelled otherwise."""
    vectors = np.repeat(np.array([[1.0, 0.0], [-1.0, 0.1]], np.float32), 12, axis=0)
    private = np.repeat([1.0, 0.0], 12)
    tags: list[tuple[int, ...] | None] = [None] * 24
    tags[0] = tags[1] = (7,)  # both in the first group
    tags[2] = tags[13] = (8,)  # one in each
    private[1] = 0
    found = same_tags(tags, [f"{n:02d}" for n in range(24)], private, [], vectors)
    assert (found.num_sets, found.num_different, found.num_alike) == (2, 2, 1)
    assert (found.num_decided, found.num_fitting) == (24, 23)  # all but the picture that is labelled otherwise
    assert found.num_met_again == 0
    assert left_out(sets_of(tags), [f"{n:02d}" for n in range(24)]) == {1, 13}


def test_too_few_pictures_have_no_neighbours() -> None:
    few = same_tags(
        [(1,), (1,)], ["a", "b"], np.array([1.0, 0.0]), [("ana", 0, 1.0), ("ana", 1, 0.0)], np.eye(2, dtype=np.float32)
    )
    assert (few.num_alike, few.num_fitting) == (None, None)
    assert (few.num_met_again, few.num_consistent) == (1, 0)
