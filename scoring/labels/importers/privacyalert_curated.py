"""The curated re-issue of PrivacyAlert, and of PicAlert and VISPR in the same form.

Layout as in graphnex/privacy-from-visual-entities:
`annotations/labels_splits.csv` or `annotations/labels.csv` with the columns `Image Name`, `batch` and `Label 2-class`
(0 public, 1 private, -1 unusable), and columns with 0 train, 1 validation, 2 test; `imgs/batchK/NAME.jpg` or `.png`.
"""

import posixpath
from collections.abc import Iterator

from ingest.errors import LabelsError
from ingest.storage.place import Place
from scoring.labels.labelled import LabelledPicture, has_picture_name, inside
from scoring.labels.source_files import csv_rows, names_in

MAPPING: str | None = None
LICENCE: str | None = None
NOTES: tuple[str, ...] = (
    "The label -1 (unusable) is null.",
    'The split is that of the column "Final", else of "Original"; folds of the cross-validation are left out.',
)

LISTS = ("labels_splits.csv", "labels.csv")
VALUES = {"0": 0, "1": 1, "-1": None}
SPLITS = {"0": "train", "1": "validation", "2": "test"}


def pictures(root: Place) -> Iterator[LabelledPicture]:
    names = names_in(root.at("annotations"))
    name = next((name for name in LISTS if name in names), None)
    if name is None:
        raise LabelsError(f"{root.path}: has no annotations/{LISTS[0]} and no annotations/{LISTS[1]}")
    rows = csv_rows(root.at("annotations", name), f"annotations/{name}")
    where, heads = next(rows, ("", []))
    columns = {head.strip(): index for index, head in enumerate(heads)}
    for wanted in ("Image Name", "batch", "Label 2-class"):
        if wanted not in columns:
            raise LabelsError(f'annotations/{name}, line 1: has no column "{wanted}"')
    in_batch: dict[str, dict[str, str]] = {}
    for where, row in rows:
        if len(row) != len(heads):
            raise LabelsError(f"{where}: has {len(row)} cells instead of {len(heads)}")
        cells = {head: row[index].strip() for head, index in columns.items()}
        if (label := _whole(cells["Label 2-class"])) not in VALUES:
            raise LabelsError(f'{where}: "Label 2-class" is not 0, 1 or -1')
        folder = inside(f"imgs/batch{cells['batch'].removeprefix('batch')}", where)
        if folder not in in_batch:
            in_batch[folder] = {_stem(n): n for n in names_in(root.at(folder)) if has_picture_name(n)}
        image = cells["Image Name"]
        stem = _stem(image) if has_picture_name(image) else image
        path = inside(f"{folder}/{in_batch[folder].get(stem, f'{stem}.jpg')}", where)
        split = SPLITS.get(_whole(cells.get("Final") or cells.get("Original") or ""))
        yield LabelledPicture(path, private=VALUES[label], split=split, key=stem, where=where)


def _whole(cell: str) -> str:
    """Remove ".0": tables that went through pandas have 1.0 for 1."""
    return cell.removesuffix(".0")


def _stem(name: str) -> str:
    return posixpath.splitext(name)[0]
