"""`scan --labels` and `scan --sample N --per-category`: Places365's flat layouts, and classes from a list."""

import hashlib
import json
import os
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.categories import read_class_list
from ingest.errors import LabelsError, StorageError
from scoring.labels.table import LabelsOrigin, to_labels, write_labels
from tests.ingest.made import parquet_file
from tests.jobs.made import compact_run, jpeg, privsieve, rows, tar

CATEGORIES = "/a/airfield 0\n/a/alley 1\n/z/zoo 2"


@pytest.fixture
def validation_set(tmp_path: Path) -> Path:
    """Places365's: pictures in one folder, the lists beside it."""
    folder = tmp_path / "places" / "val_256"
    folder.mkdir(parents=True)
    for number in range(1, 7):
        (folder / f"Places365_val_{number:08d}.jpg").write_bytes(jpeg(number))
    lines = [f"Places365_val_{number:08d}.jpg {number % 3}" for number in range(1, 6)]
    (tmp_path / "places365_val.txt").write_text("\n".join(lines))
    (tmp_path / "categories_places365.txt").write_text(CATEGORIES)
    return tmp_path


def _categories(run: Path) -> dict[str, object]:
    return {str(row["key"]): row["category"] for row in rows(run)}


def _scan(*args: object) -> int:
    return privsieve("scan", *args, "--engine", "canned", "--quiet")


def test_a_labels_file_gives_its_classes(validation_set: Path) -> None:
    names = [f"Places365_val_{number:08d}.jpg" for number in (1, 2)]
    columns: dict[str, list[object]] = {
        "key": [*names, "none.jpg"],
        "class": ["alley", "zoo", None],
        "annotator": ["places365"] * 3,
    }
    labels, run = validation_set / "labels.parquet", validation_set / "run"
    write_labels(to_labels(columns, 3), str(labels), LabelsOrigin("test"))

    assert _scan(validation_set / "places", "--run", run, "--labels", labels) == 0

    found = _categories(run)
    assert [found[name] for name in names] == ["alley", "zoo"]
    assert sum(category is None for category in found.values()) == 4


def test_a_parquet_file_without_key_and_class_is_refused(validation_set: Path) -> None:
    pq.write_table(pa.table({"key": ["a"], "score": [0.5]}), validation_set / "other.parquet")
    (validation_set / "damaged.parquet").write_bytes(b"PAR1 and no more")
    for name in ("other", "damaged"):
        with pytest.raises(LabelsError, match="has no columns key and class of text"):
            read_class_list(str(validation_set / f"{name}.parquet"))


def test_the_flat_validation_set_gets_its_classes_by_name(
    validation_set: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels, run = validation_set / "places365_val.txt", validation_set / "run"

    assert _scan(validation_set / "places", "--run", run, "--labels", labels) == 0

    found = _categories(run)
    assert found["Places365_val_00000001.jpg"] == "a/alley"
    assert found["Places365_val_00000003.jpg"] == "a/airfield"
    assert found["Places365_val_00000006.jpg"] is None  # and not the name of its folder
    assert "1 image of 6 without a category" in capsys.readouterr().err
    record = json.loads((run / "run.json").read_text())
    content = labels.read_bytes() + CATEGORIES.encode()
    assert record["labels"] == hashlib.sha256(content).hexdigest()


def test_a_changed_list_is_another_setting(validation_set: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels, run = validation_set / "places365_val.txt", validation_set / "run"
    assert _scan(validation_set / "places", "--run", run, "--labels", labels) == 0
    labels.write_text(labels.read_text().replace("1.jpg 1", "1.jpg 2"))

    assert _scan(validation_set / "places", "--run", run, "--labels", labels) == 2
    assert "was scanned with other settings: labels was" in capsys.readouterr().err
    assert _scan(validation_set / "places", "--run", run) == 2


def test_names_of_the_training_list_are_found_with_and_without_their_letter(tmp_path: Path) -> None:
    for folder in ("airfield", "field/wild"):
        (tmp_path / "corpus" / folder).mkdir(parents=True)
        (tmp_path / "corpus" / folder / "00000001.jpg").write_bytes(jpeg(len(folder)))
    (tmp_path / "train.txt").write_text("/a/airfield/00000001.jpg 0\n/f/field/wild/00000001.jpg 1\n")

    assert _scan(tmp_path / "corpus", "--run", tmp_path / "run", "--labels", tmp_path / "train.txt") == 0
    assert {str(row["shard"]): row["category"] for row in rows(tmp_path / "run")} == {
        "airfield": "0",  # without the list of names beside it, the number
        "field/wild": "1",
    }


@pytest.mark.parametrize(
    "lines",
    [
        "/abs/data/val/a/1.jpg cat\n/abs/data/val/b/2.JPG dog\n",
        "C:\\data\\val\\a\\1.jpg,cat\nC:\\data\\val\\b\\2 x.JPG,dog\n",
    ],
)
def test_folders_that_all_names_share_may_be_missing_in_the_corpus(tmp_path: Path, lines: str) -> None:
    (tmp_path / "list.txt").write_text(lines)
    names = read_class_list(str(tmp_path / "list.txt"))
    second = "2 x.JPG" if "x" in lines else "2.JPG"
    for folders in ("", "val/", "data/val/", "other/"):
        wanted = [None, None] if folders == "other/" else ["cat", "dog"]
        assert [names.class_of(f"{folders}a/1.jpg"), names.class_of(f"{folders}b/{second}")] == wanted
    assert [names.class_of(name) for name in ("1.jpg", "c/1.jpg", "b/1.jpg")] == [None] * 3


@pytest.mark.slow
def test_shards_and_tables_get_classes_by_key(tmp_path: Path) -> None:
    corpus = tmp_path / "tars"
    corpus.mkdir()
    tar(corpus / "0.tar", {"00001.jpg": jpeg(1), "00002.jpg": jpeg(2), "00002.cls": b"7"})
    table = pa.table({"key": ["x", "y"], "image": [jpeg(3), jpeg(4)]})
    parquet_file(tmp_path / "table.parquet", table)
    (tmp_path / "list.csv").write_text("file,note,class\n00001.jpg,-,cat\nx.png,-,=1+1\n")

    for name in ("tars", "table.parquet"):
        assert _scan(tmp_path / name, "--run", tmp_path / f"run-{name}", "--labels", tmp_path / "list.csv") == 0
    assert _categories(tmp_path / "run-tars") == {"00001": "cat", "00002": None}
    assert _categories(tmp_path / "run-table.parquet") == {"x": "=1+1", "y": None}


def test_a_list_that_names_none_of_the_images_is_refused(
    validation_set: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (validation_set / "other.csv").write_text("elsewhere.jpg,cat\nnowhere.jpg,dog\n")
    run = validation_set / "run"

    assert _scan(validation_set / "places", "--run", run, "--labels", validation_set / "other.csv") == 2
    error = capsys.readouterr().err.strip()
    assert "none of its 2 names is one of the source's images" in error
    assert "\n" not in error
    assert not (run / "run.json").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "names no image"),
        (b"\x89PNG\r\n\0", "not text in UTF-8"),
        (b"a.jpg cat\na.jpg dog\n", "line 2: the list gives a.jpg two classes"),
        (b"a.jpg,cat,3\n", "line 1: 3 columns where a name and a class are expected"),
        (b"a.jpg\tcat\nb.jpg\n", "line 2: 1 columns"),
        (b"a.jpg," + b"c" * 300, "line 1: the name or the class is empty or too long"),
        (b'a.jpg,"' + b"c" * 200_000, "cannot be read as CSV or TSV"),
    ],
)
def test_a_file_that_is_no_list_is_refused_in_one_line(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "list").write_bytes(content)
    with pytest.raises(LabelsError, match=message) as refused:
        read_class_list(str(tmp_path / "list"))
    assert "\n" not in str(refused.value)


def test_a_list_that_is_a_pipe_or_a_device_is_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for url in (str(tmp_path / "pipe"), "/dev/zero"):
        with pytest.raises(StorageError, match="it is a pipe, socket or device, not a file"):
            read_class_list(url)


def test_a_short_form_of_two_names_with_two_classes_gives_neither(tmp_path: Path) -> None:
    (tmp_path / "list").write_text("a/x/1.jpg cat\nb/x/1.jpg dog\n")
    found = read_class_list(str(tmp_path / "list"))
    assert [found.class_of(path) for path in ("a/x/1.jpg", "sub/b/x/1.jpg", "x/1.jpg", "1.jpg")] == [
        "cat",
        "dog",
        None,
        None,
    ]


@pytest.fixture
def scenes(tmp_path: Path) -> Path:
    for scene, count in (("street", 12), ("office", 7), ("zoo", 2)):
        (tmp_path / "scenes" / scene).mkdir(parents=True)
        for number in range(count):
            (tmp_path / "scenes" / scene / f"{number}.jpg").write_bytes(jpeg(number + 50 * len(scene)))
    return tmp_path / "scenes"


def _drawn(run: Path) -> set[tuple[object, object]]:
    return {(row["shard"], row["key"]) for row in rows(run)}


@pytest.mark.slow
def test_a_sample_per_category_has_so_many_of_each_and_is_reproducible(scenes: Path, tmp_path: Path) -> None:
    runs = [tmp_path / f"run{number}" for number in range(3)]
    for run, seed in zip(runs, (1, 1, 2), strict=True):
        assert _scan(scenes, "--run", run, "--sample", 5, "--per-category", "--seed", seed) == 0

    assert Counter(row["category"] for row in rows(runs[0])) == {"street": 5, "office": 5, "zoo": 2}
    assert _drawn(runs[0]) == _drawn(runs[1]) != _drawn(runs[2])
    record = json.loads((runs[0] / "run.json").read_text())
    assert (record["sample"], record["per_category"], record["drawn"], record["seed"]) == (5, True, 12, 1)


@pytest.mark.slow
def test_such_a_run_is_continued_and_another_draw_is_refused(
    scenes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ("--run", tmp_path / "run", "--sample", 5)
    assert _scan(scenes, *options, "--per-category") == 0
    result = next((tmp_path / "run" / "scores").iterdir())
    result.unlink()

    assert _scan(scenes, *options, "--per-category") == 0
    assert result.exists()
    assert len(rows(tmp_path / "run")) == 12
    capsys.readouterr()
    assert _scan(scenes, *options) == 2
    assert "per_category was True, now" in capsys.readouterr().err


@pytest.mark.slow
def test_its_report_says_which_rates_hold_and_is_whole(
    scenes: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _scan(scenes, "--run", tmp_path / "run", "--sample", 5, "--per-category") == 0
    capsys.readouterr()

    assert privsieve("report", tmp_path / "run") == 0
    output = capsys.readouterr().out
    assert output.startswith("random sample of up to 5 images per category (seed 0): rates per category hold")
    assert "figures over all images do not" in output
    assert "UNFINISHED" not in output
    compact_run(tmp_path / "run")


@pytest.mark.slow
def test_categories_of_json_members_and_columns_are_drawn_from_too(tmp_path: Path) -> None:
    (tmp_path / "tars").mkdir()
    members = {}
    for number in range(9):
        members[f"{number}.jpg"] = jpeg(number)
        if number:
            members[f"{number}.json"] = json.dumps({"category": "ab"[number % 2], "caption": "of nothing"}).encode()
    tar(tmp_path / "tars" / "0.tar", members)
    table = pa.table({"image": [jpeg(n) for n in range(6)], "kind": ["a", "b", "a", None, "b", "b"]})
    parquet_file(tmp_path / "table.parquet", table)

    for source, category in ((tmp_path / "tars", "category"), (tmp_path / "table.parquet", "kind")):
        run = tmp_path / f"run-{category}"
        assert _scan(source, "--run", run, "--category", category, "--sample", 2, "--per-category") == 0
        assert Counter(row["category"] for row in rows(run)) == {"a": 2, "b": 2}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--per-category",), "--per-category only applies with --sample"),
        (("--labels", "x", "--category", "y"), "--labels and --category exclude each other"),
        (("--labels", "missing.txt"), "missing.txt"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    scenes: Path, tmp_path: Path, options: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _scan(scenes, "--run", tmp_path / "run", *options) == 2
    assert message in capsys.readouterr().err


def test_a_sample_per_category_of_a_corpus_without_categories_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "flat").mkdir()
    (tmp_path / "flat" / "1.jpg").write_bytes(jpeg(1))
    assert _scan(tmp_path / "flat", "--run", tmp_path / "run", "--sample", 1, "--per-category") == 2
    assert "no image has a category" in capsys.readouterr().err
