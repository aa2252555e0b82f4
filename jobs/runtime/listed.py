"""Which rows of a run are on an operator's hash list.

A list of sha256 is compared with the rows alone. PDQ needs the pictures: they are read from where the run was scanned.
"""

from collections.abc import Sequence
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from ingest.errors import IncompleteError, QueryError, SourceError, StorageError, number_of
from ingest.images.decode import DecodedImage, ImageLimits, decode
from jobs.runtime.hash_list import NOTHING, HashList
from jobs.runtime.pictures import Pictures, Where
from reports.opened import MayName, OpenRun, all_named
from scoring.runs.record import RunRecord

COMPARED_SIDE_PX = 512
"""PDQ looks at 64 x 64 pixels; the picture is reduced before."""

COLUMNS = ("shard", "index", "sha256", "key")

Listing = Literal["clear", "listed", "undecodable", "gone"]
"""undecodable, gone: it cannot be compared; gone: the source no longer has it as it was scanned."""


def listings(record: RunRecord, rows: pa.Table, hash_list: HashList) -> list[Listing]:
    """Of each row, in order. rows: with `COLUMNS`. SourceError or StorageError if the source cannot be read at all."""
    columns = (rows[name].to_pylist() for name in COLUMNS)
    places = [Where(*row) for row in zip(*columns, strict=True)]
    if not hash_list.needs_pixels:
        return ["listed" if place.sha256 in hash_list.sha256 else "clear" for place in places]
    try:
        pictures = Pictures(record, [place for place in places if place.sha256 not in hash_list.sha256])
    except SourceError as error:
        raise SourceError(f"--hash-list has PDQ hashes, which are compared with the pictures: {error}") from None
    limits = ImageLimits(max_pixels=record.max_pixels, max_frames=1, max_side_px=COMPARED_SIDE_PX)
    return [_listing(pictures, place, limits, hash_list) for place in places]


def clear_rows(hash_list: HashList) -> MayName:
    """A function that says of each row whether it may be named; without a list, all may be."""
    if hash_list is NOTHING:
        return all_named

    def may_name(run: OpenRun, rows: pa.Table) -> list[bool]:
        return [listing == "clear" for listing in listings(run.record, rows, hash_list)]

    return may_name


def refuse_listed(record: RunRecord, row: pa.Table, hash_list: HashList) -> None:
    """QueryError if the image of this one row is on the list, or can no longer be compared with it."""
    for listing in listings(record, row, hash_list):
        if listing != "clear":
            why = "is on the hash list" if listing == "listed" else "cannot be read and compared with the hash list"
            raise QueryError(f"this image is not explained: it {why}")


def _listing(pictures: Pictures, place: Where, limits: ImageLimits, hash_list: HashList) -> Listing:
    if place.sha256 in hash_list.sha256:
        return "listed"
    try:
        found = pictures.read(place)
    except (SourceError, StorageError):
        return "gone"
    if found.state != "found":
        return "gone"
    decoded = decode(found.encoded, limits)
    if not isinstance(decoded, DecodedImage):
        return "undecodable"
    return "listed" if hash_list.has(place.sha256, decoded.views[0]) else "clear"


def never_released(run: OpenRun, hash_list: HashList) -> frozenset[str]:
    """sha256 of the pictures of a run that no release may have: those on the list, and those that cannot be compared.

    IncompleteError if the source no longer has pictures as they were scanned, so that they cannot be compared.
    """
    if hash_list is NOTHING:
        return frozenset()
    found = set[str]()
    for batch in run.batches(COLUMNS):
        rows = pa.Table.from_batches([batch]).filter(pc.field("sha256").is_valid())
        of_rows = listings(run.record, rows, hash_list)
        if num_gone := of_rows.count("gone"):
            raise IncompleteError(
                f"{number_of(num_gone, 'picture')} of {run.record.source} are not as they were scanned, and cannot be "
                "compared with the PDQ hashes of --hash-list; nothing is released; restore them, or scan again"
            )
        hashes = rows["sha256"].to_pylist()
        found.update(one for one, listing in zip(hashes, of_rows, strict=True) if listing != "clear")
    return frozenset(found)


def left_out_note(found: Sequence[Listing], noun: str) -> str | None:
    """How many are left out and why, without naming any; None if none is. noun: such as "picture"."""
    num_listed = found.count("listed")
    num_unknown = len(found) - num_listed - found.count("clear")
    parts = [f"{number_of(num_listed, noun)} on the hash list"] if num_listed else []
    if num_unknown:
        parts.append(f"{number_of(num_unknown, noun)} that cannot be read and compared with it")
    return f"left out: {' and '.join(parts)}" if parts else None
