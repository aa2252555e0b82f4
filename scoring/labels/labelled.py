"""What an importer gives: one labelled picture of a data set, before its file is looked at."""

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from ingest.errors import LabelsError
from ingest.sample import printable
from ingest.storage.place import Place

PICTURE_EXTENSIONS = frozenset([".jpg", ".jpeg", ".png", ".gif", ".bmp", ".tif", ".tiff", ".webp"])


@dataclass(frozen=True, slots=True)
class Labelled:
    """One picture with what one annotator says about it. What the source does not say is None or left out."""

    path: str | None
    """Of the picture, relative to the folder of the data set, whether or not it is there; None if unknown."""

    private: int | None = None
    class_: str | None = None
    split: str | None = None
    score: float | None = None

    labels: tuple[str, ...] = ()
    """Labels of the source, which a mapping turns into values of attributes."""

    values: Mapping[str, float] = field(default_factory=dict)
    """Attribute -> 0, 0.5 or 1, if the source gives these itself. A mapping does not change them."""

    annotator: str | None = None
    """None: the data set itself."""

    licence: str | None = None
    """None: that of the data set."""

    sha256: str | None = None
    """If the source gives it. It must be that of the picture if that is there."""

    key: str | None = None
    """What names the picture if it is not at its path; None for the name of its file."""

    where: str = ""
    """File and line that says so, for errors."""


class Importer(Protocol):
    """What a module of `scoring/labels/importers/` offers."""

    @property
    def MAPPING(self) -> str | None:  # noqa: N802
        """Name of the shipped mapping, None if the labels of the source need none."""

    @property
    def LICENCE(self) -> str | None:  # noqa: N802
        """Of the labels, None if unknown."""

    @property
    def NOTES(self) -> tuple[str, ...]:  # noqa: N802
        """What a user of the labels must know, one sentence each."""

    def pictures(self, root: Place) -> Iterator[Labelled]:
        """Every labelled picture, in the order of the source. LabelsError with file and line if a file is wrong.

        root: the folder of the data set, or its one file.
        """
        ...


def folder_and_file(root: Place, default_name: str) -> tuple[Place, str]:
    """Of a data set that is one file: its folder and its name. root: the file, or the folder with a default name."""
    if root.is_dir():
        return root, default_name
    return Place(root.fs, posixpath.dirname(root.path)), root.name


def inside(path: str, where: str) -> str:
    """The path of a picture in its plain form. LabelsError if it leads out of the root."""
    plain = posixpath.normpath(path.replace("\\", "/"))
    if plain.startswith(("/", "../")) or plain in ("..", ".", "") or "\0" in plain:
        raise LabelsError(f"{where}: the path of the picture leads out of the folder; give paths below it")
    return plain


def key_of(path: str) -> str:
    """The key that a scan of a folder tree gives to the picture: the name of its file."""
    return printable(posixpath.basename(path))


def has_picture_name(name: str) -> bool:
    return posixpath.splitext(name)[1].lower() in PICTURE_EXTENSIONS
