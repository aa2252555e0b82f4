"""Readers of labelled data sets in the layouts in which these are published, one function each.

To add one: a function that yields its pictures, named in `IMPORTERS` below and in docs/labels.md.
"""

import posixpath
from collections.abc import Iterator
from typing import Any

from ingest.errors import LabelsError, did_you_mean
from ingest.sample import printable
from ingest.storage.given_files import given_content, given_stream
from ingest.storage.place import Place
from scoring.labels import label_studio
from scoring.labels.label_files import PRIVATE_VOTES, vote_of
from scoring.labels.source_files import (
    MAX_LABEL_FILE_BYTES,
    Importer,
    LabelledPicture,
    csv_rows,
    folder_and_file,
    has_picture_name,
    inside,
    json_of,
    names_in,
)
from scoring.labels.table import label_batches
from scoring.taxonomy import KEYS


def importer_of(name: str) -> Importer:
    """Return the importer of this name. LabelsError if there is none."""
    if name not in IMPORTERS:
        raise LabelsError(f'no importer "{name}"{did_you_mean(name, IMPORTERS)}; there are: {", ".join(IMPORTERS)}')
    return IMPORTERS[name]


_VISPR_SPLITS = {"train2017": "train", "val2017": "validation", "test2017": "test"}
_MAX_ANNOTATION_BYTES = 2**20


def _vispr(root: Place) -> Iterator[LabelledPicture]:
    """Read one JSON file of attribute ids per picture, in either of the two layouts that are in use.

    `annotations/SPLIT/*.json` with `images/SPLIT/*.jpg` (tribhuvanesh/vpa), or `SPLIT/ID.jpg` with `SPLIT/ID.json` next
    to it. SPLIT is train2017, val2017 or test2017. Only `labels` of an annotation is needed.
    """
    has_own_folder = root.at("annotations").is_dir()
    for folder, split in _VISPR_SPLITS.items():
        annotations, images = (f"annotations/{folder}", f"images/{folder}") if has_own_folder else (folder, folder)
        beside = [] if has_own_folder else names_in(root.at(folder))
        pictures = {_stem(name): name for name in beside if has_picture_name(name)}
        for name in names_in(root.at(annotations)):
            if not name.endswith(".json"):
                continue
            image = posixpath.join(images, pictures.get(_stem(name), f"{_stem(name)}.jpg"))
            file = posixpath.join(annotations, name)
            where = printable(file)
            annotation = json_of(given_content(root.at(file), where, _MAX_ANNOTATION_BYTES), where)
            labels = annotation.get("labels") if isinstance(annotation, dict) else None
            if not isinstance(labels, list) or not all(isinstance(label, str) for label in labels):
                raise LabelsError(f'{where}: has no list of texts named "labels"')
            labels = tuple(dict.fromkeys(labels))
            if has_own_folder and "image_path" in annotation:
                if not isinstance(annotation["image_path"], str):
                    raise LabelsError(f'{where}: "image_path" is not a text')
                image = inside(annotation["image_path"], where)
            private = int("a0_safe" not in labels) if labels else None
            yield LabelledPicture(image, private=private, split=split, labels=labels, where=where)


_PRIVACYALERT_SPLITS = {"train": "train", "val": "validation", "test": "test"}


def _privacyalert(root: Place) -> Iterator[LabelledPicture]:
    """Read `Dataset_split/SPLIT_with_labels_2classes.csv` and `Images/SPLIT/PHOTOID_SECRET_SIZE.jpg`, or `images`.

    Layout as read by laurenssam/Privacy-Aware-Visual-Language-Models: column 0 is the Flickr photo id, column 1 private
    or public, or one of the four votes; a line of column names may be there. Many pictures have gone from Flickr since.
    """
    lists = set(names_in(root.at("Dataset_split")))
    for folder, split in _PRIVACYALERT_SPLITS.items():
        name = f"{folder}_with_labels_2classes.csv"
        if name not in lists:
            continue
        images = f"{'Images' if root.at('Images').is_dir() else 'images'}/{folder}"
        by_id = {name.split("_")[0].split(".")[0]: name for name in names_in(root.at(images)) if has_picture_name(name)}
        for number, (where, row) in enumerate(csv_rows(root.at("Dataset_split", name), f"Dataset_split/{name}")):
            vote = vote_of(row[1]) if len(row) > 1 else None
            if vote is None:
                if number == 0 and len(row) > 1:
                    continue  # column names
                raise LabelsError(f"{where}: the second column is neither private nor public")
            photo_id = row[0].strip()
            path = inside(f"{images}/{by_id.get(photo_id, photo_id)}", where)
            if not photo_id or not path.startswith(f"{images}/"):
                raise LabelsError(f"{where}: the first column is not a photo id")
            yield LabelledPicture(
                path,
                private=int(vote in PRIVATE_VOTES),
                vote=None if vote in ("public", "private") else vote,
                split=split,
                key=photo_id,
                where=where,
            )


def _privbench(root: Place) -> Iterator[LabelledPicture]:
    """Read PrivBench, PrivBench-H or PrivTune: a flat folder of `passport_12.jpg`, `public_3.jpg`, ….

    Layout as in the repository laurenssam/Privacy-Aware-Visual-Language-Models: the class is the stem up to the last
    underscore, and "public" anywhere in the name makes the picture public.
    """
    for name in filter(has_picture_name, names_in(root)):
        class_, underscore, number = printable(_stem(name)).rpartition("_")
        if "public" in name.lower():
            yield LabelledPicture(name, private=0, class_="public", labels=("public",), where=name)
        elif underscore and class_ and number.isdigit():
            yield LabelledPicture(name, private=1, class_=class_.lower(), labels=(class_.lower(),), where=name)
        else:
            raise LabelsError(
                f"{root.path}: the file {printable(name)} names no class; "
                "names are CLASS_NUMBER, such as passport_12.jpg"
            )


def _csv(root: Place) -> Iterator[LabelledPicture]:
    """Read a plain CSV file of labels, next to the pictures or elsewhere.

    Columns are those of the labels table, any of them may be missing; `key` is the path of the picture relative to the
    folder of the file, or its name in a scan. A column `labels` holds labels of another source, separated by
    semicolons, for `--mapping`.
    """
    folder, name = folder_and_file(root, "labels.csv")
    for number, row in enumerate(_csv_rows(folder.at(name), name)):
        where = f"{name}, line {number + 2}"
        yield LabelledPicture(
            inside(row["key"], where) if row["key"] else None,
            private=row["private"],
            class_=row["class"],
            split=row["split"],
            score=row["score"],
            vote=row["vote"],
            labels=tuple(label.strip() for label in (row.get("labels") or "").split(";") if label.strip()),
            values={key: row[key] for key in KEYS if row[key] is not None},
            annotator=None if row["annotator"] == "labels" else row["annotator"],
            licence=row["licence"],
            sha256=row["sha256"],
            key=row["key"],
            where=where,
        )


def _csv_rows(file: Place, name: str) -> Iterator[dict[str, Any]]:
    with given_stream(file, name, MAX_LABEL_FILE_BYTES) as stream:
        for table in label_batches(stream, name, ["labels"]):
            yield from table.to_pylist()


def _stem(name: str) -> str:
    return posixpath.splitext(name)[0]


IMPORTERS = {
    "vispr": Importer(
        _vispr,
        (
            "Private means that the label a0_safe was not given.",
            "Emotion has no VISPR label and is null; attributes that VISPR covers in part are never 0.",
        ),
        mapping="vispr",
    ),
    "privacyalert": Importer(
        _privacyalert,
        (
            "Pictures that are not there have their Flickr photo id as key.",
            "A quarter of the data set is private by design, so its private share is no rate of any population.",
        ),
    ),
    "privbench": Importer(
        _privbench,
        (
            "Public means that none of the eight private classes is shown; other attributes were not judged.",
            "A private picture has values only for what its class says.",
        ),
        mapping="privbench",
        licence="CC BY-NC 4.0",
    ),
    "csv": Importer(_csv),
    "label-studio": Importer(
        label_studio.pictures, ("The last of several annotations of one task by one person counts.",)
    ),
}
