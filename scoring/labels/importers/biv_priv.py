"""BIV-Priv: private objects in `final_release`, the class in the file name; `Public/Original_Images_Nonprivate` else.

Layout as read by laurenssam/Privacy-Aware-Visual-Language-Models. File names are compared with the 14 classes by their
letters and digits only, in any case.
"""

import posixpath
from collections.abc import Iterator

from ingest.formats.shard import folders_below
from ingest.storage.place import Place
from scoring.labels.labelled import LabelledPicture, has_picture_name
from scoring.labels.mapping import load_mapping

MAPPING: str | None = "biv-priv"
LICENCE: str | None = None
NOTES: tuple[str, ...] = ("A private picture has values only for what its class says.",)

PRIVATE, PUBLIC = "final_release", "Public/Original_Images_Nonprivate"


def pictures(root: Place) -> Iterator[LabelledPicture]:
    classes = {_letters(name): name for name in load_mapping("biv-priv").entries}
    for folder in (PRIVATE, PUBLIC):
        if not root.at(folder).is_dir():
            continue
        below = sorted(folders_below(root.at(folder)), key=lambda item: item[0])
        for inner, listing in below:
            for name in (name for name, _ in listing.files if has_picture_name(name)):
                path = posixpath.join(folder, inner, name)
                if folder == PUBLIC:
                    yield LabelledPicture(path, private=0, class_="public", where=path)
                    continue
                class_ = _class(name, classes)
                yield LabelledPicture(
                    path, private=1, class_=class_, labels=(class_ or "no class in the name",), where=path
                )


def _class(name: str, classes: dict[str, str]) -> str | None:
    """Return the longest class name within the file name."""
    within = [letters for letters in classes if letters in _letters(name)]
    return classes[max(within, key=len)] if within else None


def _letters(text: str) -> str:
    return "".join(c for c in text.lower() if c.isalnum())
