"""Pictures leave a release that exists already.

The shards that held them, `decisions.parquet` and `release.json` are written anew into a folder of this takedown below
`takedown.unfinished/`. Once all of it is there, `takedown.unfinished.json` says what replaces what. Until then the
release is the old one. From then on, `verify` says that a takedown is unfinished, and the next takedown first does what
that file says. A lease keeps other takedowns out; since two that begin at the same moment may both get it, each has its
own folder, and the file has the hashes of what it puts into place.
"""

import hashlib
import json
import posixpath
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import AfterValidator, BaseModel, ValidationError

from ingest.errors import IncompleteError, PrivsieveError
from ingest.formats import FORMATS, Source, open_source
from ingest.formats.members import name_fault
from ingest.formats.released import DECISIONS, REDACTIONS, RELEASE, REMOVED, SIGNATURE, Kept
from ingest.formats.tree import ROOT
from ingest.sample import printable
from ingest.storage.place import Place, place
from ingest.storage.removal import remove_tree
from jobs.console.requests import Option, Url, checked_request
from jobs.filter.checksums import signed, write_sums
from jobs.filter.decisions import DECISIONS_SCHEMA
from jobs.filter.documents import write_documents
from jobs.filter.finishing import ROWS_PER_GROUP, as_json
from jobs.filter.record import RELEASE_LEASE, TAKEDOWN_JOURNAL, TAKEDOWN_STAGED, Sha256
from jobs.takedown.entries import Entry, entries_of
from jobs.takedown.tombstones import Why, write_tombstones
from jobs.verify import sha256_of
from scoring.policies.policy import ACTIONS, DAMAGED_SHARD, TAKEDOWN
from scoring.runs.lease import lease

BLOCK_BYTES = 2**22


def _within(name: str) -> str:
    if name_fault(name) is not None:
        raise ValueError("leads out of the release")
    return name


FileName = Annotated[str, AfterValidator(_within)]
"""Path below a release: what its files say is not trusted."""


class _Journal(BaseModel):
    """What is left to do once everything is written."""

    folder: FileName
    """Folder below `takedown.unfinished/` with the new files."""

    replaced: dict[FileName, Sha256]
    """New files that take the place of those of the release, and their hashes."""

    removed: list[FileName]
    """Files of the release that go."""


@checked_request
class TakedownRequest:
    release: Annotated[Url, Option(argument="RELEASE")]
    """Folder or fsspec URL of a release."""

    listed: Annotated[Url, Option(argument="LIST")]
    """Text file with one picture a line: its sha256, as scanned or as released, its key, SHARD/KEY, or its URL; or
    `domain` and a registered domain, for all of its pictures. Or the removed.parquet of another release."""

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
    num_entries: int
    """Lines of the list that name a picture."""

    num_pictures: int
    """Pictures that were removed, copies too."""

    num_shards: int
    """Shards that held them."""

    gone_before: tuple[int, ...]
    """Numbers of lines whose pictures the release did not hold: dropped by its policy, or taken down before."""

    unknown: tuple[int, ...]
    """Numbers of lines that name no picture of the release's run."""

    is_signature_void: bool = False
    """The release was signed, and no key was given to sign it again."""


def run_takedown(request: TakedownRequest) -> TakedownResult:
    """PrivsieveError if the list or the release does not allow it; IncompleteError if the release has changed."""
    root = place(request.release)
    if request.sign_key is not None:
        signed(b"", request.sign_key)
    entries = entries_of(request.listed)
    if not root.at(RELEASE).exists():
        raise PrivsieveError(f"{request.release} is no finished release: it has no {RELEASE}")
    if request.dry_run:
        return _matched(_decisions(root, request.release), entries, request.release)[1]
    with lease(root.at(RELEASE_LEASE), request.release, takeover=None) as held:
        finish_takedown(root)
        decisions = _decisions(root, request.release)
        requested, result = _matched(decisions, entries, request.release)
        if not result.num_pictures:
            return result
        is_void = request.sign_key is None and root.at(SIGNATURE).exists()
        result = replace(result, is_signature_void=is_void)
        try:
            journal = _staged(root, held.id, request, decisions, requested)
            held.confirm()
        except BaseException:
            remove_tree(root.at(TAKEDOWN_STAGED, held.id))
            if not root.at(TAKEDOWN_STAGED).names():
                remove_tree(root.at(TAKEDOWN_STAGED))
            raise
        root.at(TAKEDOWN_JOURNAL).write(journal.model_dump_json().encode())
        finish_takedown(root)
    return result


def finish_takedown(root: Place) -> None:
    """Do what the journal of an interrupted takedown says; without one, remove what was written for it."""
    journal = root.at(TAKEDOWN_JOURNAL)
    if journal.exists():
        try:
            left = _Journal.model_validate_json(journal.read())
        except ValidationError:
            raise IncompleteError(f"{journal.path} is damaged; restore the release from a copy") from None
        for name, sha256 in left.replaced.items():
            staged = root.at(TAKEDOWN_STAGED, left.folder, name)
            if staged.exists():
                _copy(staged, root.at(name))
                staged.remove()
            elif not root.at(name).exists() or sha256_of(root.at(name)) != sha256:
                raise IncompleteError(
                    f"{name} is not what the takedown wrote, and its copy below {TAKEDOWN_STAGED}/ is gone; "
                    "restore the release from a copy"
                )
        for name in left.removed:
            if root.at(name).exists():
                root.at(name).remove()
    remove_tree(root.at(TAKEDOWN_STAGED))
    if journal.exists():
        journal.remove()


def _copy(file: Place, copy: Place) -> None:
    with file.open() as stream, copy.create() as target:
        while block := stream.read(BLOCK_BYTES):
            target.write(block)


def _decisions(root: Place, url: str) -> pa.Table:
    try:
        with root.at(DECISIONS).open() as stream:
            # Without threads, as in `jobs.verify`.
            decisions = pq.ParquetFile(stream, pre_buffer=False, page_checksum_verification=True).read(
                use_threads=False
            )
    except (pa.ArrowException, FileNotFoundError):
        raise IncompleteError(f"{url}: {DECISIONS} cannot be read; privsieve verify {url} says more") from None
    if not decisions.schema.equals(DECISIONS_SCHEMA):
        raise PrivsieveError(
            f"{url} was written by another version, which did not record the released pictures; filter again"
        )
    return decisions


def _matched(decisions: pa.Table, entries: Sequence[Entry], url: str) -> tuple[dict[int, Entry], TakedownResult]:
    """Return row -> the first entry that takes its picture. Only rows that the list names become Python objects."""
    rows_of = _rows_of_names(decisions, entries, url)
    is_released = pc.is_valid(decisions["released_sha256"]).to_numpy()
    taken, gone, unknown = dict[int, Entry](), list[int](), list[int]()
    for entry in entries:
        rows_of_entry = rows_of.get((entry.kind, entry.name), [])
        released = sorted({row for row in rows_of_entry if is_released[row]})
        if entry.kind == "key" and len(released) > 1:
            raise PrivsieveError(
                f"line {entry.number} of the list is the key of {len(released):,} pictures; write SHARD/KEY, or the "
                "sha256"
            )
        for row in released:
            taken.setdefault(row, entry)
        if not released:
            (gone if rows_of_entry else unknown).append(entry.number)
    shards = pc.unique(decisions["shard"].take(pa.array(sorted(taken), pa.int64())))
    return taken, TakedownResult(len(entries), len(taken), len(shards), tuple(gone), tuple(unknown))


def _rows_of_names(decisions: pa.Table, entries: Sequence[Entry], url: str) -> dict[tuple[str, str], list[int]]:
    """Return kind and name of an entry -> rows. PrivsieveError where the release does not record what is named."""
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
        if len(names) and kind in ("url", "domain") and columns[kind][0].null_count == decisions.num_rows:
            number = next(entry.number for entry in entries if entry.kind == kind)
            raise PrivsieveError(
                f"line {number} of the list names a {'URL' if kind == 'url' else kind}, and {url} records none, since "
                "its source or its policy gives none; write the sha256, or SHARD/KEY"
            )
    return rows_of


def _staged(
    root: Place, folder: str, request: TakedownRequest, decisions: pa.Table, requested: Mapping[int, Entry]
) -> _Journal:
    """Write everything that changes into a folder below `takedown.unfinished/`. requested: rows that go."""
    staged, summary = root.at(TAKEDOWN_STAGED, folder), _summary(root, request.release)
    is_taken = np.zeros(decisions.num_rows, dtype=np.bool_)
    is_taken[list(requested)] = True
    source = open_source(request.release, None, None)
    names = {printable(shard): shard for shard in source.shards}
    shards = np.array(decisions["shard"].to_pylist(), dtype=object)
    hashes: dict[str, str] = summary["sha256"]
    replaced: dict[str, str] = {}
    removed: list[str] = []
    for shard in dict.fromkeys(shards[is_taken]):
        if shard not in names:
            raise IncompleteError(f"{request.release}: {shard} is not there; privsieve verify says more")
        here = np.flatnonzero(shards == shard)
        rest = _without(decisions["released_sha256"].take(pa.array(here)).to_pylist(), is_taken[here])
        files = _written(source, names[shard], rest, staged)
        if source.format == "tree":
            above = "" if names[shard] == ROOT else names[shard]
            gone = [n for n in hashes if posixpath.dirname(n) == above and n not in files]
            removed += gone
            hashes = {name: sha256 for name, sha256 in hashes.items() if name not in gone}
        else:
            replaced |= files
            hashes |= files
    made = _marked(decisions, is_taken)
    with staged.at(DECISIONS).create() as stream:
        pq.write_table(made, stream, ROWS_PER_GROUP, compression="zstd", write_page_checksum=True)
    if root.at(REDACTIONS).exists():
        summary["redactions_sha256"] = replaced[REDACTIONS] = _rest_of_redactions(root, staged, decisions, is_taken)
    summary["removed_sha256"] = replaced[REMOVED] = write_tombstones(
        root, staged, decisions.filter(pa.array(is_taken)), _requests(requested, request)
    )
    summary |= {**_counts(made, summary), "sha256": hashes, "decisions_sha256": stream.sha256}
    summary.setdefault("takedowns", []).append({"on": date.today().isoformat(), "num_pictures": int(is_taken.sum())})
    if "engine" in summary:  # releases of older versions have no documents, and not the facts for them
        summary["documents"] = write_documents(staged, summary)
        replaced |= summary["documents"]
    content = as_json(summary)
    staged.at(RELEASE).write(content)
    replaced |= write_sums(staged, content, request.sign_key)
    replaced |= {DECISIONS: stream.sha256, RELEASE: hashlib.sha256(content).hexdigest()}
    removed += [SIGNATURE] if SIGNATURE not in replaced else []
    return _Journal(folder=folder, replaced=replaced, removed=removed)


def _requests(requested: Mapping[int, Entry], request: TakedownRequest) -> list[dict[str, Any]]:
    """Return what `removed.parquet` says of the request for each row that goes, in the order of the rows."""
    received = None if request.received is None else date.fromisoformat(request.received)
    entries = [requested[row] for row in sorted(requested)]
    return [
        {"received": entry.received or received, "why": entry.why or request.why, "by": entry.kind} for entry in entries
    ]


def _rest_of_redactions(root: Place, staged: Place, decisions: pa.Table, is_taken: npt.NDArray[np.bool_]) -> str:
    """Write how the pictures that stay were covered, and return the hash of the file."""
    taken = {
        *zip(*(decisions[name].filter(pa.array(is_taken)).to_pylist() for name in ("shard", "index")), strict=True)
    }
    try:
        with root.at(REDACTIONS).open() as stream:
            steps = pq.ParquetFile(stream, pre_buffer=False, page_checksum_verification=True).read(use_threads=False)
        places = zip(steps["shard"].to_pylist(), steps["index"].to_pylist(), strict=True)
    except (pa.ArrowException, KeyError):
        raise IncompleteError(f"{REDACTIONS} cannot be read; privsieve verify says more") from None
    rest = steps.filter(pa.array([one not in taken for one in places], pa.bool_()))
    with staged.at(REDACTIONS).create() as target:
        pq.write_table(rest, target, ROWS_PER_GROUP, compression="zstd", write_page_checksum=True)
    return target.sha256


def _summary(root: Place, url: str) -> dict[str, Any]:
    try:
        summary = json.loads(root.at(RELEASE).read())
        if isinstance(summary["sha256"], dict) and not any(map(name_fault, summary["sha256"])):
            return dict(summary)
    except (ValueError, KeyError, TypeError):
        pass
    raise PrivsieveError(f"{url}: {RELEASE} is damaged, or was not written by filter")


def _without(released: Sequence[str | None], is_taken: npt.NDArray[np.bool_]) -> Kept:
    """Return what is left of a shard. released: hash of each picture in it, None for those that are not in it."""
    there = [(sha256, bool(goes)) for sha256, goes in zip(released, is_taken, strict=True) if sha256 is not None]
    kept = {index: sha256 for index, (sha256, goes) in enumerate(there) if not goes}
    return Kept(kept, len(there), members="all")


def _written(source: Source, shard: str, rest: Kept, staged: Place) -> dict[str, str]:
    """Write a shard without the pictures that go. Returns file -> sha256."""
    written = FORMATS[source.format].write(source.root, shard, rest, staged)
    if written.num_samples != len(rest.sha256):
        raise IncompleteError(f"{printable(shard)} cannot be written again as it is; nothing was taken down")
    return written.files


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


def _counts(decisions: pa.Table, summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the counts of `release.json` as they are after the takedown. summary: before."""
    rules: dict[str, dict[str, int]] = {}
    actions: dict[str, int] = dict.fromkeys(ACTIONS, 0)
    for row in decisions.group_by(["rule", "action"]).aggregate([([], "count_all")]).to_pylist():
        if row["rule"] != DAMAGED_SHARD:
            rules.setdefault(row["rule"], {})[row["action"]] = row["count_all"]
            actions[row["action"]] += row["count_all"]
    unseen = pc.drop_null(decisions["unseen"])
    kinds = Counter(pc.list_flatten(unseen).to_pylist())
    if summary.get("files") == "clean":
        return {"actions": dict(actions), "rules": rules, "num_unseen_removed": len(unseen)}
    ordered = dict(sorted(kinds.items(), key=lambda item: (-item[1], item[0])))
    return {"actions": dict(actions), "rules": rules, "num_unseen_kept": len(unseen), "unseen_kept": ordered}
