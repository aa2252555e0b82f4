"""Folders of labelled versions, as the authors of SemSim lay them out (SonyResearch/SemSim, README).

    CLASS/    7_CLASS_ori.png   an original          7_CLASS_rec.png   a version that people recognised
    -CLASS/   9_CLASS_rec.png   versions that they did not recognise
    others/   any names         more versions that were not recognised

Names of several versions of one original go on after `_rec`: `7_CLASS_rec-blur.png`.
"""

import posixpath
import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from ingest.errors import LabelsError

OTHERS = "others"

_NAME = re.compile(r"(?P<stem>.+)_(?P<kind>ori|rec)(?P<version>[^_]*)", re.DOTALL)


@dataclass(frozen=True)
class LabelledOriginal:
    """Paths of an original and of its versions."""

    original: str
    recognised: tuple[str, ...]
    unrecognised: tuple[str, ...]
    """Its own if there are any, else those of its class, else `others`."""


@dataclass(frozen=True)
class Triplets:
    """One recognised version, by the numbers of pictures."""

    original: int
    recognised: int
    unrecognised: tuple[int, ...]
    """At least one; each epoch draws one of them."""


def labelled_versions(paths: Iterable[str]) -> tuple[tuple[LabelledOriginal, ...], int]:
    """Read labels from names of pictures. Return the originals with a version that was recognised and one that was not,
    and the number of files that belong to none of these. LabelsError if no original can be used.

    paths: of the pictures below the folder, without their extensions.
    """
    originals, recognised = dict[tuple[str, str], str](), defaultdict[tuple[str, str], list[str]](list)
    unrecognised, of_class = defaultdict[tuple[str, str], list[str]](list), defaultdict[str, list[str]](list)
    others, num_files = list[str](), 0
    for path in paths:
        num_files += 1
        folder, name = posixpath.split(path)
        class_ = posixpath.basename(folder)
        match = _NAME.fullmatch(name)
        if class_ == OTHERS:
            others.append(path)
        elif match is None:
            continue
        elif match["kind"] == "ori":
            originals[class_.removeprefix("-"), match["stem"]] = path
        elif class_.startswith("-"):
            unrecognised[class_.removeprefix("-"), match["stem"]].append(path)
            of_class[class_.removeprefix("-")].append(path)
        else:
            recognised[class_, match["stem"]].append(path)
    usable = tuple(
        LabelledOriginal(
            path, tuple(recognised[name]), tuple(unrecognised.get(name) or of_class.get(name[0]) or others)
        )
        for name, path in originals.items()
        if name in recognised and (name in unrecognised or name[0] in of_class or others)
    )
    if not usable:
        raise LabelsError(
            "no original has versions of both kinds; CLASS/ needs NAME_ori and NAME_rec, and -CLASS/ or others/ "
            "versions that were not recognised (privsieve help similarity)"
        )
    used = {path for each in usable for path in (each.original, *each.recognised, *each.unrecognised)}
    return usable, num_files - len(used)
