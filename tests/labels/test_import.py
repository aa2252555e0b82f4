"""`privsieve labels import`: what the rows say, which picture they name, and what is refused."""

import hashlib
import os
from pathlib import Path

import pyarrow as pa
import pytest

from scoring.labels.importing import SHIPPED, load_mapping
from scoring.labels.table import read_labels, read_labels_and_origin
from scoring.taxonomy import KEYS
from tests.jobs.in_process import scan_in_process
from tests.jobs.made import privsieve, rows
from tests.labels import made
from tests.making import Capture


def _imported(tmp_path: Path, name: str, root: Path, *options: str) -> dict[str, dict[str, object]]:
    """The rows by key, or by sha256 if they have none."""
    out = tmp_path / "labels.parquet"
    out.unlink(missing_ok=True)
    assert privsieve("labels", "import", name, root, "--out", out, "--quiet", *options) == 0
    return {str(row["key"] or row["sha256"]): row for row in read_labels(str(out)).to_pylist()}


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _judged(row: dict[str, object]) -> dict[str, object]:
    return {key: row[key] for key in KEYS if row[key] is not None}


def test_a_privbench_folder_gives_class_and_private(tmp_path: Path) -> None:
    names = ["passport_1.jpg", "debit_card_12.png", "public_3.jpg", "face_2.JPG"]
    root = made.privbench(tmp_path / "PrivBench", names)
    (root / "README.md").write_text("not a picture")
    found = _imported(tmp_path, "privbench", root)
    assert sorted(found) == sorted(names)
    assert {name: (row["class"], row["private"]) for name, row in found.items()} == {
        "passport_1.jpg": ("passport", 1),
        "debit_card_12.png": ("debit_card", 1),
        "public_3.jpg": ("public", 0),
        "face_2.JPG": ("face", 1),
    }
    assert _judged(found["public_3.jpg"]) == {}
    assert found["passport_1.jpg"]["gov_ids"] == 1
    assert found["passport_1.jpg"]["nudity"] is None
    assert found["passport_1.jpg"]["sha256"] == _sha256(root / "passport_1.jpg")
    assert found["passport_1.jpg"]["annotator"] == "privbench"
    assert found["passport_1.jpg"]["licence"] == "CC BY-NC 4.0"
    assert found["passport_1.jpg"]["split"] is None
    assert _imported(tmp_path, "privbench", root, "--split", "test")["face_2.JPG"]["split"] == "test"


def test_a_scan_of_the_same_folder_joins_by_key_and_by_sha256(tmp_path: Path) -> None:
    roots = {
        "privbench": made.privbench(tmp_path / "PrivBench", ["passport_1.jpg", "public_\udce9_2.jpg"]),
        "vispr": made.vispr(tmp_path / "vispr"),
    }
    for name, root in roots.items():
        scan_in_process(root, tmp_path / f"{name}-run")
        scanned = rows(tmp_path / f"{name}-run")
        found = _imported(tmp_path, name, root)
        assert len(scanned) == len(found)
        assert {row["key"] for row in scanned} == {row["key"] for row in found.values()}
        assert {row["sha256"] for row in scanned} == {row["sha256"] for row in found.values()}


@pytest.mark.parametrize("layout", [made.vispr, made.vispr_flat])
def test_both_vispr_layouts_give_the_same_labels(tmp_path: Path, capsys: Capture, layout: object) -> None:
    assert callable(layout)
    found = _imported(tmp_path, "vispr", layout(tmp_path / "vispr"))
    shown = capsys.readouterr().out
    assert sorted(found) == [f"2017_{n}.jpg" for n in (1, 2, 3, 4)]
    assert {row["split"] for row in found.values()} == {"test"}
    face, safe, nothing, partial = (found[f"2017_{n}.jpg"] for n in (1, 2, 3, 4))
    assert [row["private"] for row in (face, safe, nothing, partial)] == [1, 0, None, 1]
    assert {key: value for key, value in _judged(face).items() if value} == {"age": 1, "gender": 1, "biometrics": 1}
    assert face["nudity"] == 0
    assert partial["biometrics"] == 0.5
    assert _judged(nothing) == {}
    # VISPR has no label of emotion, and labels of a part only of five others: absence says nothing of these.
    covered = set(KEYS) - {"emotion_mental_health"}
    covered -= {"lifestyle", "property_assets", "documents", "metadata", "background_people"}
    assert _judged(safe) == dict.fromkeys([key for key in KEYS if key in covered], 0)
    assert "labels that fit no attribute: a2_weight_approx 1, a999_new 1" in shown
    _, origin = read_labels_and_origin(str(tmp_path / "labels.parquet"))
    assert origin is not None
    assert origin.mapping == "vispr 1"
    assert origin.unmapped == {"a2_weight_approx": 1, "a999_new": 1}
    assert origin.num_pictures == 4


def test_one_split_of_vispr(tmp_path: Path) -> None:
    root = made.vispr_flat(tmp_path / "vispr", {"2017_1": ["a0_safe"]})
    made.vispr_flat(root, {"2017_9": ["a0_safe"]}, "val2017", first_shade=9)
    assert list(_imported(tmp_path, "vispr", root, "--split", "validation")) == ["2017_9.jpg"]
    assert len(_imported(tmp_path, "vispr", root)) == 2


def test_the_own_mapping_replaces_that_of_the_importer(tmp_path: Path, capsys: Capture) -> None:
    mapping = tmp_path / "mine.yaml"
    head = "name: mine\nversion: 3\nsource: x\nlicence: CC0\nabsent_is_zero: false\n"
    mapping.write_text(f"{head}entries: {{passport: {{documents: 0.5}}}}\n")
    root = made.privbench(tmp_path / "PrivBench", ["passport_1.jpg"])
    found = _imported(tmp_path, "privbench", root, "--mapping", str(mapping))
    assert _judged(found["passport_1.jpg"]) == {"documents": 0.5}
    _, origin = read_labels_and_origin(str(tmp_path / "labels.parquet"))
    assert origin is not None
    assert origin.mapping == "mine 3"
    for entries, message in (
        ("{passport: {paper: 1}}", 'there is no attribute "paper"'),
        ("{passport: {documents: 2}}", "an entry gives an attribute 0.5 or 1"),
        ("[1]", '"entries"'),
    ):
        mapping.write_text(f"{head}entries: {entries}\n")
        assert message in made.refused(capsys, tmp_path, "privbench", root, "--mapping", str(mapping))
    for nothing in ("", "- passport\n"):
        mapping.write_text(nothing)
        message = made.refused(capsys, tmp_path, "privbench", root, "--mapping", str(mapping))
        like = message.partition(f"{mapping} is not a mapping: write it like those in ")[2].partition(", with the same")
        assert Path(like[0], "vispr.yaml").is_file()
    mapping.write_text("a: b: c")
    assert "is not valid YAML at line 1" in made.refused(capsys, tmp_path, "privbench", root, "--mapping", str(mapping))
    assert 'did you mean "vispr"?' in made.refused(capsys, tmp_path, "privbench", root, "--mapping", "vispr2")


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_mapping_is_complete(name: str) -> None:
    mapping = load_mapping(name)
    assert mapping.name == name
    assert mapping.licence == "Apache-2.0"
    sizes = {"vispr": 67, "privbench": 8, "biv-priv": 14, "privacyalert": 10}
    assert len(mapping.entries) == sizes[name]
    assert "emotion_mental_health" not in load_mapping("vispr").keys
    assert len(load_mapping("vispr").keys) == 21


def test_privacyalert_with_pictures_that_are_gone(tmp_path: Path) -> None:
    lines = "photo,label\n111,Private\n222,public\n333,private\n"
    root = made.privacyalert(tmp_path / "pa", lines, ["111_abc_b.jpg", "222_def_z.jpg"])
    found = _imported(tmp_path, "privacyalert", root)
    assert {key: (row["private"], row["split"]) for key, row in found.items()} == {
        "111_abc_b.jpg": (1, "test"),
        "222_def_z.jpg": (0, "test"),
        "333": (1, "test"),
    }
    assert found["333"]["sha256"] is None
    assert found["111_abc_b.jpg"]["sha256"] == _sha256(root / "Images/test/111_abc_b.jpg")
    assert _judged(found["111_abc_b.jpg"]) == {}


def test_four_classes_of_privacyalert_are_votes_and_say_what_is_private(tmp_path: Path) -> None:
    four = "photo,label\n111,Clearly private\n222,public\n333,clearly_public\n444,private\n"
    found = _imported(tmp_path, "privacyalert", made.privacyalert(tmp_path / "one", four, []))
    assert {key: (row["vote"], row["private"]) for key, row in found.items()} == {
        "111": ("clearly private", 1),
        "222": (None, 0),  # in a list of two classes
        "333": ("clearly public", 0),
        "444": (None, 1),
    }
    both = made.privacyalert(tmp_path / "two", "111,public\n", [])
    (both / "Dataset_split/test_with_labels_4classes.csv").write_text(four)
    found = _imported(tmp_path, "privacyalert", both)
    assert [row["vote"] for row in found.values()] == ["clearly private", "public", "clearly public", "private"]


def test_curated_privacyalert(tmp_path: Path) -> None:
    lines = "Image Name,batch,Label 2-class,Original,Final,Fold 1\n"
    lines += "111,1,1,2,0,1\n222.png,batch2,0.0,2,1,0\n333,2,-1,0,2,0\n"
    root = made.privacyalert_curated(tmp_path / "c", lines, ["batch1/111.jpg", "batch2/222.png"])
    found = _imported(tmp_path, "privacyalert-curated", root)
    assert {key: (row["private"], row["split"]) for key, row in found.items()} == {
        "111.jpg": (1, "train"),
        "222.png": (0, "validation"),
        "333": (None, "test"),
    }
    labels_only = made.privacyalert_curated(
        tmp_path / "d", "Image Name,batch,Label 2-class\n111,1,1\n", ["batch1/111.jpg"], "labels.csv"
    )
    assert _imported(tmp_path, "privacyalert-curated", labels_only)["111.jpg"]["split"] is None


def test_batches_of_large_curated_sets_have_two_digits_and_ipd_is_refused(tmp_path: Path, capsys: Capture) -> None:
    """Its loader fills VISPR's batches with zeros; the labels of IPD, which is made of two sets, are the other way
    round."""
    lines = "Image Name,batch,Label 2-class,Final\n2017_10000580,0,1,0\n2017_10000581,12,0,2\n"
    there = ["batch00/2017_10000580.jpg", "batch12/2017_10000581.jpg"]
    root = made.privacyalert_curated(tmp_path / "c", lines, there)
    found = _imported(tmp_path, "privacyalert-curated", root)
    assert [row["sha256"] for row in found.values()] == [_sha256(root / "imgs" / name) for name in there]
    (root / "annotations/ipd_imgs_curated.json").write_text("{}")
    assert "whose 0 is private; import PicAlert and VISPR, its parts" in made.refused(
        capsys, tmp_path, "privacyalert-curated", root
    )


def test_privacyalert_as_its_authors_name_the_columns_and_others_the_folder(tmp_path: Path) -> None:
    root = made.privacyalert(tmp_path / "pa", "Filename,privacy\n29200655307,Public\n51161663162,Private\n", [])
    made.picture(root / "images/test/29200655307.jpg", 1)
    found = _imported(tmp_path, "privacyalert", root)
    assert {key: (row["private"], row["sha256"]) for key, row in found.items()} == {
        "29200655307.jpg": (0, _sha256(root / "images/test/29200655307.jpg")),
        "51161663162": (1, None),
    }


def test_cprt_bench_gives_scores_and_attributes_of_vispr_pictures(tmp_path: Path, capsys: Capture) -> None:
    levels = {"level1": {"biometrics": 1, "gov_ids": 0}, "level3": {"age": 1, "hair": 1}}
    record = {"id": "2017_1", "binary_labels": levels, "level": 1, "score": 0.75}
    root = made.cprt_bench(tmp_path / "cprt", [record])
    made.cprt_bench(root, [record | {"id": "2017_2.jpg", "score": 0}], "cprt_train.json")
    found = _imported(tmp_path, "cprt-bench", root)
    assert {key: (row["split"], row["score"], row["private"]) for key, row in found.items()} == {
        "2017_1.jpg": ("test", 0.75, None),
        "2017_2.jpg": ("train", 0, None),
    }
    assert _judged(found["2017_1.jpg"]) == {"biometrics": 1, "gov_ids": 0, "age": 1}
    assert "labels that fit no attribute: hair 2" in capsys.readouterr().out
    for wrong, message in (
        ({}, "cprt_test.json: is not a list of records"),
        ([1], 'cprt_test.json, record 1: has no "id", "binary_labels" of each level and "score"'),
        ([record | {"score": 2}], "cprt_test.json, record 1: a label is not 0 or 1, or the score not from 0 to 1"),
    ):
        assert made.refused(capsys, tmp_path, "cprt-bench", made.cprt_bench(root, wrong)) == message


def test_biv_priv_finds_the_class_in_the_name(tmp_path: Path, capsys: Capture) -> None:
    private = ["Bank_Statement_1.jpg", "a/mortage_investment_or_retirement_report 2.png", "IMG_77.jpg"]
    root = made.biv_priv(tmp_path / "biv", private, ["1.jpg"])
    found = _imported(tmp_path, "biv-priv", root)
    classes = {key: (row["class"], row["private"]) for key, row in found.items()}
    assert classes == {
        "Bank_Statement_1.jpg": ("Bank Statement", 1),
        "mortage_investment_or_retirement_report 2.png": ("Mortage, Investment or Retirement Report", 1),
        "IMG_77.jpg": (None, 1),
        "1.jpg": ("public", 0),
    }
    assert found["Bank_Statement_1.jpg"]["financial_data"] == 1
    assert found["Bank_Statement_1.jpg"]["nudity"] is None
    assert "no class in the name 1" in capsys.readouterr().out


def test_places365_has_classes_and_no_privacy(tmp_path: Path) -> None:
    train = "/a/airfield/00000001.jpg 0\n/b/bus_station/indoor/00000001.jpg 1\n/a/airfield/00000002.jpg 0\n"
    there = ["data_256/a/airfield/00000001.jpg", "data_256/b/bus_station/indoor/00000001.jpg"]
    root = made.places365(tmp_path / "p", {"places365_train_standard.txt": train}, there)
    found = _imported(tmp_path, "places365", root)
    assert len(found) == 3
    # Two pictures of one name: their key would name either, so they have none.
    assert found[_sha256(root / there[0])]["class"] == "airfield"
    assert found[_sha256(root / there[1])]["class"] == "bus_station/indoor"
    assert found["00000002.jpg"]["sha256"] is None
    assert {row["private"] for row in found.values()} == {None}
    val = made.places365(
        tmp_path / "v", {"places365_val.txt": "Places365_val_00000001.jpg 1\n"}, ["val_256/Places365_val_00000001.jpg"]
    )
    only = _imported(tmp_path, "places365", val)["Places365_val_00000001.jpg"]
    assert (only["class"], only["split"]) == ("bus_station/indoor", "validation")
    assert only["sha256"] is not None


def test_a_csv_file_beside_its_pictures(tmp_path: Path) -> None:
    made.picture(tmp_path / "set/sub/a.jpg", 1)
    (tmp_path / "set/mine.csv").write_text(
        "key,private,nudity,labels,annotator\nsub/a.jpg,1,0.5,passport; unknown,jo\n00012,0,,,lu\n"
    )
    found = _imported(tmp_path, "csv", tmp_path / "set/mine.csv", "--mapping", "privbench")
    assert found["a.jpg"]["sha256"] == _sha256(tmp_path / "set/sub/a.jpg")
    assert found["a.jpg"]["annotator"] == "jo"
    assert found["a.jpg"]["nudity"] == 0.5
    assert found["a.jpg"]["gov_ids"] == 1
    assert found["00012"]["sha256"] is None
    _, origin = read_labels_and_origin(str(tmp_path / "labels.parquet"))
    assert origin is not None
    assert origin.unmapped == {"unknown": 1}


def test_further_columns_of_a_table_are_left_out_if_asked(tmp_path: Path, capsys: Capture) -> None:
    table = tmp_path / "manifest.csv"
    table.write_text("key,file,width,private,height,a,b,c\na.jpg,x,20,1,30,,,\n")
    out = tmp_path / "labels.parquet"
    assert privsieve("labels", "import", "csv", table, "--out", out) == 2
    assert 'there is no label column "file", "width", "height", "a", "b", and 1 more' in capsys.readouterr().err
    found = _imported(tmp_path, "csv", table, "--ignore-columns")
    assert (found["a.jpg"]["private"], found["a.jpg"]["score"]) == (1, None)
    table.write_text("key,file,privat\na.jpg,x,1\n")
    assert privsieve("labels", "import", "csv", table, "--ignore-columns", "--out", tmp_path / "l.csv") == 2
    assert 'the column "privat" (did you mean "private"?) looks like a misspelt label' in capsys.readouterr().err
    assert privsieve("labels", "import", "vispr", tmp_path, "--ignore-columns", "--out", tmp_path / "l.csv") == 2
    assert "--ignore-columns is for csv, not for vispr" in capsys.readouterr().err


def test_a_csv_by_hash_alone_and_its_annotator(tmp_path: Path) -> None:
    (tmp_path / "labels.csv").write_text(f"sha256,private\n{'ab' * 32},1\n{'cd' * 32},0\n")
    found = _imported(tmp_path, "csv", tmp_path, "--annotator", "first round")
    assert {row["annotator"] for row in found.values()} == {"first round"}
    assert list(found) == ["ab" * 32, "cd" * 32]


def test_copies_of_a_picture_are_one_row_and_null_where_they_contradict(tmp_path: Path, capsys: Capture) -> None:
    root = made.privbench(tmp_path / "PrivBench", ["face_1.jpg", "public_1.jpg", "tattoo_1.jpg"])
    (root / "face_2.jpg").write_bytes((root / "face_1.jpg").read_bytes())
    (root / "public_2.jpg").write_bytes((root / "tattoo_1.jpg").read_bytes())
    found = _imported(tmp_path, "privbench", root)
    shown = capsys.readouterr().out
    assert "5 labelled pictures: 3 rows in" in shown
    assert "1 picture with several files had different labels, now null." in shown
    contradicted = next(row for row in found.values() if row["sha256"] == _sha256(root / "tattoo_1.jpg"))
    assert (contradicted["private"], contradicted["class"], contradicted["unique_body_markings"]) == (None, None, None)
    assert found["face_1.jpg"]["private"] == 1


def test_what_is_no_picture_file_has_no_hash(tmp_path: Path) -> None:
    root = made.privbench(tmp_path / "PrivBench", ["face_1.jpg"])
    os.mkfifo(root / "face_2.jpg")
    (root / "face_3.jpg").touch()
    found = _imported(tmp_path, "privbench", root)
    assert {name: row["sha256"] is None for name, row in found.items()} == {
        "face_1.jpg": False,
        "face_2.jpg": True,
        "face_3.jpg": True,
    }


def test_rows_reconcile_with_what_the_data_set_lists(tmp_path: Path) -> None:
    lines = "".join(f"{n},{'private' if n % 2 else 'public'}\n" for n in range(50))
    root = made.privacyalert(tmp_path / "pa", lines, [f"{n}_a_b.jpg" for n in range(30)])
    assert len(_imported(tmp_path, "privacyalert", root)) == 50
    table: pa.Table = read_labels(str(tmp_path / "labels.parquet"))
    assert table["sha256"].null_count == 20
    assert sum(table["private"].to_pylist()) == 25
