"""`privsieve release lookup RELEASE PICTURE|URL`: says whether a release, or a copy of its shards, holds a picture."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.errors import IncompleteError, PrivsieveError
from ingest.formats import open_source
from ingest.formats.released import DECISIONS, RELEASE
from ingest.formats.shard import MAX_IMAGE_BYTES
from ingest.images.pdq import MAX_DISTANCE, NUM_BITS, Hashes
from ingest.sample import printable, url_sha256_of
from ingest.storage.given_files import given_content
from ingest.storage.place import place
from jobs.console.requests import Option, PathOrUrl, Url, checked_request
from jobs.releases.entries import is_url
from jobs.releases.files import is_published_copy, read_own, read_release
from jobs.releases.journal import refuse_unfinished
from jobs.releases.matching import held_pictures, pdq_hashes, scanned_distances
from jobs.releases.url_list import kind_of
from jobs.runtime.progress import SILENT, Feedback
from scoring.policies.reserved import ReservedRule
from scoring.runs import RUN_RECORD

State = Literal["released", "taken down", "dropped", "found"]
"""`found` is in a folder that is no release."""


@checked_request
class LookupRequest:
    release: Annotated[Url, Option(argument="RELEASE")]
    """Folder or fsspec URL of a release, or of a copy of its shards."""

    wanted: Annotated[PathOrUrl, Option(argument="PICTURE|URL")]
    """File of a picture, or the URL that the source of the release gives for it; no server is asked."""

    exact: bool = False
    """Search for the same bytes only. With a release, no picture is read; nor is one if its records say that it holds
    these bytes."""


@dataclass(frozen=True)
class PictureMatch:
    """A picture that was found."""

    state: State

    name: str
    """SHARD/KEY."""

    distance: int | None = None
    """Number of bits in which the PDQ hashes differ, of 256; None if its bytes or its URL are the same."""

    rewritten: Literal["covered", "cleaned"] | None = None
    """How the released file differs from the scanned one, which has the bytes that were looked for, or is near; None if
    the released one itself is."""


@dataclass(frozen=True)
class LookupResult:
    matches: tuple[PictureMatch, ...]
    """First those whose bytes or URL are the same, then the others, the nearest first."""

    num_not_compared: int = 0
    """Pictures of the release that cannot be decoded."""

    is_list: bool = False
    """The release is a list of URLs: a picture is found by its bytes alone."""

    is_decodable: bool = True
    """Whether the picture that is looked for can be compared with others than its copies."""


def run_lookup(request: LookupRequest, feedback: Feedback = SILENT) -> LookupResult:
    """Search by bytes, and by PDQ hashes unless the request is exact; or search by URL. PrivsieveError if the picture
    or the release does not exist."""
    root, url = place(request.release), request.release
    is_release = root.at(RELEASE).exists()
    is_list = is_release and not kind_of(read_release(root, url).urls).has_pictures
    is_release = is_release and (is_list or not is_published_copy(root))  # else what is known of it is its shards
    if not is_release and root.at(RUN_RECORD).exists():
        raise PrivsieveError(f"{url} is a run, which holds no pictures; give a release, or its shards")
    refuse_unfinished(root)
    content, column, name = None, "url_sha256", url_sha256_of(request.wanted) or ""
    if not is_url(request.wanted):
        content = given_content(place(request.wanted), request.wanted, MAX_IMAGE_BYTES)
        column, name = "sha256", hashlib.sha256(content).hexdigest()
    hashes = None
    matches, covered = list[PictureMatch](), list[PictureMatch]()
    if is_release:
        decisions = read_own(root, DECISIONS, url)
        matches += _by_records(decisions, column, name)
        is_there = any(match.state == "released" for match in matches)
        if content is None or request.exact or is_list or is_there:
            return LookupResult(tuple(matches), is_list=is_list)
    if content is not None and not request.exact:
        hashes = pdq_hashes(content)
        if is_release and hashes is None:
            return LookupResult(tuple(matches), is_decodable=False)
    wanted = np.empty((0, 4), np.uint64) if hashes is None else hashes
    if is_release:
        try:
            covered += _covered(decisions, wanted)
        except ValueError:
            raise IncompleteError(f"{url}: {DECISIONS} holds something else than PDQ hashes") from None
    known, near, num_not_compared = {match.name for match in covered}, covered, 0
    state: State = "released" if is_release else "found"
    with feedback.meter("compare pictures", None) as meter:
        for picture in held_pictures(open_source(url, None, None), wanted, meter):
            shown, distance = f"{printable(picture.shard)}/{picture.key}", picture.distance
            if picture.sha256 is None:
                continue
            if name in (picture.sha256, picture.url_sha256):
                matches.append(PictureMatch(state, shown))
            elif len(wanted) and distance is None:
                num_not_compared += 1
            elif distance is not None and distance <= MAX_DISTANCE and shown not in known:
                near.append(PictureMatch(state, shown, distance))
    near.sort(key=lambda match: (match.distance or 0, match.name))
    is_decodable = content is None or request.exact or hashes is not None
    return LookupResult((*matches, *near), num_not_compared, is_decodable=is_decodable)


def _covered(decisions: pa.Table, wanted: Hashes) -> Iterator[PictureMatch]:
    """Yield the covered pictures of a release that were near before. wanted: shape (hashes, 4)."""
    nearest = dict[int, int]()
    for row, bits in scanned_distances(decisions, wanted):
        nearest[row] = min(bits, nearest.get(row, NUM_BITS))
    for row, distance in nearest.items():
        if distance <= MAX_DISTANCE:
            shown = f"{decisions['shard'][row]}/{decisions['key'][row]}"
            yield PictureMatch("released", shown, distance, "covered")


def _by_records(decisions: pa.Table, column: str, name: str) -> Iterator[PictureMatch]:
    """Yield what the decisions say of these bytes, or this URL. PrivsieveError if they name no URLs."""
    if column == "url_sha256" and 0 < decisions.num_rows == decisions[column].null_count:
        raise PrivsieveError("the release records no URLs, since its source or its policy gives none; give the picture")
    is_named = pc.equal(decisions[column], name).fill_null(False)
    if column == "sha256":
        is_named = pc.or_(is_named, pc.equal(decisions["released_sha256"], name).fill_null(False))
    for row in decisions.filter(is_named).to_pylist():
        is_gone = row["rule"] in (ReservedRule.TAKEDOWN, ReservedRule.REMOVED_BEFORE)
        state: State = "taken down" if is_gone else "dropped"
        shown = f"{row['shard']}/{row['key']}"
        if row["released_sha256"] is None:
            yield PictureMatch(state, shown)
        elif column == "url_sha256" or name == row["released_sha256"]:
            yield PictureMatch("released", shown)
        else:
            yield PictureMatch("released", shown, rewritten="covered" if row["action"] == "redact" else "cleaned")
