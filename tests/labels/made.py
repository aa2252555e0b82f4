"""Small data sets in the exact layouts of the published ones, with real pictures."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from scoring.labels.table import LabelsOrigin, to_labels, write_labels
from tests.jobs.made import jpeg, privsieve
from tests.making import Capture

VISPR_LABELS = {
    "2017_1": ["a1_age_approx", "a4_gender", "a9_face_complete", "a2_weight_approx"],
    "2017_2": ["a0_safe"],
    "2017_3": [],
    "2017_4": ["a999_new", "a10_face_partial"],
}


def picture(path: Path, shade: int) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(jpeg(shade))
    return path


def vispr(root: Path, labels: Mapping[str, Sequence[str]] = VISPR_LABELS, split: str = "test2017") -> Path:
    """The layout of the authors: annotations/ and images/."""
    (root / "annotations" / split).mkdir(parents=True)
    for shade, (name, given) in enumerate(labels.items()):
        image = f"images/{split}/{name}.jpg"
        picture(root / image, shade)
        annotation = {"id": name, "image_path": image, "labels": list(given)}
        (root / "annotations" / split / f"{name}.json").write_text(json.dumps(annotation))
    return root


def vispr_flat(
    root: Path, labels: Mapping[str, Sequence[str]] = VISPR_LABELS, split: str = "test2017", first_shade: int = 0
) -> Path:
    """Pictures with their annotation beside them."""
    for shade, (name, given) in enumerate(labels.items(), first_shade):
        picture(root / split / f"{name}.jpg", shade)
        (root / split / f"{name}.json").write_text(json.dumps({"labels": list(given)}))
    return root


def privbench(root: Path, names: Sequence[str]) -> Path:
    for shade, name in enumerate(names):
        picture(root / name, shade)
    return root


def privacyalert(root: Path, rows: str, there: Sequence[str], split: str = "test") -> Path:
    (root / "Dataset_split").mkdir(parents=True, exist_ok=True)
    (root / "Dataset_split" / f"{split}_with_labels_2classes.csv").write_text(rows)
    for shade, name in enumerate(there):
        picture(root / "Images" / split / name, shade)
    return root


def labels_by(path: Path, annotator: str, **columns: Sequence[object]) -> Path:
    """A labels file of one person; `class_` is the column class."""
    num_rows = len(next(iter(columns.values())))
    named = {name.rstrip("_"): cells for name, cells in columns.items()}
    write_labels(to_labels({"annotator": [annotator] * num_rows, **named}, num_rows), str(path), LabelsOrigin("test"))
    return path


def refused(capsys: Capture, tmp_path: Path, name: str, root: Path, *options: str) -> str:
    capsys.readouterr()
    assert privsieve("labels", "import", name, root, "--out", tmp_path / "no.parquet", "--quiet", *options) == 2
    captured = capsys.readouterr()
    assert not (tmp_path / "no.parquet").exists()
    assert captured.out == ""
    assert captured.err.count("\n") == 1
    return captured.err.removeprefix("privsieve: ").rstrip("\n")
