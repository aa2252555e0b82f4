"""Which changed picture belongs to which original.

They are matched by shard and key, with their extensions if these tell pictures apart, else by a key that occurs once in
both corpora. Corpora are listed by names alone. A picture is read when its pair is compared.
"""

import hashlib
import heapq
import posixpath
from collections.abc import Iterator
from dataclasses import dataclass

from ingest.errors import SourceError
from ingest.formats import FORMATS, Source, open_source
from ingest.formats.members import IMAGE_EXTENSIONS
from ingest.sample import Locator, Sample, Slice, printable


@dataclass(frozen=True)
class PicturePlace:
    """A picture of a corpus that was listed."""

    shard: str
    locator: Locator

    name: str
    """Its key; for a file, without the extension of a picture."""

    path: str
    """Shard and name, without the extension of the shard."""

    full_path: str
    """`path` with the picture's extension: one folder can hold both `a.png` and `a.jpg`."""


class Corpus:
    """The names of a corpus, and where each picture is."""

    def __init__(self, url: str):
        """List a corpus. SourceError or StorageError if there is none, or it cannot be listed."""
        self.source = open_source(url, None, None)
        self.places = list(_places(self.source))
        self._by_full_path = _unique((place.full_path, place) for place in self.places)
        self._by_path = _unique((place.path, place) for place in self.places)
        self._by_name = _unique((place.name, place) for place in self.places)

    def partner_of(self, place: PicturePlace, others: "Corpus") -> PicturePlace | None:
        """Return the picture of this corpus that belongs to one of another; None if there is none, or several."""
        for name, own, theirs in (
            (place.full_path, self._by_full_path, others._by_full_path),
            (place.path, self._by_path, others._by_path),
            (place.name, self._by_name, others._by_name),
        ):
            if (partner := own.get(name)) is not None and theirs.get(name) is not None:
                return partner
        return None

    def key_of(self, place: PicturePlace) -> str:
        """Return what names the picture among all of the corpus: its path, with the extension if another one has it."""
        return place.full_path if self._by_path.get(place.path) is None else place.path

    def read(self, place: PicturePlace) -> Sample:
        """Read a picture. StorageError if the storage fails."""
        return next(iter(self.source.read(Slice(place.shard, 0, True, [place.locator]))))


def drawn(places: list[PicturePlace], count: int | None, seed: int) -> list[PicturePlace]:
    """Draw this many of the pictures at random, in their order. The draw depends on the paths and the seed alone."""
    if count is None or count >= len(places):
        return places
    marks = ((hashlib.sha256(f"{seed}/{place.path}".encode()).digest(), n) for n, place in enumerate(places))
    return [places[n] for n in sorted(n for _, n in heapq.nsmallest(count, marks))]


def _places(source: Source) -> Iterator[PicturePlace]:
    for shard in source.shards:
        shown = "" if shard == "." else _without_extension(printable(shard), source.format)
        names = (key for key, _ in _names(source, shard))
        locators = (locator for slice_ in source.slices(shard) for locator in slice_.locators)
        for key, locator in zip(names, locators, strict=False):
            name = _without_picture_extension(key)
            yield PicturePlace(shard, locator, name, posixpath.join(shown, name), posixpath.join(shown, key))


def _names(source: Source, shard: str) -> Iterator[tuple[str, str | None]]:
    try:
        yield from FORMATS[source.format].names(source.root, shard, None)
    except SourceError:
        return  # a shard that cannot be read has no names


def _without_extension(shard: str, format_name: str) -> str:
    if format_name == "tree":
        return shard
    return posixpath.join(posixpath.dirname(shard), posixpath.basename(shard).partition(".")[0])


def _without_picture_extension(key: str) -> str:
    stem, extension = posixpath.splitext(key)
    return stem if extension.lower().lstrip(".") in IMAGE_EXTENSIONS else key


def _unique(named: Iterator[tuple[str, PicturePlace]]) -> dict[str, PicturePlace | None]:
    """Return name -> place; None if two places have the name."""
    places = dict[str, PicturePlace | None]()
    for name, place in named:
        places[name] = None if name in places else place
    return places
