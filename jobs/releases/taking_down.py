"""`privsieve takedown RELEASE LIST`: removes pictures from a release that exists already.

The shards that held them, `decisions.parquet`, `release.json` and what follows from it are written again, and put in
place as `jobs.releases.journal` says.
"""

import hashlib
import posixpath
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import Field

from ingest.errors import IncompleteError, PrivsieveError, number_of
from ingest.formats import open_source
from ingest.formats.released import (
    DECISIONS,
    MADE_FROM,
    REDACTIONS,
    RELEASE,
    RELEASE_LEASE,
    REMOVED,
    SIGNATURE,
    TAKEDOWN_STAGED,
    UNFINISHED,
    Kept,
)
from ingest.formats.tree import ROOT
from ingest.images.pdq import MAX_DISTANCE
from ingest.sample import printable
from ingest.storage.parquet_tables import read_checked, refuse_damage, write_checked
from ingest.storage.place import Place, place
from jobs.console.requests import Option, Url, checked_request
from jobs.console.terminal import write_line
from jobs.releases.decisions import DECISIONS_SCHEMA, read_decisions
from jobs.releases.documents import write_documents
from jobs.releases.entries import Entry, entries_of
from jobs.releases.finishing import ROWS_PER_GROUP, as_json
from jobs.releases.journal import Journal, finish_takedown, put_in_place, write_rest
from jobs.releases.matching import Matches, NearMatch, copies_left, matched, near_pictures, with_same_url, with_unjudged
from jobs.releases.plan import counts_in
from jobs.releases.previous import write_rest_made_from
from jobs.releases.record import facts_of, signed, urls_of, write_sums
from jobs.releases.tombstones import Why, write_tombstones
from jobs.releases.url_list import DAMAGED, url_hashes
from jobs.runtime.progress import SILENT, Feedback
from scoring.policies.policy import TAKEDOWN
from scoring.runs.lease import lease

PdqDistance = Annotated[int, Field(ge=0, le=64)]
"""Unrelated pictures differ in about half of the bits."""


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

    sign_key: Annotated[Url | None, Option(metavar="FILE")] = None
    """SSH key that signs the changed SHA256SUMS; without it a signature of the release is removed, since it is void."""

    dry_run: bool = False
    """Say what would be removed; write nothing."""

    def __post_init__(self) -> None:
        if self.received is not None:
            try:
                date.fromisoformat(self.received)
            except ValueError:
                raise PrivsieveError("--received takes a day, such as 2026-11-24") from None


@dataclass(frozen=True)
class TakedownResult:
    """What was removed. Fields without a docstring are those of `Matches`."""

    num_entries: int
    """Lines of the list that name a picture."""

    num_pictures: int
    """Pictures that were removed, copies too."""

    num_shards: int
    """Shards that held them."""

    gone_before: tuple[int, ...]
    unknown: tuple[int, ...]

    near: tuple[NearMatch, ...] = ()
    """Pictures that PDQ hashes found."""

    num_not_compared: int = 0
    """Pictures that cannot be decoded, so that no PDQ hash finds them."""

    copies_left: tuple[str, ...] = ()
    """SHARD/KEY of each picture that stays and has the same bytes as one that was removed by its key or domain."""

    num_unjudged: int = 0
    """Rows of a list of URLs, without a judged picture, that were removed."""

    is_signature_void: bool = False
    """The release was signed, and no key was given to sign it again."""


def run_takedown(request: TakedownRequest, feedback: Feedback = SILENT) -> TakedownResult:
    """Take pictures down. PrivsieveError if list or release forbids it; IncompleteError if the release has changed."""
    root = place(request.release)
    if request.sign_key is not None:
        signed(b"", request.sign_key)
    entries = entries_of(request.listed)
    if not root.at(RELEASE).exists():
        raise PrivsieveError(f"{request.release} is no finished release: it has no {RELEASE}")
    if root.at(UNFINISHED).exists():  # --resume would bring back what is taken down now
        raise PrivsieveError(f"{request.release} is unfinished; run its filter again with --resume, then take down")
    if request.dry_run:
        return _matched(root, request, entries, feedback)[2]
    with lease(root.at(RELEASE_LEASE), request.release, takeover=None) as own_lease:
        finish_takedown(root)
        decisions, matches, result = _matched(root, request, entries, feedback)
        if not result.num_pictures and not result.num_unjudged:
            return result
        is_void = request.sign_key is None and root.at(SIGNATURE).exists()
        result = replace(result, is_signature_void=is_void)
        put_in_place(root, own_lease, lambda folder: _staged(root, folder, request, decisions, matches, feedback))
    return result


def _matched(
    root: Place, request: TakedownRequest, entries: Sequence[Entry], feedback: Feedback
) -> tuple[pa.Table, Matches, TakedownResult]:
    """Return the decisions, which of them the list names, and the result of the removal."""
    decisions = read_decisions(root, request.release)
    near, num_not_compared = near_pictures(request.release, entries, request.pdq_distance, feedback)
    matches = matched(decisions, entries, request.release, near)
    if (counts := urls_of(root)) is not None:
        matches = with_same_url(decisions, matches)
        if counts.keeps_unknown:
            files = facts_of(root.at(RELEASE).read(), request.release)["sha256"]
            matches = with_unjudged(root, files, counts.column, decisions, entries, matches)
    num_shards = len(pc.unique(decisions["shard"].take(pa.array(sorted(matches.taken), pa.int64()))))
    result = TakedownResult(
        len(entries),
        len(matches.taken),
        num_shards,
        matches.gone_before,
        matches.unknown,
        matches.near,
        num_not_compared,
        copies_left=copies_left(decisions, matches),
        num_unjudged=len(matches.unjudged),
    )
    return decisions, matches, result


def _staged(
    root: Place, folder: str, request: TakedownRequest, decisions: pa.Table, matches: Matches, feedback: Feedback
) -> Journal:
    """Write everything that changes into a folder below `takedown.unfinished/`."""
    staged, summary = root.at(TAKEDOWN_STAGED, folder), facts_of(root.at(RELEASE).read(), request.release)
    is_taken = np.zeros(decisions.num_rows, dtype=np.bool_)
    is_taken[list(matches.taken)] = True
    files: dict[str, str] = summary["sha256"]
    takedown = {"on": date.today().isoformat(), "num_pictures": int(is_taken.sum())}
    counts = urls_of(root)
    if counts is None:
        rest = _rest_of_shards(request.release, staged, decisions, is_taken, files)
    else:
        urls = {*pc.drop_null(decisions["url_sha256"].filter(pa.array(is_taken))).to_pylist()}
        urls |= {url_sha256 for url_sha256, _ in matches.unjudged}
        rest, num_gone = _rest_of_urls(root, staged, counts.column, urls, files)
        summary["urls"] = counts.model_copy(update={"num_taken_down": counts.num_taken_down + num_gone}).model_dump()
        takedown["num_rows"] = num_gone
    hashes, replaced, removed = rest
    if summary.get("made_from_sha256") is not None and root.at(MADE_FROM).exists():
        gone = [name for name, sha256 in files.items() if hashes.get(name) != sha256]
        sha256 = write_rest_made_from(root, staged, gone, summary["made_from_sha256"])
        summary["made_from_sha256"] = sha256
        if sha256 is None:
            feedback.notice(f"{MADE_FROM} is damaged and removed, so a later filter --previous writes all shards")
            removed.append(MADE_FROM)
        else:
            replaced[MADE_FROM] = sha256
    marked = _marked(decisions, is_taken)
    decisions_sha256 = write_checked(staged.at(DECISIONS), marked, ROWS_PER_GROUP)
    if root.at(REDACTIONS).exists():
        summary["redactions_sha256"] = replaced[REDACTIONS] = _rest_of_redactions(root, staged, decisions, is_taken)
    tombstones = _tombstones(decisions, matches, request)
    summary["removed_sha256"] = replaced[REMOVED] = write_tombstones(root, staged, tombstones)
    summary |= {
        **counts_in(marked).as_json(is_clean=summary.get("files") == "clean"),
        "sha256": hashes,
        "decisions_sha256": decisions_sha256,
    }
    summary.setdefault("takedowns", []).append(takedown)
    if "engine" in summary:  # releases of older versions have neither documents nor the facts for them
        summary["documents"] = write_documents(staged, summary)
        replaced |= summary["documents"]
    content = as_json(summary)
    staged.at(RELEASE).write(content)
    replaced |= write_sums(staged, content, request.sign_key)
    replaced |= {DECISIONS: decisions_sha256, RELEASE: hashlib.sha256(content).hexdigest()}
    removed += [SIGNATURE] if SIGNATURE not in replaced else []
    return Journal(folder=folder, replaced=replaced, removed=removed)


Rest = tuple[dict[str, str], dict[str, str], list[str]]
"""The files of the release afterwards and those of them that were written, each with its hash; files to remove."""


def _rest_of_shards(
    url: str, staged: Place, decisions: pa.Table, is_taken: npt.NDArray[np.bool_], hashes: dict[str, str]
) -> Rest:
    """Write the shards that hold pictures to remove again without them. hashes: of the files of the release."""
    source = open_source(url, None, None)
    names = {printable(shard): shard for shard in source.shards}
    shards = np.array(decisions["shard"].to_pylist(), dtype=object)
    replaced, removed = dict[str, str](), list[str]()
    for shard in dict.fromkeys(shards[is_taken]):
        if shard not in names:
            raise IncompleteError(f"{url}: {shard} is not there; privsieve verify says more")
        here = np.flatnonzero(shards == shard)
        places = source.picture_indices(names[shard])
        rest = _without(shard, decisions["released_sha256"].take(pa.array(here)).to_pylist(), is_taken[here], places)
        files = write_rest(source, names[shard], rest, staged)
        if source.format == "tree":
            above = "" if names[shard] == ROOT else names[shard]
            gone = [n for n in hashes if posixpath.dirname(n) == above and n not in files]
            removed += gone
            hashes = {name: sha256 for name, sha256 in hashes.items() if name not in gone}
        else:
            replaced |= files
            hashes = hashes | files
    return hashes, replaced, removed


def _rest_of_urls(
    root: Place, staged: Place, column: str, urls: Collection[str], hashes: dict[str, str]
) -> tuple[Rest, int]:
    """Write the files of a list of URLs again without these URLs, and count the rows that are gone.

    urls: hashes of the URLs to remove.
    """
    replaced, num_gone = dict[str, str](), 0
    for name in hashes:
        num_before = num_gone
        with refuse_damage(root.at(name).path, DAMAGED, IncompleteError), root.at(name).open() as stream:
            schema = pq.read_schema(stream)
        with staged.at(name).create() as target, pq.ParquetWriter(target, schema, compression="zstd") as writer:
            for batch, of_rows in url_hashes(root.at(name), column):
                stays = [url_sha256 not in urls for url_sha256 in of_rows]
                writer.write_batch(batch.filter(pa.array(stays, pa.bool_())))
                num_gone += stays.count(False)
        if num_gone == num_before:
            staged.at(name).remove()
        else:
            replaced[name] = target.sha256
    return (hashes | replaced, replaced, []), num_gone


def _tombstones(decisions: pa.Table, matches: Matches, request: TakedownRequest) -> list[dict[str, Any]]:
    """Return what `removed.parquet` says of the removed pictures, in the order of the decisions, and of the removed
    rows without a judged picture, in the order of the list. decisions: as they were before."""
    received = None if request.received is None else date.fromisoformat(request.received)
    rows = sorted(matches.taken)
    names = ["shard", "key", "sha256", "released_sha256"]
    removed = decisions.select(names).take(pa.array(rows, pa.int64())).to_pylist()
    removed += [{"url_sha256": url_sha256} for url_sha256, _ in matches.unjudged]
    entries = [*(matches.taken[row] for row in rows), *(entry for _, entry in matches.unjudged)]
    return [
        row | {"received": entry.received or received, "why": entry.why or request.why, "by": entry.kind}
        for row, entry in zip(removed, entries, strict=True)
    ]


def _rest_of_redactions(root: Place, staged: Place, decisions: pa.Table, is_taken: npt.NDArray[np.bool_]) -> str:
    """Write how the pictures that stay were covered, and return the hash of the file."""
    taken = {
        *zip(*(decisions[name].filter(pa.array(is_taken)).to_pylist() for name in ("shard", "index")), strict=True)
    }
    try:
        steps = read_checked(root.at(REDACTIONS))
        places = zip(steps["shard"].to_pylist(), steps["index"].to_pylist(), strict=True)
    except (pa.ArrowException, KeyError):
        raise IncompleteError(f"{REDACTIONS} cannot be read; privsieve verify says more") from None
    rest = steps.filter(pa.array([one not in taken for one in places], pa.bool_()))
    return write_checked(staged.at(REDACTIONS), rest, ROWS_PER_GROUP)


def _without(
    shard: str, released: Sequence[str | None], is_taken: npt.NDArray[np.bool_], places: Sequence[int] | None
) -> Kept:
    """Return what is left of a shard. IncompleteError if it has another number of pictures.

    released: hash of each picture in it, None for those that are not in it. places: the index of each picture in it;
    None if its samples are all pictures.
    """
    there = [(sha256, bool(goes)) for sha256, goes in zip(released, is_taken, strict=True) if sha256 is not None]
    indices = range(len(there)) if places is None else places
    if len(indices) != len(there):
        raise IncompleteError(f"{shard}: it holds {len(indices)} pictures, and {len(there)} were released")
    kept = {index: sha256 for index, (sha256, goes) in zip(indices, there, strict=True) if not goes}
    return Kept(kept, len(there) if places is None else None, members="all")


def _marked(decisions: pa.Table, is_taken: npt.NDArray[np.bool_]) -> pa.Table:
    values = {
        "action": "drop",
        "rule": TAKEDOWN,
        "reason": f"taken down on {date.today().isoformat()}",
        "released_sha256": None,
        "unseen": None,
    }
    for name, value in values.items():
        field = DECISIONS_SCHEMA.field(name)
        column = pc.if_else(pa.array(is_taken), pa.scalar(value, field.type), decisions[name])
        decisions = decisions.set_column(DECISIONS_SCHEMA.get_field_index(name), field, column)
    return decisions


MAX_PRINTED = 20


def write_near(near: Sequence[NearMatch], num_not_compared: int) -> None:
    """Print what PDQ hashes found, since a near picture can be another one."""
    for match in near[:MAX_PRINTED]:
        write_line(f"  line {match.number}: {match.name}, {match.distance} of 256 bits differ")
    if len(near) > MAX_PRINTED:
        write_line(f"  and {number_of(len(near) - MAX_PRINTED, 'more near picture')}")
    if num_not_compared:
        write_line(f"  {number_of(num_not_compared, 'picture')} cannot be decoded, so not compared with PDQ hashes")


def write_numbers(numbers: Sequence[int], why: str) -> None:
    """Print lines of the list by their numbers. The lines themselves may name people."""
    if numbers:
        shown = ", ".join(map(str, numbers[:10])) + (", …" if len(numbers) > 10 else "")
        write_line(f"  {number_of(len(numbers), 'line')}: {why} ({shown})")
