"""VISPR: one JSON file of attribute ids per picture, in either of the two layouts that are in use.

`annotations/SPLIT/*.json` with `images/SPLIT/*.jpg` (tribhuvanesh/vpa), or `SPLIT/ID.jpg` with `SPLIT/ID.json` next
to it. SPLIT is train2017, val2017 or test2017. Only `labels` of an annotation is needed.
"""

import posixpath
from collections.abc import Iterator
from typing import Any

from ingest.errors import LabelsError
from ingest.sample import printable
from ingest.storage.place import Place
from scoring.labels.labelled import LabelledPicture, has_picture_name, inside
from scoring.labels.source_files import content_of, json_of, names_in

MAPPING: str | None = "vispr"
LICENCE: str | None = None
NOTES: tuple[str, ...] = (
    "Private means that the label a0_safe was not given.",
    "Emotion has no VISPR label and is null; attributes that VISPR covers in part are never 0.",
)

SAFE = "a0_safe"
SPLITS = {"train2017": "train", "val2017": "validation", "test2017": "test"}
MAX_ANNOTATION_BYTES = 2**20


def pictures(root: Place) -> Iterator[LabelledPicture]:
    has_own_folder = root.at("annotations").is_dir()
    for folder, split in SPLITS.items():
        if has_own_folder:
            annotations, images = f"annotations/{folder}", f"images/{folder}"
        else:
            annotations = images = folder
        names = names_in(root.at(annotations))
        pictures_by_stem = {} if has_own_folder else {_stem(name): name for name in names if has_picture_name(name)}
        for name in names:
            if name.endswith(".json"):
                image = posixpath.join(images, pictures_by_stem.get(_stem(name), f"{_stem(name)}.jpg"))
                yield _read(root, posixpath.join(annotations, name), image, split, has_own_folder)


def _read(root: Place, name: str, image: str, split: str, has_own_folder: bool) -> LabelledPicture:
    shown = printable(name)
    annotation = json_of(content_of(root.at(name), shown, MAX_ANNOTATION_BYTES), shown)
    labels = _labels(annotation, shown)
    if has_own_folder and "image_path" in annotation:
        path = annotation["image_path"]
        if not isinstance(path, str):
            raise LabelsError(f'{shown}: "image_path" is not a text')
        image = inside(path, shown)
    return LabelledPicture(
        image,
        private=None if not labels else int(SAFE not in labels),
        split=split,
        labels=labels,
        where=shown,
    )


def _labels(annotation: Any, name: str) -> tuple[str, ...]:
    labels = annotation.get("labels") if isinstance(annotation, dict) else None
    if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
        raise LabelsError(f'{name}: has no list of texts named "labels"')
    return tuple(dict.fromkeys(labels))


def _stem(name: str) -> str:
    return posixpath.splitext(name)[0]
