"""The pictures of shards, as they are compared with others: by their bytes, by their URL, and by PDQ hashes."""

import hashlib
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from ingest.formats import Source
from ingest.images.pdq import Hashes, distances, hashes_of
from ingest.images.pixels import ImageLimits
from ingest.sample import Sample
from jobs.runtime.progress import Meter

_LIMITS = ImageLimits(max_side_px=1024, has_pdq=True)


def pdq_texts(encoded: bytes) -> list[str]:
    """Return the hash of each picture that a file shows; empty if nothing can be decoded. Content without a hash, such
    as a frame after the first 16, is left out."""
    from ingest.images.decode import DecodedImage, decode  # most releases need no decoder

    decoded = decode(encoded, _LIMITS)
    return [text for text in decoded.pdq or () if text is not None] if isinstance(decoded, DecodedImage) else []


def pdq_hashes(encoded: bytes) -> Hashes | None:
    """Return the same as numbers, shape (pictures, 4); None if nothing can be decoded."""
    texts = pdq_texts(encoded)
    return hashes_of(texts) if texts else None


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
    distance: int | None
    """Number of bits in which it differs from the nearest given hash, at its nearest. None if it cannot be compared."""


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
        near = int(distances(looked_for, hashes).min()) if hashes is not None else None
    return HeldPicture(shard, sample.index, sample.key, sha256, sample.url_sha256, near)


def scanned_distances(decisions: pa.Table, looked_for: Hashes) -> Iterator[tuple[int, int]]:
    """Yield, for each frame of a released picture that was covered, its row, and in how many bits it differed from the
    nearest hash before. looked_for: shape (hashes, 4)."""
    scanned = decisions["pdq"].combine_chunks()
    rows, texts = pc.list_parent_indices(scanned).to_pylist(), pc.list_flatten(scanned)
    num_at_once = max(1, 2**20 // max(1, len(looked_for)))  # so that a million pairs are in memory
    for first in range(0, len(rows), num_at_once):
        hashes = hashes_of(texts.slice(first, num_at_once).to_pylist())
        nearest = distances(looked_for, hashes).min(axis=1)
        yield from zip(rows[first : first + num_at_once], nearest.tolist(), strict=True)
