"""`privsieve labels build`: which pictures are candidates, and which are drawn."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from scoring.labels import candidates as drawing
from scoring.labels.table import LabelsOrigin, read_labels, to_labels, write_labels
from scoring.taxonomy import KEYS
from tests.jobs.made import privsieve
from tests.labels import made

LABELS = {
    "face": ["a9_face_complete", "a62_opinion_political"],
    "fingerprint": ["a7_fingerprint"],
    "card": ["a30_credit_card"],
    "card_and_part_of_a_face": ["a30_credit_card", "a10_face_partial"],
    "safe_1": ["a0_safe"],
    "safe_2": ["a0_safe"],
    "age_only": ["a1_age_approx"],
    "not_judged": [],
}
CLASSES = {
    "face.jpg": drawing.LEVEL_1,
    "fingerprint.jpg": drawing.LEVEL_1,
    "card.jpg": drawing.NO_FACE,
    "card_and_part_of_a_face.jpg": drawing.LEVEL_2,
    "safe_1.jpg": drawing.SAFE,
    "safe_2.jpg": drawing.SAFE,
}


def _vispr(root: Path) -> Path:
    made.vispr_flat(root, LABELS)
    made.vispr_flat(root, {"for_tuning": ["a9_face_complete"]}, "val2017", first_shade=20)
    made.vispr_flat(root, {"for_training": ["a9_face_complete"]}, "train2017", first_shade=30)
    return root


def _built(tmp_path: Path, root: Path, *options: object) -> dict[str, dict[str, object]]:
    out = tmp_path / "list.parquet"
    out.unlink(missing_ok=True)
    assert privsieve("labels", "build", "vispr", root, "--out", out, "--quiet", *options) == 0
    return {str(row["key"]): row for row in read_labels(str(out)).to_pylist()}


def test_candidates_of_vispr(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = _built(tmp_path, _vispr(tmp_path / "vispr"))
    assert {key: row["class"] for key, row in found.items()} == CLASSES | {"for_tuning.jpg": drawing.LEVEL_1}
    assert found["face.jpg"]["split"] == "test"
    assert found["for_tuning.jpg"]["split"] == "validation"
    assert found["face.jpg"]["sha256"] is not None
    assert {row["private"] for row in found.values()} == {None}  # a list, not labels
    shown = capsys.readouterr().out
    assert "candidates for evaluation: level 1 2, level 2 1, level 2 without face 1, level 3 or 4 2" in shown


def test_a_draw_like_the_paper_prefers_level_2_without_faces(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    root = _vispr(tmp_path / "vispr")
    found = _built(tmp_path, root, "--like-paper")
    assert len(found) == 7
    shown = capsys.readouterr().out
    assert "too few of level 1: 2 of 2,860 pictures that the paper has" in shown
    assert "too few of level 3 and 4: 2 of 2,851 pictures that the paper has" in shown
    monkeypatch.setattr(drawing, "PAPER_COUNTS", {1: 1, 2: 1, 3: 1, 4: 0})
    for seed in range(4):
        drawn = _built(tmp_path, root, "--like-paper", "--seed", seed)
        assert drawn == _built(tmp_path, root, "--like-paper", "--seed", seed)
        counts = Counter(str(row["class"]) for row in drawn.values() if row["split"] == "test")
        assert counts == {drawing.LEVEL_1: 1, drawing.NO_FACE: 1, drawing.SAFE: 1}
    assert "too few" not in capsys.readouterr().out


def test_a_draw_by_annotated_levels_counts_level_0_as_4(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = _vispr(tmp_path / "vispr")
    keys = ["not a candidate", *CLASSES]
    ages, faces = [1, 0, 0, 0, 0, 1, 0], [0, 1, 0, 0, 0, 0, 0]
    columns: dict[str, Sequence[object]] = dict.fromkeys(KEYS, [0] * 7)
    columns |= {"key": keys, "annotator": ["consensus"] * 7, "age": ages, "biometrics": faces}
    write_labels(to_labels(columns, 7), str(tmp_path / "truth.parquet"), LabelsOrigin("consensus"))
    monkeypatch.setattr(drawing, "PAPER_COUNTS", {1: 5, 2: 5, 3: 5, 4: 2})
    found = _built(tmp_path, root, "--like-paper", "--labels", tmp_path / "truth.parquet")
    drawn = {key for key, row in found.items() if row["split"] == "test"}
    assert {"face.jpg", "safe_1.jpg"} <= drawn  # the one of level 1, the one of level 3
    assert len(drawn) == 4  # and two of the four without any attribute


def test_tuning_pictures_are_drawn_at_random(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = {f"tuning_{number}": ["a9_face_complete"] for number in range(8)}
    root = made.vispr_flat(_vispr(tmp_path / "vispr"), names, "val2017", first_shade=40)
    whole = _built(tmp_path, root)
    drawn = [_built(tmp_path, root, "--tuning", 3, "--seed", seed) for seed in (0, 0, 1, 2)]
    for rows in drawn:
        assert sum(row["split"] == "validation" for row in rows.values()) == 3
        assert {key: row for key, row in whole.items() if row["split"] == "test"}.items() <= rows.items()
    assert drawn[0] == drawn[1]
    assert len({frozenset(rows) for rows in drawn}) > 1
    assert "too few" not in capsys.readouterr().out
    assert len(_built(tmp_path, root, "--tuning", 2048)) == len(whole)
    assert "too few of tuning: 9 of 2,048 pictures that were asked for" in capsys.readouterr().out


def test_labels_without_a_draw_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ("labels", "build", "vispr", tmp_path, "--out", tmp_path / "o.parquet", "--quiet")
    assert privsieve(*command, "--labels", "x.parquet") == 2
    assert "--labels is for --like-paper" in capsys.readouterr().err


def test_keywords_find_candidates_of_privbench(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    captions = ["My Visa and a selfie", "a selfie", "selfies", "Toy  cars on a table", "a car", None, "SELFIE again"]
    urls = [f"https://images.invalid/{n}.jpg" for n in range(7)]
    pq.write_table(pa.table({"URL": [*urls, urls[1]], "TEXT": [*captions, "a selfie"]}), tmp_path / "meta.parquet")
    out = tmp_path / "list.parquet"
    command = ("labels", "build", "privbench", tmp_path / "meta.parquet", "--out", out)
    assert privsieve(*command) == 0
    shown = capsys.readouterr().out
    assert any(line.split() == ["face", "selfie", "4", "50.0", "%"] for line in shown.splitlines())
    assert "8 rows; in" in shown
    found = pq.read_table(out)
    assert found.column_names == ["url", "class"]
    classes = dict(zip(found["url"].to_pylist(), found["class"].to_pylist(), strict=True))
    # The first class of keywords.yaml counts: a visa is of passport, but face comes before.
    assert classes == {
        urls[0]: "face",
        urls[1]: "face",
        urls[3]: "hard-public",
        urls[4]: "plate",
        urls[6]: "face",
    }
    out.unlink()
    assert privsieve(*command, "--per-class", 1, "--seed", 3) == 0
    assert Counter(pq.read_table(out)["class"].to_pylist()) == {"face": 1, "hard-public": 1, "plate": 1}


def test_metadata_without_captions_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pq.write_table(pa.table({"url": ["https://images.invalid/1.jpg"]}), tmp_path / "meta.parquet")
    command = ("labels", "build", "privbench", tmp_path / "meta.parquet", "--out", tmp_path / "list.parquet")
    assert privsieve(*command) == 2
    assert "has no column of captions" in capsys.readouterr().err
    assert not (tmp_path / "list.parquet").exists()


def test_a_url_in_two_rows_is_of_the_class_that_keywords_yaml_lists_first(tmp_path: Path) -> None:
    # nudity comes before chat there, and behind it in the alphabet.
    rows = {"url": ["https://images.invalid/1.jpg"] * 2, "caption": ["a chat", "a nude statue"]}
    pq.write_table(pa.table(rows), tmp_path / "meta.parquet")
    assert privsieve("labels", "build", "privbench", tmp_path / "meta.parquet", "--out", tmp_path / "l.parquet") == 0
    assert pq.read_table(tmp_path / "l.parquet").to_pylist() == [{"url": rows["url"][0], "class": "nudity"}]
