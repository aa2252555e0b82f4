"""Finds which pictures of a release the lines of a list name, by `decisions.parquet`.

How near a picture is to given PDQ hashes is computed from the released pictures; the decisions have the hashes of those
that were covered, as they were scanned.
"""

import hashlib
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingest.errors import PrivsieveError
from ingest.formats import Source, open_source
from ingest.images.decode import DecodedImage, decode
from ingest.images.pdq import Hashes, distances, hashes_of
from ingest.images.pixels import ImageLimits
from ingest.sample import Sample, printable
from jobs.releases.entries import Entry, is_of_rows, looked_for, pdq_names
from jobs.releases.url_list import ReleaseKind
from jobs.runtime.progress import Feedback, Meter

_LIMITS = ImageLimits(max_side_px=1024, has_pdq=True)


def pdq_texts(encoded: bytes) -> list[str]:
    """Return the hash of each picture that a file shows; empty if nothing can be decoded. Content without a hash, such
    as a frame after the first 16, is left out."""
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


@dataclass(frozen=True)
class NearMatch:
    """A picture that a PDQ hash found."""

    number: int
    """Number of the line."""

    name: str
    """SHARD/KEY."""

    distance: int
    """Number of bits that differ, of 256."""


@dataclass(frozen=True)
class RemovalResult:
    """What a takedown or an apply has removed."""

    num_entries: int
    """Lines of the list."""

    num_pictures: int
    """Pictures that were removed, copies too."""

    num_shards: int
    """Shards that held them."""

    names: tuple[str, ...]
    """SHARD/KEY of the first MAX_NAMED of them."""

    unknown: tuple[int, ...]
    """Numbers of lines that name no picture that the release knows, or that the copy holds."""

    near: tuple[NearMatch, ...]
    """Pictures that PDQ hashes found."""

    num_not_compared: int
    """Pictures that cannot be decoded, so that no PDQ hash finds them."""

    copies_left: tuple[str, ...]
    """SHARD/KEY of each picture that stays and has the same bytes as one that was removed by another name."""

    is_by_rows: bool
    """The list is a removed.parquet, of which a copy need not hold each picture."""

    gone_before: tuple[int, ...] = ()
    """Numbers of lines whose pictures the release does not hold: dropped by its policy, or taken down before."""

    is_signature_void: bool = False
    """The release was signed as it was before."""


MAX_NAMED = 20

Near = tuple[str, int, int]
"""What a PDQ hash found: the hash, the row of a picture, and the number of bits that differ."""


def named_pictures(
    url: str, decisions: pa.Table, entries: Sequence[Entry], max_distance: int, kind: ReleaseKind, feedback: Feedback
) -> tuple[dict[int, Entry], RemovalResult]:
    """Return each released picture that a list names, as its row in the decisions -> the first line that names it, and
    the result of removing these. Only rows that the list names become Python objects.

    PrivsieveError if a key is that of several pictures, or if the release does not record what a line names.
    """
    near, num_not_compared = _near_pictures(url, decisions, entries, max_distance, kind, feedback)
    rows_of = _rows_of_names(decisions, entries, url)
    _add_copies(decisions, rows_of)
    bits_of = dict[tuple[int, str], int]()
    for name, row, distance in near:
        rows_of.setdefault(("pdq", name), []).append(row)
        bits_of[row, name] = min(distance, bits_of.get((row, name), distance))
    is_released = pc.is_valid(decisions["released_sha256"]).to_numpy()
    entry_of, gone, unknown, shown = dict[int, Entry](), list[int](), list[int](), list[NearMatch]()
    for entry in entries:
        rows_of_entry = rows_of.get((entry.kind, entry.name), [])
        released = sorted({row for row in rows_of_entry if is_released[row]})
        if entry.kind == "key" and len(released) > 1:
            raise PrivsieveError(
                f"line {entry.number} of the list is the key of {len(released):,} pictures; write SHARD/KEY, or the "
                "sha256"
            )
        for row in released:
            entry_of.setdefault(row, entry)
        if entry.kind == "pdq":
            names = _names(decisions, released)
            shown += [NearMatch(entry.number, n, bits_of[r, entry.name]) for r, n in zip(released, names, strict=True)]
        if not released:
            (gone if rows_of_entry else unknown).append(entry.number)
    entry_of = kind.with_all_rows(decisions, entry_of)
    rows, hashes = sorted(entry_of), decisions["released_sha256"]
    gone_hashes = pc.drop_null(hashes.take(pa.array(rows, pa.int64()))).combine_chunks()
    copies = [r for r in np.flatnonzero(pc.is_in(hashes, gone_hashes).to_numpy()).tolist() if r not in entry_of]
    result = RemovalResult(
        len(entries),
        len(rows),
        len(pc.unique(decisions["shard"].take(pa.array(rows, pa.int64())))),
        _names(decisions, rows[:MAX_NAMED]),
        tuple(unknown),
        tuple(shown),
        num_not_compared,
        _names(decisions, copies),
        is_of_rows(entries),
        tuple(gone),
    )
    return entry_of, result


def _names(decisions: pa.Table, rows: Sequence[int]) -> tuple[str, ...]:
    """Return SHARD/KEY of each of these rows."""
    named = decisions.select(["shard", "key"]).take(pa.array(rows, pa.int64()))
    return tuple(f"{row['shard']}/{row['key']}" for row in named.to_pylist())


def _near_pictures(
    url: str, decisions: pa.Table, entries: Sequence[Entry], max_distance: int, kind: ReleaseKind, feedback: Feedback
) -> tuple[list[Near], int]:
    """Compare every picture of a release with the PDQ hashes of a list. Also count those that cannot be decoded."""
    names = pdq_names(entries)
    if not names:
        return [], 0
    if not kind.has_pictures:
        number = next(entry.number for entry in entries if entry.kind == "pdq")
        raise PrivsieveError(
            f"line {number} of the list is a PDQ hash, and {url} is a list of URLs without pictures to compare; write "
            "the URL, the sha256, or SHARD/KEY"
        )
    wanted, rows_of = looked_for(names), _rows_of_released(decisions)
    near, num_not_compared = list[Near](), 0

    def compare(rows: Sequence[int], bits: npt.NDArray[np.uint16]) -> None:
        for number in np.flatnonzero(bits <= max_distance).tolist():
            near.extend((names[number], row, int(bits[number])) for row in rows)

    for row, bits in scanned_distances(decisions, wanted):
        compare([row], bits)
    with feedback.meter("compare pictures", None) as meter:
        for picture in held_pictures(open_source(url, None, None), wanted, meter):
            if picture.distances is None or picture.sha256 is None:
                num_not_compared += 1
            else:
                compare(rows_of.get((printable(picture.shard), picture.sha256), ()), picture.distances)
    return near, num_not_compared


PAIRS_AT_ONCE = 2**20


def scanned_distances(decisions: pa.Table, looked_for: Hashes) -> Iterator[tuple[int, npt.NDArray[np.uint16]]]:
    """Yield, for each frame of a released picture that was covered, its row, and in how many bits it differed from each
    hash before; shape (hashes,)."""
    scanned = decisions["pdq"].combine_chunks()
    rows, texts = pc.list_parent_indices(scanned).to_pylist(), pc.list_flatten(scanned)
    num_at_once = max(1, PAIRS_AT_ONCE // max(1, len(looked_for)))
    for first in range(0, len(rows), num_at_once):
        hashes = hashes_of(texts.slice(first, num_at_once).to_pylist())
        yield from zip(rows[first : first + num_at_once], distances(looked_for, hashes), strict=True)


def _add_copies(decisions: pa.Table, rows_of: dict[tuple[str, str], list[int]]) -> None:
    """Add the pictures with the same released bytes to those that a hash or a URL names."""
    named, hashes = dict[str, set[tuple[str, str]]](), decisions["released_sha256"]
    for name, rows in rows_of.items():
        if name[0] in ("sha256", "url"):
            for sha256 in pc.drop_null(hashes.take(pa.array(rows, pa.int64()))).to_pylist():
                named.setdefault(sha256, set()).add(name)
    rows = np.flatnonzero(pc.is_in(hashes, pa.array([*named], pa.string())).to_numpy()).tolist()
    for row, sha256 in zip(rows, hashes.take(pa.array(rows, pa.int64())).to_pylist(), strict=True):
        for name in named[sha256]:
            rows_of[name].append(row)


def _rows_of_released(decisions: pa.Table) -> dict[tuple[str, str], list[int]]:
    """Return shard and hash of a released picture -> its rows."""
    rows_of: dict[tuple[str, str], list[int]] = {}
    names = zip(decisions["shard"].to_pylist(), decisions["released_sha256"].to_pylist(), strict=True)
    for row, (shard, sha256) in enumerate(names):
        if sha256 is not None:
            rows_of.setdefault((shard, sha256), []).append(row)
    return rows_of


def _rows_of_names(decisions: pa.Table, entries: Sequence[Entry], url: str) -> dict[tuple[str, str], list[int]]:
    """Return kind and name of an entry -> rows. PrivsieveError if a line names what the release does not record."""
    paths = pc.binary_join_element_wise(decisions["shard"], decisions["key"], "/")
    columns: dict[str, tuple[pa.ChunkedArray, ...]] = {
        "sha256": (decisions["sha256"], decisions["released_sha256"], decisions["key"], paths),
        "key": (decisions["key"], paths),
        "url": (decisions["url_sha256"],),
        "domain": (decisions["domain"],),
    }
    rows_of: dict[tuple[str, str], list[int]] = {}
    for kind, searched in columns.items():
        names = pa.array({entry.name for entry in entries if entry.kind == kind}, pa.string())
        for column in searched if len(names) else ():
            rows = np.flatnonzero(pc.is_in(column, names).to_numpy())
            for row, name in zip(rows.tolist(), column.take(pa.array(rows)).to_pylist(), strict=True):
                rows_of.setdefault((kind, name), []).append(row)
        typed = [entry for entry in entries if entry.kind == kind]
        if typed and kind in ("url", "domain") and 0 < decisions.num_rows == columns[kind][0].null_count:
            raise PrivsieveError(
                f"line {typed[0].number} of the list names a {'URL' if kind == 'url' else kind}, and {url} records "
                "none, since its source or its policy gives none; write the sha256, or SHARD/KEY"
            )
    return rows_of
