"""The sets of changed pictures that are asked for: other corpora, and versions made in memory."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ingest.errors import SourceError
from ingest.images.decode import DecodedImage, decode
from ingest.images.pixels import ImageLimits, Pixels
from jobs.runtime.hash_list import HashList
from jobs.similarity.changing import MadeSet
from jobs.similarity.comparing import MAX_SIDE_PX, Corpus, PicturePlace


@dataclass(frozen=True)
class ReadPicture:
    """A picture that was read."""

    sha256: str
    """Hash of the file, or of the original's file if the picture was made in memory."""

    is_withheld: bool
    """Whether it is on the hash list, or cannot be compared with it."""

    pixels: Pixels | None
    """Pixels of its first frame; None if it cannot be decoded."""


@dataclass(frozen=True)
class ChangedSet:
    """One set of changed pictures."""

    name: str

    changed: Callable[[PicturePlace, ReadPicture], ReadPicture | None]
    """Original -> its changed picture; None if there is none."""

    corpus: Corpus | None
    """None if the pictures are made in memory."""

    is_everywhere: bool
    """Whether the whole picture is known to be changed."""


def read_picture(corpus: Corpus, place: PicturePlace, hash_list: HashList) -> ReadPicture:
    """Read the first frame, and say whether the picture may be shown. StorageError if the storage fails."""
    sample = corpus.read(place)
    limits = ImageLimits(max_side_px=MAX_SIDE_PX, max_frames=1, has_pdq=hash_list.needs_pdq)
    decoded = decode(sample.encoded, limits) if sample.fault is None else None
    image = decoded if isinstance(decoded, DecodedImage) else None
    sha256 = hashlib.sha256(sample.encoded).hexdigest()
    listing = hash_list.listings([sha256], [image.pdq if image else None])[0]
    return ReadPicture(sha256, listing != "clear", image.views[0] if image else None)


def sets_of(
    changed: Sequence[str], made: Sequence[MadeSet], originals: Corpus, hash_list: HashList, seed: int
) -> list[ChangedSet]:
    """Return a set for each corpus, then one for each method and strength.

    changed: URLs. SourceError or StorageError if a corpus cannot be listed, or is given twice.
    """
    corpora = {name: Corpus(url) for name, url in _names_of(changed).items()}
    return [
        *(
            ChangedSet(name, _reading(originals, corpus, hash_list), corpus, is_everywhere=False)
            for name, corpus in corpora.items()
        ),
        *(ChangedSet(each.name, _making(each, seed), None, each.method.is_everywhere) for each in made),
    ]


def _names_of(urls: Sequence[str]) -> dict[str, str]:
    """Return name of a set -> URL. The name is the end of the URL, as long as it takes to tell it from the others."""
    parts = [url.rstrip("/").split("/") for url in urls]
    depth = 1
    while len({tuple(each[-depth:]) for each in parts}) < len(urls) and depth < max(map(len, parts)):
        depth += 1
    if len(set(urls)) < len(urls):
        raise SourceError("CHANGED names one corpus twice; give each once")
    return {"/".join(each[-depth:]): url for each, url in zip(parts, urls, strict=True)}


def _reading(
    originals: Corpus, corpus: Corpus, hash_list: HashList
) -> Callable[[PicturePlace, ReadPicture], ReadPicture | None]:
    def changed(place: PicturePlace, original: ReadPicture) -> ReadPicture | None:
        partner = corpus.partner_of(place, originals)
        return None if partner is None else read_picture(corpus, partner, hash_list)

    return changed


def _making(made: MadeSet, seed: int) -> Callable[[PicturePlace, ReadPicture], ReadPicture]:
    def changed(place: PicturePlace, original: ReadPicture) -> ReadPicture:
        if original.pixels is None or original.is_withheld:
            return original
        return ReadPicture(original.sha256, False, made.of(original.pixels, place.path, seed))

    return changed
