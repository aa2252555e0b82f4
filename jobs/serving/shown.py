"""The picture of a row as the browser gets it: decoded within limits and encoded anew, some ahead of the person. The
file itself never leaves this process. What is on the hash list is found here, before anything is sent."""

import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Literal

import simplejpeg

from ingest.errors import SourceError, StorageError
from ingest.images.decode import DecodedImage, decode
from ingest.images.pixels import ImageLimits
from jobs.runtime.hash_list import NOTHING, HashList
from jobs.runtime.pictures import PictureRef, Pictures, pdq_of
from scoring.runs.record import RunRecord

State = Literal["shown", "listed", "not_compared", "changed", "gone", "undecodable", "unreachable"]
"""shown: it can be shown. listed: it is on the hash list. not_compared: it cannot be compared with the list.
unreachable: the storage does not answer now."""

MAX_SIDE_PX = 1600
QUALITY = 85
NUM_THREADS = 4

KEPT = 64
"""Pictures in memory, of all reviewers, at about 300 KB."""

KEPT_BYTES = 256 * 2**20

LISTED_AHEAD = 40
"""Pictures whose shards are listed before they are needed; on an object store, a listing reads through a tar."""


@dataclass(frozen=True)
class ScreenedPicture:
    """One picture, or why it is not shown."""

    state: State
    jpeg: bytes = field(default=b"", repr=False)
    """Empty unless it is shown."""


class Screen:
    """Pictures by their number. For several threads."""

    def __init__(
        self,
        pictures: Pictures,
        places: Sequence[PictureRef],
        record: RunRecord,
        hidden: Mapping[int, Literal["listed", "not_compared"]],
        compared: HashList = NOTHING,
        max_side_px: int = MAX_SIDE_PX,
        kept: int = KEPT,
        kept_bytes: int = KEPT_BYTES,
    ):
        """Create the screen; no picture is loaded yet. hidden: numbers of pictures that are not shown. compared: a list
        that the others are compared with before they are shown, if the scan stored no hashes for it. kept, kept_bytes:
        limits on the pictures in memory and on their bytes; those that are being loaded come on top."""
        self._pictures, self._places, self._record, self._compared = pictures, places, record, compared
        self._limits = ImageLimits(record.max_pixels, max_frames=1, max_side_px=max_side_px)
        self._max_kept, self._max_bytes = kept, kept_bytes
        self._hidden = dict(hidden)
        self._states = dict[int, State](hidden)
        self._kept = OrderedDict[int, Future[ScreenedPicture]]()
        self._lock = threading.Lock()
        self._threads = ThreadPoolExecutor(NUM_THREADS, thread_name_prefix="pictures")
        self._listing = ThreadPoolExecutor(1, thread_name_prefix="shards")
        self._listed = set[str]()

    def picture(self, number: int) -> ScreenedPicture:
        """Return the picture; wait until it is loaded."""
        return self._begun(number).result()

    def prepare(self, numbers: Sequence[int], later: Sequence[int] = ()) -> None:
        """Begin to load pictures, and list the shards of later ones. Does not wait."""
        for number in numbers:
            self._begun(number)
        for number in later[:LISTED_AHEAD]:
            shard = self._places[number].shard
            with self._lock:
                is_new = shard not in self._listed
                self._listed.add(shard)
            if is_new:
                self._listing.submit(self._pictures.places_in, shard)  # so that the first picture of it does not wait

    def state(self, number: int) -> State | None:
        """Return the state; None if the picture was not loaded yet."""
        return self._states.get(number)

    def states(self) -> dict[int, State]:
        return dict(self._states)

    def close(self) -> None:
        for threads in (self._threads, self._listing):
            threads.shutdown(wait=False, cancel_futures=True)

    def _begun(self, number: int) -> Future[ScreenedPicture]:
        with self._lock:
            future = self._kept.get(number)
            if future is None or (future.done() and future.result().state == "unreachable"):
                future = self._threads.submit(self._load, number)
                self._kept[number] = future
            self._kept.move_to_end(number)
            num_bytes = sum(map(_num_bytes, self._kept.values()))
            while len(self._kept) > self._max_kept or (num_bytes > self._max_bytes and len(self._kept) > 1):
                dropped = self._kept.popitem(last=False)[1]
                num_bytes -= _num_bytes(dropped)
            return future

    def _load(self, number: int) -> ScreenedPicture:
        screened = self._screened(number)
        if screened.state != "unreachable":
            self._states[number] = screened.state
        return screened

    def _screened(self, number: int) -> ScreenedPicture:
        if number in self._hidden:
            return ScreenedPicture(self._hidden[number])
        try:
            picture = self._pictures.read(self._places[number])
        except (StorageError, SourceError):
            return ScreenedPicture("unreachable")
        if picture.state != "found":
            return ScreenedPicture(picture.state)
        decoded = decode(picture.encoded, self._limits)
        if not isinstance(decoded, DecodedImage):
            return ScreenedPicture("undecodable")
        if self._compared.needs_pdq:
            clearance = self._compared.clearances([None], [pdq_of(picture.encoded, self._record)])[0]
            if clearance != "clear":
                return ScreenedPicture("listed" if clearance == "listed" else "not_compared")
        return ScreenedPicture("shown", simplejpeg.encode_jpeg(decoded.views[0], quality=QUALITY, colorspace="RGB"))


def _num_bytes(loaded: Future[ScreenedPicture]) -> int:
    """Return the size of a picture; 0 until it is loaded."""
    return len(loaded.result().jpeg) if loaded.done() and loaded.exception() is None else 0
