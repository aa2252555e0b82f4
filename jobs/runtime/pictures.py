"""The pictures of a run's rows: read again from where the run was scanned, and compared with an operator's hash list.

Pictures are read without an import, in any order. A shard is listed once, up to the last picture that is wanted of it.
A picture is then one read at a known position.

Of a hash list, sha256 is compared with the rows, and so are PDQ hashes if the scan stored them (`scan --pdq`). If it
did not, the pictures are read again, and hashed as the scan would have done.
"""

import hashlib
import threading
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from ingest.errors import IncompleteError, QueryError, RunError, SourceError, StorageError, number_of
from ingest.formats import Source
from ingest.images.pixels import ImageLimits, Pixels
from ingest.sample import Locator, Slice, printable
from jobs.runtime.hash_list import NOTHING, Clearance, HashList, PdqOfFile, is_complete
from jobs.runtime.progress import SILENT, Feedback
from reports.report.opened import MayName, OpenRun, all_named
from scoring.runs.record import RunRecord
from scoring.runs.source import source_of
from scoring.table import LISTED, Col


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
    """Some pictures of a corpus, by the rows about them. Several threads may use it."""

    def __init__(self, source: Source, wanted: Iterable[PictureRef]):
        """wanted: all pictures that will be asked for."""
        self._source = source
        self._names = {printable(shard): shard for shard in self._source.shards}
        self._wanted = defaultdict[str, dict[int, str]](dict)
        for ref in wanted:
            self._wanted[ref.shard][ref.index] = ref.key
        self._locks = {shard: threading.Lock() for shard in self._wanted}
        self._located = dict[str, dict[int, tuple[str, Locator]]]()

    def read(self, ref: PictureRef) -> Picture:
        """Read a picture. StorageError if the storage fails."""
        located = self.places_in(ref.shard).get(ref.index)
        if located is None or ref.sha256 is None:
            return GONE
        shard, locator = located
        sample = next(iter(self._source.read(Slice(shard, 0, True, [locator]))))
        if sample.fault is not None:
            return GONE
        if hashlib.sha256(sample.encoded).hexdigest() != ref.sha256:
            return CHANGED
        return Picture("found", sample.encoded)

    def places_in(self, shard: str) -> dict[int, tuple[str, Locator]]:
        """List a shard, once. Return index -> shard as the source names it, and position. StorageError."""
        with self._locks[shard]:
            if shard not in self._located:
                self._located[shard] = _locators(self._source, self._names.get(shard), self._wanted[shard])
            return self._located[shard]


def first_frames(
    record: RunRecord, refs: Sequence[PictureRef], max_side_px: int, feedback: Feedback
) -> Iterator[Pixels | None]:
    """Yield the first frame of each picture, in at most this size; None if the source no longer holds it as scanned, or
    it cannot be decoded.

    A notice at the end counts the missing ones. SourceError or StorageError if the source cannot be read.
    """
    from ingest.images.decode import DecodedImage, decode  # most releases need no decoder

    source, num_missing, num_undecodable = Pictures(source_of(record), refs), 0, 0
    limits = ImageLimits(max_pixels=record.max_pixels, max_frames=1, max_side_px=max_side_px)
    for ref in refs:
        picture = source.read(ref)
        decoded = decode(picture.encoded, limits)  # a picture that is gone has no bytes to decode
        if not isinstance(decoded, DecodedImage):
            num_missing += picture.state != "found"
            num_undecodable += picture.state == "found"
        yield decoded.views[0] if isinstance(decoded, DecodedImage) else None
    if num_missing:
        feedback.notice(f"{num_missing} of {len(refs)} pictures are left out: the source holds them no more as scanned")
    if num_undecodable:
        feedback.notice(f"{num_undecodable} of {len(refs)} pictures are left out: they cannot be decoded")


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


COLUMNS = (Col.SHARD, Col.INDEX, Col.SHA256, Col.KEY)

READS_AGAIN = (
    "pictures are read again to compare them with the PDQ hashes of --hash-list, since the scan stored no such hashes; "
    "scan --pdq does"
)


def clearances(run: OpenRun, rows: pa.Table, hash_list: HashList) -> list[Clearance]:
    """Return the clearance of each row, in order. rows: with `COLUMNS`, and with `pdq` where that was read already.
    SourceError or StorageError if pictures must be read and the source cannot be read at all."""
    hashes = rows[Col.SHA256].to_pylist()
    if not hash_list.needs_pdq:
        return hash_list.clearances(hashes, [])
    if run.record.pdq:
        return _compared(run, hashes, _stored(run, rows), hash_list)
    columns = (rows[name].to_pylist() for name in COLUMNS)
    refs = [PictureRef(*row) for row in zip(*columns, strict=True)]
    try:
        wanted = [ref for ref in refs if ref.sha256 not in hash_list.sha256]
        pictures = Pictures(source_of(run.record), wanted)
    except SourceError as error:
        raise SourceError(f"--hash-list has PDQ hashes, which are compared with the pictures: {error}") from None
    read = [(None, False) if ref.sha256 in hash_list.sha256 else _read(pictures, ref, run.record) for ref in refs]
    compared = _compared(run, hashes, [pdq for pdq, _ in read], hash_list)
    return ["gone" if is_gone else clearance for (_, is_gone), clearance in zip(read, compared, strict=True)]


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
        return [clearance == "clear" for clearance in clearances(run, rows, hash_list)]

    return may_name


def refuse_listed(run: OpenRun, row: pa.Table, hash_list: HashList) -> None:
    """Raise QueryError if the image of this row is on the list, or cannot be compared with it. row: of all columns."""
    if row[Col.REASON].to_pylist() == [LISTED]:
        raise QueryError("this image is not explained: it was on the hash list of the scan")
    for clearance in clearances(run, row, hash_list):
        if clearance != "clear":
            why = "is on the hash list" if clearance == "listed" else "cannot be compared with the hash list"
            raise QueryError(f"this image is not explained: it {why}")


def withheld(run: OpenRun, hash_list: HashList) -> tuple[frozenset[str], frozenset[str]]:
    """Return sha256 of the pictures that no release may have: those on the list, and those of which not everything can
    be compared with it.

    If a run was scanned with PDQ hashes of a list, what the scan could not compare is withheld even without a list.
    IncompleteError if the source no longer has pictures as they were scanned, so that they cannot be compared.
    """
    was_compared = run.record.hash_list is not None and run.record.pdq
    if hash_list is NOTHING and not was_compared:
        return frozenset(), frozenset()
    listed, not_compared = set[str](), set[str]()
    for all_rows in run.chunks((*COLUMNS, Col.PDQ) if run.record.pdq else COLUMNS):
        rows = all_rows.filter(pc.field(Col.SHA256).is_valid())
        hashes = rows[Col.SHA256].to_pylist()
        of_rows = clearances(run, rows, hash_list)
        if num_gone := of_rows.count("gone"):
            raise IncompleteError(
                f"{number_of(num_gone, 'picture')} of {run.record.source} are not as they were scanned, and cannot be "
                "compared with the PDQ hashes of --hash-list; nothing is released; restore them, or scan again"
            )
        listed.update(sha256 for sha256, clearance in zip(hashes, of_rows, strict=True) if clearance == "listed")
        if was_compared:
            pdq = rows[Col.PDQ].to_pylist()
            not_compared.update(sha256 for sha256, hash_ in zip(hashes, pdq, strict=True) if not is_complete(hash_))
        else:
            pairs = zip(hashes, of_rows, strict=True)
            not_compared.update(sha256 for sha256, clearance in pairs if clearance == "not_compared")
    return frozenset(listed), frozenset(not_compared - listed)


def clear_of(
    run: OpenRun, rows: pa.Table, hash_list: HashList, noun: str, feedback: Feedback = SILENT
) -> tuple[list[bool], str | None]:
    """Return whether each of the rows may be named; and how many are left out and why, None if none is. rows, noun: as
    in `clearances` and `left_out_note`. If pictures are read again, a notice says so. Errors as in `clearances`."""
    if rows.num_rows and reads_pictures(run.record, hash_list):
        feedback.notice(READS_AGAIN)
    clearances_ = clearances(run, rows, hash_list)
    return [clearance == "clear" for clearance in clearances_], left_out_note(clearances_, noun)


def left_out_note(clearances_: Sequence[Clearance], noun: str) -> str | None:
    """Return how many are left out and why, without naming any; None if none is. noun: such as "picture"."""
    num_listed = clearances_.count("listed")
    num_unknown = len(clearances_) - num_listed - clearances_.count("clear")
    parts = [f"{number_of(num_listed, noun)} on the hash list"] if num_listed else []
    if num_unknown:
        parts.append(f"{number_of(num_unknown, noun)} that cannot be compared with it")
    return f"left out: {' and '.join(parts)}" if parts else None


def _read(pictures: Pictures, ref: PictureRef, record: RunRecord) -> tuple[PdqOfFile | None, bool]:
    """Return the hashes of a picture that is read again, and whether it is gone."""
    try:
        picture = pictures.read(ref)
    except (SourceError, StorageError):
        return None, True
    return (pdq_of(picture.encoded, record), False) if picture.state == "found" else (None, True)


def pdq_of(encoded: bytes, record: RunRecord) -> PdqOfFile | None:
    """Return what the scan would have stored of a picture."""
    from ingest.images.decode import DecodedImage, decode

    decoded = decode(encoded, replace(record.limits, has_pdq=True))
    return decoded.pdq if isinstance(decoded, DecodedImage) else None


def _compared(
    run: OpenRun, hashes: Sequence[str | None], pdq: Sequence[PdqOfFile | None], hash_list: HashList
) -> list[Clearance]:
    try:
        return hash_list.clearances(hashes, pdq)
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
