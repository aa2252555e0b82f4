"""One original and one changed picture -> the areas that differ, and the numbers of the pair.

If all but a face is the same, a comparison of the whole picture would say "very much alike", whatever was done to the
face. So only the areas that differ are compared.

Originals and changed pictures (`Corpus`) are matched by shard and key, with their extensions if these tell pictures
apart, else by a key that occurs once in both corpora. Corpora are listed by names alone; a picture is read when its
pair is compared.
"""

import hashlib
import heapq
import posixpath
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ingest.errors import SourceError
from ingest.formats import FORMATS, Source, open_source
from ingest.formats.members import IMAGE_EXTENSIONS
from ingest.images.decode import DecodedImage, decode
from ingest.images.pixels import ImageLimits, Pixels
from ingest.sample import Locator, Sample, Slice, printable
from jobs.runtime.hash_list import HashList
from reports.similarity.compute import PairFigures
from reports.similarity.likeness import Features, distance, mean_squared_error, psnr, ssim
from scoring.picture_encoders import PictureEncoder

CELL_PX = 16
"""Pictures are compared in squares of this size, the blocks of a JPEG."""

MIN_STEPS = 32
"""A square differs if one of its pixels differs by this many of the 255 steps in a channel. Less can change next to a
covered area when a JPEG is written again."""

MOST = 0.5
"""If the areas are more than this share of the picture, it counts as changed as a whole."""

PixelBox = tuple[int, int, int, int]
"""Left, upper, right, lower, in pixels; the last two are outside of the box."""


def changed_areas(a: Pixels, b: Pixels) -> list[PixelBox]:
    """Return rectangles around what differs; the whole picture if nearly all of it differs, or all of it only a little.
    a, b: of the same shape. Empty if they are equal."""
    from scipy.ndimage import find_objects, label

    if np.array_equal(a, b):
        return []
    height, width = a.shape[:2]
    whole = [(0, 0, width, height)]
    differs = _cells(np.abs(a.astype(np.int16) - b).max(axis=2) >= MIN_STEPS)
    numbered, num_areas = label(differs, structure=np.ones((3, 3)))
    if num_areas == 0:
        return whole
    boxes = [
        (
            across.start * CELL_PX,
            down.start * CELL_PX,
            min(width, across.stop * CELL_PX),
            min(height, down.stop * CELL_PX),
        )
        for down, across in find_objects(numbered)
    ]
    covered = sum((right - left) * (lower - upper) for left, upper, right, lower in boxes)
    return whole if covered > MOST * width * height else boxes


def _cells(mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    height, width = mask.shape
    padded = np.pad(mask, ((0, -height % CELL_PX), (0, -width % CELL_PX)))
    cells = padded.reshape(-(-height // CELL_PX), CELL_PX, -(-width // CELL_PX), CELL_PX)
    return np.asarray(cells.any(axis=(1, 3)), dtype=np.bool_)


MAX_SIDE_PX = 1600
"""Pictures are decoded to this longer side, as the detectors see them, …"""

MAX_COMPARED_PX = 512
"""… and the compared areas are reduced to this one. PSNR and SSIM depend on it."""


class EncodedPicture:
    """A picture and the features of its parts, each computed once."""

    def __init__(self, pixels: Pixels, encoder: PictureEncoder):
        self.pixels, self._encoder = pixels, encoder
        self._parts = dict[PixelBox, tuple[Pixels, Features]]()

    def part(self, area: PixelBox) -> tuple[Pixels, Features]:
        """Return an area, reduced to `MAX_COMPARED_PX`, and its features."""
        if area not in self._parts:
            left, upper, right, lower = area
            pixels = reduced(self.pixels[upper:lower, left:right])
            self._parts[area] = pixels, self._encoder.of(pixels)
        return self._parts[area]


def compared(original: EncodedPicture, changed: Pixels, is_whole: bool, encoder: PictureEncoder) -> PairFigures | None:
    """Compare a pair; None if the pictures are equal, pixel by pixel.

    If several areas differ, the figures are of the area that is most alike by SemSim: one face that can be recognised
    is enough. A metric is None if it is not defined: PSNR if no pixel differs once the area is reduced, SSIM if the
    area is too small.
    """
    height, width = original.pixels.shape[:2]
    had_other_size = changed.shape != original.pixels.shape
    if had_other_size:
        changed = _resized(changed, (width, height))
    areas = changed_areas(original.pixels, changed)
    if not areas:
        return None
    second = EncodedPicture(changed, encoder)
    parts = [(original.part(area), second.part(area)) for area in ([(0, 0, width, height)] if is_whole else areas)]
    (a, features_a), (b, features_b) = min(parts, key=lambda pair: distance(pair[0][1], pair[1][1]))
    mse = mean_squared_error(a, b)
    metrics = {"mse": mse, "psnr": psnr(mse), "ssim": ssim(a, b), "semsim": distance(features_a, features_b)}
    return PairFigures(metrics, features_a, features_b, len(parts), had_other_size)


def reduced(pixels: Pixels) -> Pixels:
    """Return the picture, or one of `MAX_COMPARED_PX` if it is larger."""
    factor = MAX_COMPARED_PX / max(pixels.shape[:2])
    if factor >= 1:
        return pixels
    return _resized(pixels, (max(1, round(pixels.shape[1] * factor)), max(1, round(pixels.shape[0] * factor))))


def _resized(pixels: Pixels, size: tuple[int, int]) -> Pixels:
    """Return the resized picture. size: width and height."""
    from PIL import Image

    image = Image.fromarray(np.ascontiguousarray(pixels))
    return np.asarray(image.resize(size, Image.Resampling.BILINEAR, reducing_gap=2.0))


@dataclass(frozen=True)
class PicturePlace:
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
        for name, ours, theirs in (
            (place.full_path, self._by_full_path, others._by_full_path),
            (place.path, self._by_path, others._by_path),
            (place.name, self._by_name, others._by_name),
        ):
            if (partner := ours.get(name)) is not None and theirs.get(name) is not None:
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
        shown = "" if shard == "." else printable(shard)
        if source.format != "tree":
            shown = posixpath.join(posixpath.dirname(shown), posixpath.basename(shown).partition(".")[0])
        names = (key for key, _ in _names(source, shard))
        locators = (locator for slice_ in source.slices(shard) for locator in slice_.locators)
        for key, locator in zip(names, locators, strict=False):
            stem, extension = posixpath.splitext(key)
            name = stem if extension.lower().lstrip(".") in IMAGE_EXTENSIONS else key
            yield PicturePlace(shard, locator, name, posixpath.join(shown, name), posixpath.join(shown, key))


def _names(source: Source, shard: str) -> Iterator[tuple[str, str | None]]:
    with suppress(SourceError):  # a shard that cannot be read has no names
        yield from FORMATS[source.format].names(source.root, shard, None)


def _unique(named: Iterator[tuple[str, PicturePlace]]) -> dict[str, PicturePlace | None]:
    """Return name -> place; None if two places have the name."""
    places = dict[str, PicturePlace | None]()
    for name, place in named:
        places[name] = None if name in places else place
    return places


@dataclass(frozen=True)
class ReadPicture:
    sha256: str
    """Hash of the file."""

    is_withheld: bool
    """Whether it is on the hash list, or cannot be compared with it."""

    pixels: Pixels | None
    """Pixels of its first frame; None if it cannot be decoded."""


def read_picture(corpus: Corpus, place: PicturePlace, hash_list: HashList) -> ReadPicture:
    """Read the first frame, and say whether the picture may be shown. StorageError if the storage fails."""
    sample = corpus.read(place)
    limits = ImageLimits(max_side_px=MAX_SIDE_PX, max_frames=1, has_pdq=hash_list.needs_pdq)
    decoded = decode(sample.encoded, limits) if sample.fault is None else None
    image = decoded if isinstance(decoded, DecodedImage) else None
    sha256 = hashlib.sha256(sample.encoded).hexdigest()
    clearance = hash_list.clearances([sha256], [image.pdq if image else None])[0]
    return ReadPicture(sha256, clearance != "clear", image.views[0] if image else None)


def corpora_of(urls: Sequence[str]) -> dict[str, Corpus]:
    """Return a corpus for each URL, by its name: the end of the URL, as long as it takes to tell it from the others.
    SourceError or StorageError if a corpus cannot be listed, or is given twice."""
    parts = [url.rstrip("/").split("/") for url in urls]
    depth = 1
    while len({tuple(each[-depth:]) for each in parts}) < len(urls) and depth < max(map(len, parts)):
        depth += 1
    if len(set(urls)) < len(urls):
        raise SourceError("CHANGED names one corpus twice; give each once")
    return {"/".join(each[-depth:]): Corpus(url) for each, url in zip(parts, urls, strict=True)}
