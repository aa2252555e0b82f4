"""Which rows of a run are on an operator's hash list.

sha256 is compared with the rows, and so are PDQ hashes if the scan stored them (`scan --pdq`). If it did not, the
pictures are read again from where the run was scanned, and hashed as the scan would have done.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from ingest.errors import IncompleteError, QueryError, RunError, SourceError, StorageError, number_of
from jobs.runtime.hash_list import NOTHING, HashList, Listing, PdqOfFile, is_complete
from jobs.runtime.pictures import PictureRef, Pictures
from jobs.runtime.progress import SILENT, Feedback
from reports.report.opened import MayName, OpenRun, all_named
from scoring.runs.record import RunRecord
from scoring.table import LISTED, Col

COLUMNS = (Col.SHARD, Col.INDEX, Col.SHA256, Col.KEY)

READS_AGAIN = (
    "pictures are read again to compare them with the PDQ hashes of --hash-list, since the scan stored no such hashes; "
    "scan --pdq does"
)


def listings(run: OpenRun, rows: pa.Table, hash_list: HashList) -> list[Listing]:
    """Return the listing of each row, in order. rows: with `COLUMNS`, and with `pdq` where that was read already.

    SourceError or StorageError if pictures must be read and the source cannot be read at all.
    """
    hashes = rows[Col.SHA256].to_pylist()
    if not hash_list.needs_pdq:
        return hash_list.listings(hashes, [])
    if run.record.pdq:
        return _compared(run, hashes, _stored(run, rows), hash_list)
    columns = (rows[name].to_pylist() for name in COLUMNS)
    places = [PictureRef(*row) for row in zip(*columns, strict=True)]
    try:
        pictures = Pictures(run.record, [picture for picture in places if picture.sha256 not in hash_list.sha256])
    except SourceError as error:
        raise SourceError(f"--hash-list has PDQ hashes, which are compared with the pictures: {error}") from None
    read = [
        _Read() if picture.sha256 in hash_list.sha256 else _read(pictures, picture, run.record) for picture in places
    ]
    compared = _compared(run, hashes, [item.pdq for item in read], hash_list)
    return ["gone" if picture.is_gone else listing for picture, listing in zip(read, compared, strict=True)]


def reads_pictures(record: RunRecord, hash_list: HashList) -> bool:
    """Return whether the pictures of the run must be read to compare them with the list; commands say `READS_AGAIN`."""
    return hash_list.needs_pdq and not record.pdq


def clear_rows(hash_list: HashList, feedback: Feedback = SILENT) -> MayName:
    """Return a function that says of each row whether it may be named; without a list, all may be."""
    if hash_list is NOTHING:
        return all_named
    is_said = False

    def may_name(run: OpenRun, rows: pa.Table) -> list[bool]:
        nonlocal is_said
        if rows.num_rows and reads_pictures(run.record, hash_list) and not is_said:
            feedback.notice(READS_AGAIN)
            is_said = True
        return [listing == "clear" for listing in listings(run, rows, hash_list)]

    return may_name


def refuse_listed(run: OpenRun, row: pa.Table, hash_list: HashList) -> None:
    """Raise QueryError if the image of this row is on the list, or cannot be compared with it. row: of all columns."""
    if row[Col.REASON].to_pylist() == [LISTED]:
        raise QueryError("this image is not explained: it was on the hash list of the scan")
    for listing in listings(run, row, hash_list):
        if listing != "clear":
            why = "is on the hash list" if listing == "listed" else "cannot be compared with the hash list"
            raise QueryError(f"this image is not explained: it {why}")


@dataclass(frozen=True)
class Withheld:
    """sha256 of the pictures of a run that no release may have."""

    listed: frozenset[str] = frozenset()

    not_compared: frozenset[str] = frozenset()
    """Pictures of which not everything can be compared with the list."""


def withheld(run: OpenRun, hash_list: HashList) -> Withheld:
    """Return the pictures to withhold.

    If a run was scanned with PDQ hashes of a list, what the scan could not compare is withheld even without a list.
    IncompleteError if the source no longer has pictures as they were scanned, so that they cannot be compared.
    """
    was_compared = run.record.hash_list is not None and run.record.pdq
    if hash_list is NOTHING and not was_compared:
        return Withheld()
    listed, not_compared = set[str](), set[str]()
    for all_rows in run.chunks((*COLUMNS, Col.PDQ) if run.record.pdq else COLUMNS):
        rows = all_rows.filter(pc.field(Col.SHA256).is_valid())
        hashes = rows[Col.SHA256].to_pylist()
        of_rows = listings(run, rows, hash_list)
        if num_gone := of_rows.count("gone"):
            raise IncompleteError(
                f"{number_of(num_gone, 'picture')} of {run.record.source} are not as they were scanned, and cannot be "
                "compared with the PDQ hashes of --hash-list; nothing is released; restore them, or scan again"
            )
        listed.update(sha256 for sha256, listing in zip(hashes, of_rows, strict=True) if listing == "listed")
        if was_compared:
            pdq = rows[Col.PDQ].to_pylist()
            not_compared.update(sha256 for sha256, hash_ in zip(hashes, pdq, strict=True) if not is_complete(hash_))
        else:
            pairs = zip(hashes, of_rows, strict=True)
            not_compared.update(sha256 for sha256, listing in pairs if listing == "not_compared")
    return Withheld(frozenset(listed), frozenset(not_compared - listed))


def clear_of(
    run: OpenRun, rows: pa.Table, hash_list: HashList, noun: str, feedback: Feedback = SILENT
) -> tuple[list[bool], str | None]:
    """Return whether each of the rows may be named; and how many are left out and why, None if none is.

    rows, noun: as of `listings` and `left_out_note`. If pictures are read again, a notice says so. Errors as of
    `listings`.
    """
    if rows.num_rows and reads_pictures(run.record, hash_list):
        feedback.notice(READS_AGAIN)
    listings_ = listings(run, rows, hash_list)
    return [listing == "clear" for listing in listings_], left_out_note(listings_, noun)


def left_out_note(listings_: Sequence[Listing], noun: str) -> str | None:
    """Return how many are left out and why, without naming any; None if none is. noun: such as "picture"."""
    num_listed = listings_.count("listed")
    num_unknown = len(listings_) - num_listed - listings_.count("clear")
    parts = [f"{number_of(num_listed, noun)} on the hash list"] if num_listed else []
    if num_unknown:
        parts.append(f"{number_of(num_unknown, noun)} that cannot be compared with it")
    return f"left out: {' and '.join(parts)}" if parts else None


@dataclass(frozen=True)
class _Read:
    """A picture that was read again."""

    pdq: PdqOfFile | None = None
    is_gone: bool = False


def _read(pictures: Pictures, place: PictureRef, record: RunRecord) -> _Read:
    try:
        picture = pictures.read(place)
    except (SourceError, StorageError):
        return _Read(is_gone=True)
    if picture.state != "found":
        return _Read(is_gone=True)
    return _Read(pdq_of(picture.encoded, record))


def pdq_of(encoded: bytes, record: RunRecord) -> PdqOfFile | None:
    """Return what the scan would have stored of a picture."""
    from ingest.images.decode import DecodedImage, decode

    decoded = decode(encoded, replace(record.limits, has_pdq=True))
    return decoded.pdq if isinstance(decoded, DecodedImage) else None


def _compared(
    run: OpenRun, hashes: Sequence[str | None], pdq: Sequence[PdqOfFile | None], hash_list: HashList
) -> list[Listing]:
    try:
        return hash_list.listings(hashes, pdq)
    except ValueError:
        raise RunError(f"{run.url}: the column pdq holds something else than PDQ hashes; scan into a new run") from None


def _stored(run: OpenRun, rows: pa.Table) -> list[PdqOfFile | None]:
    """Return the column `pdq` of each row: copies of a picture have the same."""
    if Col.PDQ in rows.column_names:
        return list(rows[Col.PDQ].to_pylist())
    with run.joined_with("wanted", pa.table({"sha256": rows[Col.SHA256]})):
        statement = "SELECT DISTINCT ON (sha256) sha256, pdq FROM images SEMI JOIN wanted USING (sha256)"
        columns = run.connection.sql(statement).to_arrow_table().to_pydict()
    of_sha256 = dict(zip(columns[Col.SHA256], columns[Col.PDQ], strict=True))
    return [of_sha256.get(sha256) for sha256 in rows[Col.SHA256].to_pylist()]
