"""What `privsieve labels import` refuses, and how it says why."""

import json
from pathlib import Path

from tests.labels import made
from tests.making import Capture


def test_paths_out_of_the_folder_are_refused(tmp_path: Path, capsys: Capture) -> None:
    made.picture(tmp_path / "secret.jpg", 1)
    root = made.vispr(tmp_path / "vispr", {"2017_1": ["a0_safe"]})
    name = "annotations/test2017/2017_1.json"
    for path in ("../secret.jpg", "/etc/passwd", "images/../../secret.jpg", "..\\secret.jpg"):
        (root / name).write_text(json.dumps({"image_path": path, "labels": ["a0_safe"]}))
        message = f"{name}: the path of the picture leads out of the folder; give paths below it"
        assert made.refused(capsys, tmp_path, "vispr", root) == message
    (tmp_path / "vispr/labels.csv").write_text("key,private\n../secret.jpg,1\n")
    assert made.refused(capsys, tmp_path, "csv", root).startswith(
        "labels.csv, line 2: the path of the picture leads out"
    )
    for photo_id in ("../../../secret.jpg", "..", "../train/1"):
        alert = made.privacyalert(tmp_path / "pa", f"{photo_id},private\n", [])
        assert "line 1: the " in made.refused(capsys, tmp_path, "privacyalert", alert)


def test_wrong_files_are_refused_with_file_and_line(tmp_path: Path, capsys: Capture) -> None:
    root = made.vispr(tmp_path / "vispr", {"2017_1": ["a0_safe"]})
    name = "annotations/test2017/2017_1.json"
    (root / name).write_text('{"labels":\n ["a0_safe" "Jane"]}')
    assert made.refused(capsys, tmp_path, "vispr", root) == f"{name}, line 2: is not JSON"
    (root / name).write_text('{"labels": ["a0_safe"], "labels": ["a1_age_approx"]}')
    assert made.refused(capsys, tmp_path, "vispr", root) == f'{name}: the key "labels" is in one object twice; keep one'
    (root / name).write_text('{"labels": "a0_safe"}')
    assert made.refused(capsys, tmp_path, "vispr", root) == f'{name}: has no list of texts named "labels"'
    (root / name).write_text("[" * 100_000)
    assert made.refused(capsys, tmp_path, "vispr", root).startswith(f"{name}")
    alert = made.privacyalert(tmp_path / "pa", "id,label\n1,private\n2,Jane Roe\n", [])
    message = "Dataset_split/test_with_labels_2classes.csv, line 3: the second column is neither private nor public"
    assert made.refused(capsys, tmp_path, "privacyalert", alert) == message
    curated = made.privacyalert_curated(tmp_path / "c", "Image Name,batch,Label 2-class\n1,1,7\n", [])
    message = 'annotations/labels_splits.csv, line 2: "Label 2-class" is not 0, 1 or -1'
    assert made.refused(capsys, tmp_path, "privacyalert-curated", curated) == message
    places = made.places365(tmp_path / "p", {"places365_val.txt": "a.jpg 0\nb.jpg 9\n"}, [])
    message = "places365_val.txt, line 2: categories_places365.txt has no category 9"
    assert made.refused(capsys, tmp_path, "places365", places) == message
    bench = made.privbench(tmp_path / "b", ["holiday.jpg"])
    assert "the file holiday.jpg names no class" in made.refused(capsys, tmp_path, "privbench", bench)


def test_nothing_to_import_is_reported(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "empty").mkdir()
    assert "no labelled picture was found" in made.refused(capsys, tmp_path, "privbench", tmp_path / "empty")
    assert "no labelled picture was found" in made.refused(capsys, tmp_path, "vispr", tmp_path / "empty")
    assert "does not exist" in made.refused(capsys, tmp_path, "vispr", tmp_path / "none")
    assert 'no importer "vipr" (did you mean "vispr"?)' in made.refused(capsys, tmp_path, "vipr", tmp_path / "empty")


def test_a_hash_that_is_not_that_of_the_picture_is_refused(tmp_path: Path, capsys: Capture) -> None:
    made.picture(tmp_path / "a.jpg", 1)
    (tmp_path / "labels.csv").write_text(f"key,sha256,private\na.jpg,{'ab' * 32},1\n")
    assert "labels.csv, line 2: sha256 is not that of the picture" in made.refused(capsys, tmp_path, "csv", tmp_path)
