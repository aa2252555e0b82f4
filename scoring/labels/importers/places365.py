"""Places365 lists: `places365_val.txt`, `places365_train_standard.txt`, …: a picture and the number of its category.

Layout as in CSAILVision/places365 and torchvision: `categories_places365.txt` has `/a/airfield 0`. The class is the
category without its first letter: `airfield`, `bus_station/indoor`. It says nothing about privacy.
"""

from collections.abc import Iterator

from ingest.errors import LabelsError
from ingest.storage.place import Place
from scoring.labels.labelled import LabelledPicture, inside
from scoring.labels.source_files import lines_of, names_in

MAPPING: str | None = None
LICENCE: str | None = None
NOTES: tuple[str, ...] = ("The class is the scene category; whether a picture is private was not judged.",)

CATEGORIES = "categories_places365.txt"
LISTS = {
    "places365_train_standard.txt": ("train", ("data_256_standard", "data_256", "data_large_standard", "data_large")),
    "places365_train_challenge.txt": ("train", ("data_256", "data_challenge", "data_large")),
    "places365_val.txt": ("validation", ("val_256", "val_large")),
}
"""Name of a list -> its split, and the folders that may hold its pictures."""


def pictures(root: Place) -> Iterator[LabelledPicture]:
    names = names_in(root)
    lists = [name for name in LISTS if name in names]
    if not lists or CATEGORIES not in names:
        wanted = ", ".join(LISTS)
        raise LabelsError(f"{root.path}: needs {CATEGORIES} and one of these lists: {wanted}")
    categories = {}
    for where, line in lines_of(root.at(CATEGORIES), CATEGORIES):
        category, number = _split(line, where)
        categories[number] = category[3:] if category[:1] == "/" and category[2:3] == "/" else category
    seen: set[str] = set()
    for name in lists:
        split, folders = LISTS[name]
        folder = next((folder for folder in folders if root.at(folder).is_dir()), folders[0])
        for where, line in lines_of(root.at(name), name):
            picture, number = _split(line, where)
            if number not in categories:
                raise LabelsError(f"{where}: {CATEGORIES} has no category {number}")
            path = inside(f"{folder}/{picture.lstrip('/')}", where)
            if path not in seen:  # the two lists of training pictures share most of them
                seen.add(path)
                yield LabelledPicture(path, class_=categories[number], split=split, where=where)


def _split(line: str, where: str) -> tuple[str, int]:
    name, _, number = line.strip().rpartition(" ")
    if not name or not number.isascii() or not number.isdigit() or len(number) > 6:
        raise LabelsError(f"{where}: is not a name with the number of a category")
    return name.strip(), int(number)
