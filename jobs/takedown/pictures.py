"""The pictures that a release, or a copy of its shards, holds, and how near each is to given PDQ hashes.

The hashes are computed from the released pictures, since a release does not record any.
"""

import hashlib
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from ingest.formats import Source
from ingest.images.decode import DecodedImage, decode
from ingest.images.pdq import NUM_HASHES, Hashes, distances, hashes_of
from ingest.images.pixels import ImageLimits
from ingest.sample import Sample
from jobs.runtime.progress import Meter

LIMITS = ImageLimits(max_side_px=1024, has_pdq=True)

MAX_THREADS = 8
"""Limit, since each may need as much memory as a picture takes to decode (`ingest.images.decode`)."""


@dataclass(frozen=True)
class HeldPicture:
    """A picture of a shard. Fields without a docstring are as in the row of a run."""

    shard: str
    """As `Source.shards` names it."""

    index: int
    key: str
    sha256: str | None
    """None if the sample holds no picture."""

    url_sha256: str | None
    domain: str | None
    distances: npt.NDArray[np.uint16] | None
    """Number of bits in which it differs from each given hash, at its nearest; shape (hashes,). None if it cannot be
    compared."""

    def nearest(self) -> int | None:
        """Return the smallest of `distances`."""
        return None if self.distances is None or not len(self.distances) else int(self.distances.min())


def held_pictures(source: Source, looked_for: Hashes, meter: Meter) -> Iterator[HeldPicture]:
    """Yield every sample of a corpus, in order. looked_for: shape (hashes, 4); without any, no picture is decoded."""
    with ThreadPoolExecutor(min(MAX_THREADS, os.cpu_count() or 1)) as threads:
        for shard in source.shards:
            for slice_ in source.slices(shard):
                for picture in threads.map(partial(_held, shard, looked_for), source.read(slice_)):
                    yield picture
                    meter.advance(1)


def _held(shard: str, looked_for: Hashes, sample: Sample) -> HeldPicture:
    sha256 = None if sample.fault is not None else hashlib.sha256(sample.encoded).hexdigest()
    near = None
    if len(looked_for) and sha256 is not None:
        hashes = pdq_hashes(sample.encoded)
        near = distances(looked_for, hashes).min(axis=0) if hashes is not None else None
    return HeldPicture(shard, sample.index, sample.key, sha256, sample.url_sha256, sample.domain, near)


def pdq_hashes(encoded: bytes) -> npt.NDArray[np.uint64] | None:
    """Return the hashes of all that a file shows, shape (pictures, NUM_HASHES, 4); None if nothing can be decoded.
    Content without a hash, such as a frame after the first 16, is left out."""
    decoded = decode(encoded, LIMITS)
    texts = [text for text in decoded.pdq or () if text is not None] if isinstance(decoded, DecodedImage) else []
    return hashes_of(texts, NUM_HASHES) if texts else None
