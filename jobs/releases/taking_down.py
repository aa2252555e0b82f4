"""`privsieve release takedown RELEASE LIST`: removes pictures from a release that exists already.

The shards that held them, `decisions.parquet`, `release.json` and what follows from it are written again, and put in
place as `jobs.releases.journal` says.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from functools import partial
from typing import Annotated

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingest.errors import PrivsieveError
from ingest.formats.released import DATASHEET, DECISIONS, HASHED, REDACTIONS, RELEASE, SIGNATURE, UNFINISHED
from ingest.storage.parquet_tables import write_checked
from ingest.storage.place import Place, place
from ingest.storage.removal import refuse_links
from jobs.console.requests import Option, Url, checked_request
from jobs.releases.decisions import with_values
from jobs.releases.entries import entries_of, named_rows, write_tombstones
from jobs.releases.files import content_of, read_own, read_release
from jobs.releases.finishing import ROWS_PER_GROUP, write_descriptions
from jobs.releases.journal import Found, Replaced, remove_safely
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
    `domain` and a registered domain, for all pictures of it. Or the removed.parquet of another release."""

    dry_run: bool = False
    """Say what would be removed; write nothing."""


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

    copies_left: tuple[str, ...]
    """SHARD/KEY of each picture that stays and has the same bytes as one that was removed by another name."""

    gone_before: tuple[int, ...] = ()
    """Numbers of lines whose pictures the release does not hold: dropped by its policy, or taken down before."""

    is_signature_void: bool = False
    """The release was signed as it was before."""


MAX_NAMED = 20


def run_takedown(request: TakedownRequest, feedback: Feedback = SILENT) -> RemovalResult:
    """Take pictures down. PrivsieveError if list or release forbids it; IncompleteError if the release has changed."""
    root, url = place(request.release), request.release
    entries = entries_of(request.listed)
    content_of(root, url)
    if root.at(UNFINISHED).exists():  # --resume would bring back what is taken down now
        raise PrivsieveError(f"{url} is unfinished; run its filter again with --resume, then take down")
    refuse_links(root)

    def find() -> Found[RemovalResult]:
        kind, decisions = kind_of(read_release(root, url).urls), read_own(root, DECISIONS, url)
        named, hashes = named_rows(url, decisions, entries), decisions["released_sha256"]
        is_released = pc.is_valid(hashes).to_numpy()
        is_taken = np.zeros(decisions.num_rows, np.bool_)
        is_taken[[row for _, row in named]] = True
        is_taken = kind.with_all_rows(decisions, is_taken & is_released)
        removed = decisions.filter(pa.array(is_taken))
        is_copy = pc.is_in(hashes, removed["released_sha256"].combine_chunks()).to_numpy() & is_released & ~is_taken
        known, there = {number for number, _ in named}, {number for number, row in named if is_released[row]}
        result = RemovalResult(
            num_entries=len(entries),
            num_pictures=removed.num_rows,
            num_shards=len(pc.unique(removed["shard"])),
            names=_names(removed.slice(0, MAX_NAMED)),
            unknown=tuple(entry.number for entry in entries if entry.number not in known),
            copies_left=_names(decisions.filter(pa.array(is_copy))),
            gone_before=tuple(sorted(known - there)),
            is_signature_void=removed.num_rows > 0 and root.at(SIGNATURE).exists(),
        )
        return result, partial(_staged, root, url, decisions, is_taken) if removed.num_rows else None

    return remove_safely(root, find, feedback, is_dry=request.dry_run)


def _names(rows: pa.Table) -> tuple[str, ...]:
    return tuple(f"{row['shard']}/{row['key']}" for row in rows.select(["shard", "key"]).to_pylist())


def _staged(root: Place, url: str, decisions: pa.Table, is_taken: npt.NDArray[np.bool_], staged: Place) -> Replaced:
    """Write everything that changes into a folder below `takedown.unfinished/`. is_taken: shape (decisions,)."""
    release, taken = read_release(root, url), decisions.filter(pa.array(is_taken))
    (replaced, removed), urls, num_rows = kind_of(release.urls).rest(root, staged, release, decisions, is_taken)
    stay = release.sha256.keys() - removed
    hashes = {name: sha256 for name, sha256 in release.sha256.items() if name in stay} | replaced
    values = {
        "action": pa.scalar("drop"),
        "rule": pa.scalar(ReservedRule.TAKEDOWN),
        "reason": pa.scalar(f"taken down on {date.today().isoformat()}"),
        **dict.fromkeys(("released_sha256", "unseen", "pdq"), pa.scalar(None)),
    }
    marked = with_values(decisions, pa.array(is_taken), values)
    replaced[DECISIONS] = write_checked(staged.at(DECISIONS), marked, ROWS_PER_GROUP)
    if REDACTIONS in release.own_sha256:
        steps = read_own(root, REDACTIONS, url)
        gone = {*_places(taken)}
        rest = steps.filter(pa.array([where not in gone for where in _places(steps)], pa.bool_()))
        replaced[REDACTIONS] = write_checked(staged.at(REDACTIONS), rest, ROWS_PER_GROUP)
    replaced |= write_tombstones(root, staged, taken.select(["shard", "key", "sha256", "released_sha256"]))
    takedown = Takedown(on=date.today().isoformat(), num_pictures=taken.num_rows, num_rows=num_rows)
    own_sha256 = release.own_sha256 | {name: sha256 for name, sha256 in replaced.items() if name in HASHED}
    own_sha256.pop(DATASHEET, None)
    release = release.changed(
        **counts_in(marked).as_json(is_clean=release.files == "clean"),
        urls=urls,
        takedowns=[*release.takedowns, takedown],
        sha256=hashes,
        own_sha256=own_sha256,
    )
    release, content, described = write_descriptions(staged, release)
    staged.at(RELEASE).write(content)
    replaced |= {**described, RELEASE: hashlib.sha256(content).hexdigest()}
    return replaced, [*removed, SIGNATURE, DATASHEET]


def _places(rows: pa.Table) -> Iterator[tuple[str, int]]:
    return zip(rows["shard"].to_pylist(), rows["index"].to_pylist(), strict=True)
