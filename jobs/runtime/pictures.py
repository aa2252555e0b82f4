"""The picture of a row, read from where the run was scanned: without an import, in any order.

A shard is listed once, up to the last picture that is wanted of it. A picture is then one read at a known position.
"""

import hashlib
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from ingest.formats import Source, open_source
from ingest.images.decode import DecodedImage, decode
from ingest.images.pixels import ImageLimits, Pixels
from ingest.sample import Locator, Slice, printable
from jobs.runtime.progress import Feedback
from scoring.runs.record import RunRecord


@dataclass(frozen=True)
class PictureRef:
    """The columns of a row that say where its picture is."""

    shard: str
    index: int

    sha256: str | None
    """None if the scan could not read any bytes."""

    key: str
    """Finds a file of a tree again if others were added to its folder, or removed."""


@dataclass(frozen=True)
class Picture:
    """What is in that place now."""

    state: Literal["found", "changed", "gone"]
    """found: the picture that was scanned. changed: another one. gone: none that can be read."""

    encoded: bytes = field(default=b"", repr=False)
    """The file's bytes; empty unless it was found."""


GONE, CHANGED = Picture("gone"), Picture("changed")


class Pictures:
    """The pictures of some rows of a run. Several threads may use it."""

    def __init__(self, record: RunRecord, wanted: Iterable[PictureRef]):
        """Open the source. wanted: all rows that will be asked for. SourceError or StorageError if that fails."""
        self._source = open_source(record.source, record.format, record.category)
        self._names = {printable(shard): shard for shard in self._source.shards}
        self._wanted = defaultdict[str, dict[int, str]](dict)
        for where in wanted:
            self._wanted[where.shard][where.index] = where.key
        self._locks = {shard: threading.Lock() for shard in self._wanted}
        self._located = dict[str, dict[int, tuple[str, Locator]]]()

    def read(self, where: PictureRef) -> Picture:
        """Read a picture. StorageError if the storage fails."""
        located = self._places_in(where.shard).get(where.index)
        if located is None or where.sha256 is None:
            return GONE
        shard, locator = located
        sample = next(iter(self._source.read(Slice(shard, 0, True, [locator]))))
        if sample.fault is not None:
            return GONE
        if hashlib.sha256(sample.encoded).hexdigest() != where.sha256:
            return CHANGED
        return Picture("found", sample.encoded)

    def locate(self, shard: str) -> None:
        """List a shard now, so that the first picture of it does not wait. StorageError if the storage fails."""
        self._places_in(shard)

    def _places_in(self, shard: str) -> dict[int, tuple[str, Locator]]:
        with self._locks[shard]:
            if shard not in self._located:
                self._located[shard] = _locators(self._source, self._names.get(shard), self._wanted[shard])
            return self._located[shard]


def first_frames(
    record: RunRecord, places: Sequence[PictureRef], max_side_px: int, feedback: Feedback
) -> Iterator[Pixels | None]:
    """Yield the first frame of each picture, in at most this size; None if the source no longer holds it as scanned.

    A notice at the end counts the missing ones. SourceError or StorageError if the source cannot be read.
    """
    source, num_missing = Pictures(record, places), 0
    limits = ImageLimits(max_pixels=record.max_pixels, max_frames=1, max_side_px=max_side_px)
    for where in places:
        decoded = decode(source.read(where).encoded, limits)
        num_missing += not isinstance(decoded, DecodedImage)
        yield decoded.views[0] if isinstance(decoded, DecodedImage) else None
    if num_missing:
        feedback.notice(
            f"{num_missing} of {len(places)} pictures are left out: the source holds them no more as scanned"
        )


def _locators(source: Source, shard: str | None, wanted: Mapping[int, str]) -> dict[int, tuple[str, Locator]]:
    """Return index -> shard name and position of the sample; without missing ones. wanted: index -> key."""
    if shard is None:
        return {}
    located = dict[int, tuple[str, Locator]]()
    if source.format == "tree":
        names = {printable(locator["name"]): locator for slice_ in source.slices(shard) for locator in slice_.locators}
        return {index: (shard, names[key]) for index, key in wanted.items() if key in names}
    last = max(wanted)
    for slice_ in source.slices(shard):
        for locator in slice_.locators:
            if locator["index"] in wanted:
                located[locator["index"]] = (shard, locator)
            if locator["index"] >= last:
                return located
    return located
