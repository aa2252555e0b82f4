"""One labelled picture of a data set, as importers yield it before its file is read."""

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from ingest.errors import LabelsError
from ingest.sample import printable
from ingest.storage.place import Place

PICTURE_EXTENSIONS = frozenset([".jpg", ".jpeg", ".png", ".gif", ".bmp", ".tif", ".tiff", ".webp"])


@dataclass(frozen=True, slots=True)
class LabelledPicture:
    """One picture with the labels of one annotator. Labels that the source does not give are None or missing."""

    path: str | None
    """Path of the picture relative to the folder of the data set, even if it is missing; None if unknown."""

    private: int | None = None
    class_: str | None = None
    split: str | None = None
    score: float | None = None

    vote: str | None = None
    """Class of `votes.VOTES`; `private` follows from it."""

    labels: tuple[str, ...] = ()
    """Labels of the source, which a mapping turns into values of attributes."""

    values: Mapping[str, float] = field(default_factory=dict)
    """Attribute -> 0, 0.5 or 1, if the source gives these itself. A mapping does not change them."""

    annotator: str | None = None
    """Name of the annotator; None for the data set itself."""

    licence: str | None = None
    """Licence of the label; None for that of the data set."""

    sha256: str | None = None
    """Hash of the picture, if the source gives it; it must match the picture if that exists."""

    key: str | None = None
    """Name of the picture if it is not at its path; None for the name of its file."""

    where: str = ""
    """File and line of the label, for errors."""


class Importer(Protocol):
    """Interface of the modules of `scoring/labels/importers/`."""

    @property
    def MAPPING(self) -> str | None:  # noqa: N802
        """Name of the shipped mapping, None if the labels of the source need none."""

    @property
    def LICENCE(self) -> str | None:  # noqa: N802
        """Licence of the labels, None if unknown."""

    @property
    def NOTES(self) -> tuple[str, ...]:  # noqa: N802
        """Notes that users of the labels need, one sentence each."""

    def pictures(self, root: Place) -> Iterator[LabelledPicture]:
        """Yield every labelled picture, in the order of the source. LabelsError with file and line if a file is wrong.

        root: the folder of the data set, or its one file.
        """
        ...


def folder_and_file(root: Place, default_name: str) -> tuple[Place, str]:
    """Return folder and name of a data set that is one file. root: the file, or the folder with a default name."""
    if root.is_dir():
        return root, default_name
    return Place(root.fs, posixpath.dirname(root.path)), root.name


def inside(path: str, where: str) -> str:
    """Normalise the path of a picture. LabelsError if it leads out of the root."""
    plain = posixpath.normpath(path.replace("\\", "/"))
    if plain.startswith(("/", "../")) or plain in ("..", ".", "") or "\0" in plain:
        raise LabelsError(f"{where}: the path of the picture leads out of the folder; give paths below it")
    return plain


def key_of(path: str) -> str:
    """Return the key that a scan of a folder tree gives to the picture: the name of its file."""
    return printable(posixpath.basename(path))


def has_picture_name(name: str) -> bool:
    return posixpath.splitext(name)[1].lower() in PICTURE_EXTENSIONS
