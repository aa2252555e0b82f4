"""Compares a release with what `filter` wrote: files, counts, pictures, tombstones, signature."""

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel

from ingest.errors import OutageError, PrivsieveError, SourceError, StorageError, number_of
from ingest.formats import open_source
from ingest.formats.members import name_fault
from ingest.formats.parquet_schema import NO_BYTES
from ingest.formats.released import (
    CHANGES,
    DECISIONS,
    MADE_FROM,
    REDACTIONS,
    RELEASE,
    RELEASE_LEASE,
    REMOVED,
    SHA256SUMS,
    SIGNATURE,
    TAKEDOWN_JOURNAL,
    TAKEDOWN_STAGED,
    UNFINISHED,
)
from ingest.formats.shard import files_below, storage_faults
from ingest.sample import printable
from ingest.storage.parquet_tables import read_checked
from ingest.storage.place import Place, place
from jobs.releases.contact_sheet import write_contact_sheet
from jobs.releases.contents import unnamed
from jobs.releases.plan import counts_in
from jobs.releases.record import ReleasedName, Sha256, UrlCounts, local_file, sha256_of, signer_of, sums
from jobs.releases.rescan import Rescan, rescanned
from jobs.releases.tombstones import tombstones_of
from jobs.releases.url_list import FOLDER, url_hashes
from jobs.releases.verify_request import VerifyRequest
from jobs.runtime.progress import SILENT, Feedback
from reports.evaluation.answers import MayBeLeft, may_be_left
from scoring.policies.policy import TAKEDOWN
from scoring.runs.lease import holder

OF_PICTURE = ("shard", "key", "sha256")
"""Columns that name a picture, in `decisions.parquet` and in `removed.parquet`."""

UNSEEN_COUNTS = ("num_unseen_kept", "unseen_kept", "num_unseen_removed")

Tombstones = Sequence[Mapping[str, Any]]
"""Rows of `removed.parquet`."""


class _Takedown(BaseModel):
    num_pictures: int
    num_rows: int = 0  # a release of pictures


class _Written(BaseModel):
    """What `release.json` says of the files and counts."""

    source: str
    """URL of the scanned pictures."""

    format: str | None = None  # of older versions

    image_columns: tuple[str, ...] = ()
    """Columns of the source that were scanned; empty for all that hold images."""

    num_images: int
    actions: dict[str, int] | None = None
    rules: dict[str, dict[str, int]]
    sha256: dict[ReleasedName, Sha256]
    decisions_sha256: Sha256 | None = None  # of older versions
    redactions_sha256: Sha256 | None = None  # nothing was covered
    removed_sha256: Sha256 | None = None  # nothing was taken down
    changes_sha256: Sha256 | None = None  # no release before it was named
    made_from_sha256: Sha256 | None = None  # of older versions, and lists of URLs

    num_removed_before: int = 0
    """First rows of `removed.parquet`: taken down from releases before this one."""

    urls: UrlCounts | None = None  # a release of pictures
    takedowns: tuple[_Takedown, ...] = ()

    engine: dict[str, Any] | None = None
    """Name and protocol of the engine that the policy decided by; None in releases of older versions."""

    residual_max_level: int | None = None

    files: str | None = None
    num_unseen_kept: int | None = None  # of older versions, as the next two
    unseen_kept: dict[str, int] | None = None
    num_unseen_removed: int | None = None

    documents: dict[str, Sha256] | None = None
    """Files that were made from this one, and their hashes; None in releases of older versions."""

    @property
    def hashes(self) -> dict[str, Sha256]:
        """Return every file that was made for the release, except for `decisions.parquet` and the checksums."""
        return self.sha256 | (self.documents or {})


@dataclass(frozen=True)
class Verified:
    num_files: int
    """Files that `release.json` names."""

    num_pictures: int | None
    """Pictures that were read and compared; None if the decisions do not hold their hashes."""

    faults: tuple[str, ...]
    """What is wrong, one line each."""

    num_urls: int | None = None
    """Rows of a list of URLs; None for a release of pictures."""

    signed_by: str | None = None
    """Name of the signer in the list of --signer; None if the signature was not checked."""

    has_unchecked_signature: bool = False
    """There is a signature, and no --signer."""

    left: MayBeLeft | None = None
    """What labels say of the pictures; None without --labels, and of a release with faults."""

    rescan: Rescan | None = None
    """What another look found; None without --rescan-engine, and of a release with faults."""

    num_on_sheet: int | None = None
    """Pictures on the contact sheet; None without --contact-sheet, and of a release with faults."""


def run_verify(request: VerifyRequest, feedback: Feedback = SILENT) -> Verified:
    """Compare every file with its hash, the decisions with the counts, and the pictures with the decisions.

    StorageError or PrivsieveError if there is no release that could be verified.
    """
    root = place(request.release)
    if request.signer is not None:
        local_file(request.signer, "--signer")
    if not root.at(RELEASE).exists() or root.at(UNFINISHED).exists():
        why = (
            "it is unfinished; run its filter again with --resume"
            if root.at(UNFINISHED).exists()
            else f"it has no {RELEASE}"
        )
        raise PrivsieveError(f"{request.release} is no release that can be verified: {why}")
    try:
        written = _Written.model_validate(json.loads(root.at(RELEASE).read()))
    except (ValueError, RecursionError):  # pydantic's error is a ValueError, too
        raise PrivsieveError(f"{request.release}: {RELEASE} is damaged, or was not written by filter") from None
    if root.at(TAKEDOWN_JOURNAL).exists():
        return Verified(len(written.sha256), None, ("a takedown is unfinished; run the same takedown again",))
    if request.contact_sheet is not None and (written.redactions_sha256 is None or written.urls is not None):
        raise PrivsieveError(f"--contact-sheet: {request.release} holds no picture that was covered")
    faults = [*_file_faults(root, written, feedback)]
    decisions, decision_faults = _decisions(root, written)
    faults += decision_faults
    for name in (REDACTIONS, REMOVED, CHANGES, MADE_FROM):
        sha256 = getattr(written, f"{name.removesuffix('.parquet')}_sha256")
        if root.at(name).exists():
            faults += _content_faults(root, name, sha256, "it is not what was released")
        elif sha256 is not None:
            faults.append(f"{name}: it is not there")
    removed, removed_faults = _removed(root)
    faults += removed_faults
    if decisions is not None and not removed_faults and (removed or written.takedowns):
        faults += _takedown_faults(written, decisions, removed[written.num_removed_before :])
    num_pictures = None
    if not faults and decisions is not None and written.urls is not None:
        num_pictures = 0
        faults += _url_faults(root, written, written.urls, decisions, removed)
    elif not faults and decisions is not None and "released_sha256" in decisions.column_names:
        num_pictures, picture_faults = _pictures(request.release, decisions, removed, feedback)
        faults += picture_faults
    elif (
        removed and decisions is not None and written.urls is None
    ):  # whatever else is wrong: which shard holds a removed picture again
        faults += _removed_again(request.release, decisions, removed, feedback)
    faults += _sums_faults(root, written) if not faults else ()
    signed_by, signature_faults = _signer(root, request.signer) if not faults else (None, ())
    faults += signature_faults
    is_unchecked = request.signer is None and root.at(SIGNATURE).exists()
    num_urls = None if written.urls is None else written.urls.num_released
    left = None
    if request.labels is not None and decisions is not None and not faults:
        left = may_be_left(request.labels, decisions)
    rescan = None
    if request.rescan_engine is not None and not faults:
        if written.urls is not None:
            raise PrivsieveError("--rescan-engine: a list of URLs has no pictures to look at")
        decided_by = (written.engine or {}, written.residual_max_level)
        rescan = rescanned(request.release, request.rescan_engine, request.options, *decided_by, feedback)
    num_on_sheet = None
    if request.contact_sheet is not None and not faults:
        num_on_sheet = write_contact_sheet(
            request, request.source or written.source, written.format, written.image_columns, feedback
        )
    signed = (signed_by, is_unchecked)
    return Verified(len(written.sha256), num_pictures, tuple(faults), num_urls, *signed, left, rescan, num_on_sheet)


def _sums_faults(root: Place, written: _Written) -> Iterator[str]:
    """Compare `SHA256SUMS` with what it must be; all hashes have been checked before."""
    if root.at(SHA256SUMS).exists():
        sha256 = hashlib.sha256(sums(root.at(RELEASE).read())).hexdigest()
        yield from _content_faults(root, SHA256SUMS, sha256, "its hashes are not those of the files")
    elif written.documents is not None:
        yield f"{SHA256SUMS}: it is not there"


def _signer(root: Place, allowed_signers: str | None) -> tuple[str | None, tuple[str, ...]]:
    """Return the name of the signer, and what is wrong with the signature."""
    if allowed_signers is None:
        return None, ()
    if not root.at(SHA256SUMS).exists() or not root.at(SIGNATURE).exists():
        return None, (f"{SIGNATURE}: it is not there, so no one has signed the release",)
    name = signer_of(root.at(SHA256SUMS).read(), root.at(SIGNATURE).read(), allowed_signers)
    return name, () if name is not None else (f"{SIGNATURE}: no one whom --signer names has signed this release",)


def _file_faults(root: Place, written: _Written, feedback: Feedback) -> Iterator[str]:
    there = set(files_below(root))
    if RELEASE_LEASE in there:
        who = holder(root.at(RELEASE_LEASE))
        is_active = who is not None and not who.is_stale()
        remedy = (
            f"{who} is at work; wait for it" if is_active else "a command was killed; run it again, or remove this file"
        )
        yield f"{RELEASE_LEASE}: {remedy}"
    staged = {name for name in there if name.startswith(f"{TAKEDOWN_STAGED}/")}
    if staged:
        yield f"{TAKEDOWN_STAGED}: a takedown was stopped before it changed anything; run the same takedown again"
    for name in unnamed(there - staged, written.hashes):
        yield f"{printable(name)}: {RELEASE} does not name it"
    with feedback.meter("verify files", len(written.hashes)) as meter:
        for name, sha256 in written.hashes.items():
            if name_fault(name) is not None or name not in there:
                yield f"{printable(name)}: it is not there"
            else:
                yield from _content_faults(root, name, sha256)
            meter.advance(1)


def _content_faults(
    root: Place, name: str, sha256: str | None, if_other: str = "its content is not what was released"
) -> list[str]:
    """Return no line if a file has this hash, else one. OutageError if the store does not answer."""
    try:
        with storage_faults(name):
            return [] if sha256_of(root.at(name)) == sha256 else [f"{printable(name)}: {if_other}"]
    except OutageError:
        raise
    except StorageError as error:  # a pipe, or not readable by this user
        return [str(error)]


def _decisions(root: Place, written: _Written) -> tuple[pa.Table | None, list[str]]:
    file = root.at(DECISIONS)
    if not file.exists():
        return None, [f"{DECISIONS}: it is not there"]
    if written.decisions_sha256 and (faults := _content_faults(root, DECISIONS, written.decisions_sha256)):
        return None, faults
    try:
        named = OF_PICTURE if written.takedowns or root.at(REMOVED).exists() else ("shard",)
        table = read_checked(file, (*named, "action", "rule", "released_sha256", "url_sha256", "unseen"))
        counts = counts_in(table)
    except (pa.ArrowException, KeyError):
        return None, [f"{DECISIONS}: it cannot be read"]
    said = {(action, rule): count for rule, actions in written.rules.items() for action, count in actions.items()}
    are_actions = written.actions is None or Counter(counts.actions()) == Counter(written.actions)
    if counts.by_rule != said or not are_actions or counts.num_images != written.num_images:
        return table, [f"{DECISIONS}: its decisions are not those that {RELEASE} counts"]
    counted = counts.as_json(is_clean=written.files == "clean") if "unseen" in table.column_names else {}
    names = [name for name in UNSEEN_COUNTS if name in counted and getattr(written, name) not in (None, counted[name])]
    return table, [f"{RELEASE}: its {name} is not what {DECISIONS} counts" for name in names]


def _removed(root: Place) -> tuple[Tombstones, list[str]]:
    """Return the tombstones, none if nothing was taken down, and what is wrong with their file."""
    file = root.at(REMOVED)
    if not file.exists():
        return [], []
    try:
        return tombstones_of(file.read(), file.path), []
    except OutageError:
        raise
    except PrivsieveError:
        return [], [f"{REMOVED}: it cannot be read"]


def _takedown_faults(written: _Written, decisions: pa.Table, removed: Tombstones) -> Iterator[str]:
    """Compare the tombstones with the log of takedowns and with the decisions."""
    pictures = [row for row in removed if row["released_sha256"] is not None]
    of_removed = Counter(tuple(row[name] for name in OF_PICTURE) for row in pictures)
    num_logged = sum(takedown.num_pictures for takedown in written.takedowns)
    if of_removed.total() != num_logged:
        shown = number_of(of_removed.total(), "picture")
        yield f"{REMOVED}: it has {shown}, and the takedowns in {RELEASE} count {num_logged:,}"
    rows = decisions.filter(pc.equal(decisions["rule"], TAKEDOWN))
    marked = Counter(zip(*(rows[name].to_pylist() for name in OF_PICTURE), strict=True))
    if num_missing := (of_removed - marked).total():
        yield f"{DECISIONS}: {number_of(num_missing, 'picture')} of {REMOVED} not marked as taken down"
    if num_more := (marked - of_removed).total():
        yield f"{REMOVED}: without {number_of(num_more, 'picture')} that {DECISIONS} marks as taken down"
    if written.urls is not None:
        num_rows = sum(takedown.num_rows for takedown in written.takedowns)
        if num_rows != written.urls.num_taken_down:
            counted = f"{written.urls.num_taken_down:,}"
            yield f"{RELEASE}: its takedowns removed {number_of(num_rows, 'row')}, and its list counts {counted}"


def _pictures(url: str, decisions: pa.Table, removed: Tombstones, feedback: Feedback) -> tuple[int, list[str]]:
    """Compare the pictures in each shard with the hashes in the decisions, in their order."""
    released = _released(decisions)
    num_pictures, faults = sum(map(len, released.values())), list[str]()
    if not num_pictures:
        return 0, []
    for name, have in _held(url, num_pictures, feedback):
        expected = released.pop(name, [])
        if have != expected:
            faults.append(_again(name, have, expected, removed) or f"{name}: its pictures are not those of {DECISIONS}")
    faults += [f"{shard}: its pictures are not there" for shard in released]
    return num_pictures, faults


def _removed_again(url: str, decisions: pa.Table, removed: Tombstones, feedback: Feedback) -> Iterator[str]:
    """Yield the shards of a release with other faults that hold removed pictures; one that cannot be read has a fault
    of its own."""
    expected = _released(_without(decisions, removed))
    with suppress(SourceError):
        for name, have in _held(url, None, feedback):
            again = _again(name, have, expected.get(name, []), removed)
            if again is not None:
                yield again


def _without(decisions: pa.Table, removed: Tombstones) -> pa.Table:
    """Return the decisions about other pictures than the removed ones, whatever they say of these."""
    gone = {tuple(row[name] for name in OF_PICTURE) for row in removed}
    named = zip(*(decisions[name].to_pylist() for name in OF_PICTURE), strict=True)
    return decisions.filter(pa.array([names not in gone for names in named], pa.bool_()))


def _released(decisions: pa.Table) -> dict[str, list[str]]:
    """Return shard -> hashes of its pictures, in their order."""
    released: dict[str, list[str]] = {}
    for shard, sha256 in zip(decisions["shard"].to_pylist(), decisions["released_sha256"].to_pylist(), strict=True):
        if sha256 is not None:
            released.setdefault(shard, []).append(sha256)
    return released


def _again(shard: str, hashes: Sequence[str], expected: Sequence[str], removed: Tombstones) -> str | None:
    """Return the fault of a shard with removed pictures that the decisions do not release; None if there are none."""
    gone = {row["released_sha256"] for row in removed} | {row["sha256"] for row in removed}
    num_again = sum(count for sha256, count in (Counter(hashes) - Counter(expected)).items() if sha256 in gone)
    return f"{shard}: it holds {number_of(num_again, 'picture')} of {REMOVED}" if num_again else None


def _url_faults(
    root: Place, written: _Written, counts: UrlCounts, decisions: pa.Table, removed: Tombstones
) -> Iterator[str]:
    """Compare the rows of a list of URLs with the decisions and the tombstones."""
    is_released = pc.is_valid(decisions["released_sha256"])
    released = {*pc.drop_null(decisions["url_sha256"].filter(is_released)).to_pylist()}
    is_taken = pc.equal(decisions["rule"], TAKEDOWN)
    gone = {*pc.drop_null(decisions["url_sha256"].filter(is_taken)).to_pylist()} - released
    gone |= {row["url_sha256"] for row in removed if row["url_sha256"] is not None}
    seen, num_rows, num_others, num_again = set[str](), 0, 0, 0
    for name in written.sha256:
        for _, hashes in url_hashes(root.at(name), counts.column):
            num_again += sum(url_sha256 in gone for url_sha256 in hashes)
            known = [url_sha256 for url_sha256 in hashes if url_sha256 is not None and url_sha256 in released]
            seen.update(known)
            num_rows += len(hashes)
            num_others += len(hashes) - len(known)
    if num_rows != counts.num_released:
        yield f"{FOLDER}: it has {num_rows:,} rows, and {RELEASE} counts {counts.num_released:,}"
    if num_again:
        yield f"{FOLDER}: it has {number_of(num_again, 'row')} whose URL was taken down"
    if seen != released or (num_others and not counts.keeps_unknown):
        yield f"{FOLDER}: its URLs are not those of {DECISIONS}"


def _held(url: str, num_pictures: int | None, feedback: Feedback) -> Iterator[tuple[str, list[str]]]:
    """Yield the name of each shard that is there, and the hashes of its pictures, in their order."""
    source = open_source(url, None, None)
    may_be_empty = source.format == "parquet"  # cells of images that are not released, beside some that are
    with feedback.meter("verify pictures", num_pictures) as meter:
        for shard in source.shards:
            samples = (sample for slice_ in source.slices(shard) for sample in source.read(slice_))
            try:
                there = (sample for sample in samples if not (may_be_empty and sample.fault == NO_BYTES))
                hashes = [hashlib.sha256(sample.encoded).hexdigest() for sample in there]
            except OutageError:
                raise
            except StorageError:  # its content has been found to be at fault
                continue
            yield printable(shard), hashes
            meter.advance(len(hashes))
