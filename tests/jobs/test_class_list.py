"""`scan --labels` and `scan --sample N --per-category`: Places365's flat layouts, and classes from a list."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.categories import read_class_list
from ingest.errors import LabelsError
from scoring.labels.table import LabelsOrigin, to_labels, write_labels
from tests.jobs.made import jpeg, privsieve, rows

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


def test_a_labels_file_gives_its_classes(validation_set: Path) -> None:
    names = [f"Places365_val_{number:08d}.jpg" for number in (1, 2)]
    columns: dict[str, list[object]] = {
        "key": [*names, "none.jpg"],
        "class": ["alley", "zoo", None],
        "annotator": ["places365"] * 3,
    }
    labels, run = validation_set / "labels.parquet", validation_set / "run"
    write_labels(to_labels(columns, 3), str(labels), LabelsOrigin("test"))

    scan = ("scan", validation_set / "places", "--run", run, "--labels", labels)
    assert privsieve(*scan, "--engine", "canned") == 0
    found = {str(row["key"]): row["category"] for row in rows(run)}
    assert [found[name] for name in names] == ["alley", "zoo"]
    assert sum(category is None for category in found.values()) == 4


def test_a_parquet_file_without_key_and_class_is_refused(validation_set: Path) -> None:
    pq.write_table(pa.table({"key": ["a"], "score": [0.5]}), validation_set / "other.parquet")
    (validation_set / "damaged.parquet").write_bytes(b"PAR1 and no more")
    for name in ("other", "damaged"):
        with pytest.raises(LabelsError, match="has no columns key and class of text"):
            read_class_list(str(validation_set / f"{name}.parquet"))


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


def test_a_short_form_of_two_names_with_two_classes_gives_neither(tmp_path: Path) -> None:
    (tmp_path / "list").write_text("a/x/1.jpg cat\nb/x/1.jpg dog\n")
    found = read_class_list(str(tmp_path / "list"))
    paths = ("a/x/1.jpg", "sub/b/x/1.jpg", "x/1.jpg", "1.jpg")
    assert [found.class_of(path) for path in paths] == ["cat", "dog", None, None]
