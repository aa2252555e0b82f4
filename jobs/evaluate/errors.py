"""`evaluate --errors`: the wrong answers of which a run was most sure, and their pictures for the page."""

from collections.abc import Sequence

import pyarrow as pa

from ingest.images.decode import DecodedImage, decode
from ingest.images.pixels import ImageLimits
from ingest.sample import printable
from jobs.report.gallery import SIDE_PX, thumbnail
from jobs.runtime.feedback import Feedback
from jobs.runtime.hash_list import NOTHING, HashList
from jobs.runtime.listed import COLUMNS, READS_AGAIN, left_out_note, listings, reads_pictures
from jobs.runtime.pictures import Pictures, Where
from reports.evaluation.results import WrongAnswer
from reports.opened import open_run

MAX_ERRORS = 60


def may_be_named(
    run_url: str, wrong: Sequence[WrongAnswer], most: int, hash_list: HashList, feedback: Feedback
) -> tuple[tuple[WrongAnswer, ...], str | None]:
    """The first of them that are not on the hash list, and how many others are left out. SourceError, StorageError."""
    if hash_list is NOTHING or not wrong:
        return tuple(wrong[:most]), None
    first = wrong[: 2 * most]  # enough, unless most of them are listed
    with open_run(run_url) as run:
        if reads_pictures(run.record, hash_list):
            feedback.notice(READS_AGAIN)
        rows = pa.table({name: [getattr(one, name) for one in first] for name in COLUMNS})
        found = listings(run, rows, hash_list)
    clear = tuple(one for one, listing in zip(first, found, strict=True) if listing == "clear")
    return clear[:most], left_out_note(found, "picture")


def pictures_of(run_url: str, wrong: Sequence[WrongAnswer], feedback: Feedback) -> dict[str, bytes]:
    """sha256 -> a small JPEG of each that the source still holds as it was scanned. SourceError, StorageError."""
    found = dict[str, bytes]()
    if not wrong:
        return found
    with open_run(run_url) as run:
        record = run.record
    places = [Where(one.shard, one.index, one.sha256, one.key) for one in wrong]
    source = Pictures(record, places)
    limits = ImageLimits(max_pixels=record.max_pixels, max_frames=1, max_side_px=4 * SIDE_PX)
    for place in places:
        decoded = decode(source.read(place).encoded, limits)
        if isinstance(decoded, DecodedImage) and place.sha256:
            found[place.sha256] = thumbnail(decoded.views[0], (), is_clear=True)
    if missing := len(wrong) - len(found):
        feedback.notice(
            f"{missing} of {len(wrong)} pictures are left out: {printable(record.source)} holds them no more as scanned"
        )
    return found
