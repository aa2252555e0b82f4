"""`privsieve release takedown RELEASE LIST`: removes pictures from a release that exists already.

The shards that held them, `decisions.parquet`, `release.json` and what follows from it are written again, and put in
place as `jobs.releases.journal` says.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from functools import partial
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from ingest.errors import PrivsieveError
from ingest.formats.released import (
    DECISIONS,
    HASHED,
    REDACTIONS,
    RELEASE,
    SIGNATURE,
    UNFINISHED,
)
from ingest.images.pdq import MAX_DISTANCE
from ingest.storage.parquet_tables import write_checked
from ingest.storage.place import Place, place
from ingest.storage.removal import refuse_links
from jobs.console.requests import Option, Url, checked_request
from jobs.releases.decisions import with_values
from jobs.releases.entries import Entry, PdqDistance, Why, entries_of, write_tombstones
from jobs.releases.files import content_of, read_own, read_release
from jobs.releases.finishing import ROWS_PER_GROUP, write_descriptions
from jobs.releases.journal import Found, Replaced, remove_safely
from jobs.releases.matching import RemovalResult, named_pictures
from jobs.releases.plan import counts_in
from jobs.releases.record import Takedown
from jobs.releases.url_list import kind_of
from jobs.runtime.progress import SILENT, Feedback
from scoring.policies.reserved import ReservedRule


@checked_request
class TakedownRequest:
    release: Annotated[Url, Option(argument="RELEASE")]
    """Folder or fsspec URL of a release."""

    listed: Annotated[Url, Option(argument="LIST")]
    """Text file with one picture a line: its sha256, as scanned or as released, its key, SHARD/KEY, or its URL; or
    `domain` and a registered domain, or `pdq` and a PDQ hash, for all such pictures. Or the removed.parquet of another
    release."""

    pdq_distance: PdqDistance = MAX_DISTANCE
    """Number of bits, of 256, in which a picture may differ from a PDQ hash of the list."""

    received: Annotated[str | None, Option(metavar="DATE")] = None
    """Day on which the requests came, such as 2026-11-24, for removed.parquet."""

    why: Why | None = None
    """Kind of request, for removed.parquet."""

    dry_run: bool = False
    """Say what would be removed; write nothing."""

    def __post_init__(self) -> None:
        if self.received is not None:
            try:
                is_future = date.fromisoformat(self.received) > date.today()
            except ValueError:
                raise PrivsieveError("--received takes a day, such as 2026-11-24") from None
            if is_future:
                raise PrivsieveError(f"--received {self.received} is in the future; give the day on which they came")


def run_takedown(request: TakedownRequest, feedback: Feedback = SILENT) -> RemovalResult:
    """Take pictures down. PrivsieveError if list or release forbids it; IncompleteError if the release has changed."""
    root = place(request.release)
    entries = entries_of(request.listed)
    content_of(root, request.release)
    if root.at(UNFINISHED).exists():  # --resume would bring back what is taken down now
        raise PrivsieveError(f"{request.release} is unfinished; run its filter again with --resume, then take down")
    refuse_links(root)

    def find() -> Found[RemovalResult]:
        url, kind = request.release, kind_of(read_release(root, request.release).urls)
        decisions = read_own(root, DECISIONS, url)
        entry_of, result = named_pictures(url, decisions, entries, request.pdq_distance, kind, feedback)
        if not result.num_pictures or request.dry_run:
            return result, None
        return replace(result, is_signature_void=root.at(SIGNATURE).exists()), partial(
            _staged, root, request, decisions, entry_of
        )

    return remove_safely(root, repr((request, entries)), RemovalResult, find, is_dry=request.dry_run)


def _staged(
    root: Place, request: TakedownRequest, decisions: pa.Table, entry_of: dict[int, Entry], staged: Place
) -> Replaced:
    """Write everything that changes into a folder below `takedown.unfinished/`."""
    release = read_release(root, request.release)
    is_taken = np.zeros(decisions.num_rows, dtype=np.bool_)
    is_taken[list(entry_of)] = True
    (replaced, removed), urls, num_rows = kind_of(release.urls).rest(root, staged, release, decisions, is_taken)
    stay = release.sha256.keys() - removed
    hashes = {name: sha256 for name, sha256 in release.sha256.items() if name in stay} | replaced
    marked = _marked(decisions, is_taken)
    replaced[DECISIONS] = write_checked(staged.at(DECISIONS), marked, ROWS_PER_GROUP)
    if REDACTIONS in release.own_sha256:
        steps = read_own(root, REDACTIONS, request.release)
        gone = {*_places(decisions.filter(pa.array(is_taken)))}
        rest = steps.filter(pa.array([where not in gone for where in _places(steps)], pa.bool_()))
        replaced[REDACTIONS] = write_checked(staged.at(REDACTIONS), rest, ROWS_PER_GROUP)
    replaced |= write_tombstones(root, staged, _tombstones(decisions, entry_of, request))
    takedown = Takedown(on=date.today().isoformat(), num_pictures=int(is_taken.sum()), num_rows=num_rows)
    release = release.changed(
        **counts_in(marked).as_json(is_clean=release.files == "clean"),
        urls=urls,
        takedowns=[*release.takedowns, takedown],
        sha256=hashes,
        own_sha256=release.own_sha256 | {name: sha256 for name, sha256 in replaced.items() if name in HASHED},
    )
    release, content, described = write_descriptions(staged, release)
    staged.at(RELEASE).write(content)
    replaced |= {**described, RELEASE: hashlib.sha256(content).hexdigest()}
    return replaced, [*removed, SIGNATURE]


def _places(rows: pa.Table) -> Iterator[tuple[str, int]]:
    return zip(rows["shard"].to_pylist(), rows["index"].to_pylist(), strict=True)


def _tombstones(decisions: pa.Table, entry_of: dict[int, Entry], request: TakedownRequest) -> list[dict[str, Any]]:
    """Return what `removed.parquet` says of the removed pictures, in the order of the decisions. decisions: as they
    were before."""
    received = None if request.received is None else date.fromisoformat(request.received)
    rows = sorted(entry_of)
    names = ["shard", "key", "sha256", "released_sha256"]
    removed = decisions.select(names).take(pa.array(rows, pa.int64())).to_pylist()
    entries = [entry_of[row] for row in rows]
    return [
        row | {"received": entry.received or received, "why": entry.why or request.why, "by": entry.kind}
        for row, entry in zip(removed, entries, strict=True)
    ]


def _marked(decisions: pa.Table, is_taken: npt.NDArray[np.bool_]) -> pa.Table:
    values = {
        "action": "drop",
        "rule": ReservedRule.TAKEDOWN,
        "reason": f"taken down on {date.today().isoformat()}",
        "released_sha256": None,
        "unseen": None,
        "pdq": None,
    }
    return with_values(decisions, pa.array(is_taken), {name: pa.scalar(value) for name, value in values.items()})
