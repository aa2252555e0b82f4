"""Exports of the rows that a person chose."""

import csv
import json
from pathlib import Path

import pytest

from scoring.taxonomy import KEYS
from tests.browsing.made import FOUND, SHOWN, content, export, served
from tests.reviewing.made import Person


def test_csv_has_the_rows_that_fit_and_no_formula(person: Person) -> None:
    rows = list(csv.DictReader(export(person, "csv", category="office").decode().splitlines()))
    assert [row["key"] for row in rows] == ["'=name()", "half", "cut"]
    assert [row["biometrics"] for row in rows] == ["0", "0.5", ""]
    assert [row["level"] for row in rows] == ["2", "0", ""]
    assert not {"rationale", "boxes", "action"} & rows[0].keys()
    decided = list(csv.DictReader(export(person, "csv", policy="strict", action="drop").decode().splitlines()))
    assert {row["action"] for row in decided} == {"drop"}
    assert [row["key"] for row in decided] == ["<b>both</b>", "face", "'=name()", "half", "cut"]


def test_coco_has_boxes_in_pixels_and_attributes_as_categories(person: Person) -> None:
    found = json.loads(export(person, "coco"))
    names = {image["id"]: image["file_name"] for image in found["images"]}
    assert list(names.values()) == [f"0.tar/{key}" for key in SHOWN if key != "cut"]
    assert {(image["width"], image["height"]) for image in found["images"]} == {(256, 256)}
    categories = {one["id"]: (one["name"], one["supercategory"]) for one in found["categories"]}
    assert [name for name, _ in categories.values()] == list(KEYS)
    face, name = [64, 32, 64, 160], [128, 128, 64, 32]
    boxes = [(names[a["image_id"]], categories[a["category_id"]][0], a["bbox"]) for a in found["annotations"]]
    assert boxes == [
        ("0.tar/<b>both</b>", "biometrics", face),
        ("0.tar/<b>both</b>", "full_legal_name", name),
        ("0.tar/face", "biometrics", face),
        ("0.tar/=name()", "full_legal_name", name),
    ]
    assert [a["area"] for a in found["annotations"]] == [10240, 2048, 10240, 2048]
    assert categories[1] == ("biometrics", "level 1")
    assert [a["id"] for a in found["annotations"]] == [1, 2, 3, 4]


def test_names_of_a_tree_are_paths_below_the_source(tmp_path: Path) -> None:
    (tmp_path / "corpus" / "beach").mkdir(parents=True)
    (tmp_path / "corpus" / "beach" / "0.png").write_bytes(content(0))
    run = made_of_tree(tmp_path)
    with served(run) as server:
        person = Person(server.address)
        assert json.loads(export(person, "coco"))["images"][0]["file_name"] == "beach/0.png"


def made_of_tree(folder: Path) -> Path:
    from tests.jobs.in_process import scan_in_process

    scan_in_process(folder / "corpus", folder / "run")
    return folder / "run"


@pytest.mark.parametrize("format", ["csv", "coco"])
def test_no_export_holds_what_an_engine_wrote(person: Person, format: str) -> None:
    assert FOUND in str(person.get("/api/details/0").json)
    assert FOUND.encode() not in export(person, format)
