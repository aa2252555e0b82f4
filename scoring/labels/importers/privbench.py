"""PrivBench, PrivBench-H and PrivTune: one flat folder, the class in the file name (`passport_12.jpg`, `public_3.jpg`).

Layout as in the repository laurenssam/Privacy-Aware-Visual-Language-Models: the class is the stem up to the last
underscore, and "public" anywhere in the name makes the picture public.
"""

import posixpath
from collections.abc import Iterator

from ingest.errors import LabelsError
from ingest.sample import printable
from ingest.storage.place import Place
from scoring.labels.labelled import LabelledPicture, has_picture_name
from scoring.labels.source_files import names_in

MAPPING: str | None = "privbench"
LICENCE: str | None = "CC BY-NC 4.0"
NOTES: tuple[str, ...] = (
    "Public means that none of the eight private classes is shown; other attributes were not judged.",
    "A private picture has values only for what its class says.",
)


def pictures(root: Place) -> Iterator[LabelledPicture]:
    for name in names_in(root):
        if not has_picture_name(name):
            continue
        stem = printable(posixpath.splitext(name)[0])
        class_, underscore, number = stem.rpartition("_")
        if "public" in name.lower():
            yield LabelledPicture(name, private=0, class_="public", labels=("public",), where=name)
        elif underscore and class_ and number.isdigit():
            yield LabelledPicture(name, private=1, class_=class_.lower(), labels=(class_.lower(),), where=name)
        else:
            raise LabelsError(
                f"{root.path}: the file {printable(name)} names no class; "
                "names are CLASS_NUMBER, such as passport_12.jpg"
            )
