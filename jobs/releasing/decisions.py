"""What a policy decides for every row of a run, shard by shard; after the copy, also what had to be dropped."""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from ingest.errors import IncompleteError, RunError
from ingest.formats import Source
from ingest.formats.released import Kept, Written
from ingest.sample import printable
from ingest.storage.place import Place
from scoring.policies.policy import UNREADABLE, UNSAFE_MEMBER, Policy
from scoring.runs.coverage import has_all_chosen
from scoring.runs.footers import refuse_foreign
from scoring.runs.ledger import begun, finished, stems_of_others
from scoring.runs.record import RunRecord
from scoring.runs.results import RowRange, results
from scoring.runs.rows import rows_at


@dataclass(frozen=True)
class Share:
    """What is released of one shard. rows: where its rows lie. num_kept: samples to write, flagged ones too.

    is_whole: all samples of the shard were scanned. kept_sha256: of the `Kept` that the decisions give. first_decision:
    number of its first row among all decisions; num_decisions: so many follow.
    """

    shard: str
    rows: list[RowRange]
    num_kept: int
    is_whole: bool
    kept_sha256: str
    first_decision: int
    num_decisions: int


@dataclass(frozen=True)
class Plan:
    """shares: one per shard that has rows. decisions: every row's decision. counts: (action, rule) -> rows.

    num_older: scored rows of a version that did not record what was not scanned.
    """

    shares: list[Share]
    decisions: pa.Table
    counts: Counter[tuple[str, str]]
    num_older: int

    def actions(self) -> dict[str, int]:
        by_action = Counter[str]()
        for (action, _), count in self.counts.items():
            by_action[action] += count
        return {action: by_action[action] for action in ("keep", "flag", "drop")}

    def kept_sha256(self) -> str:
        """Of what is kept of the whole corpus."""
        return hashlib.sha256("".join(share.kept_sha256 for share in self.shares).encode()).hexdigest()

    def after(self, written: Mapping[str, Written]) -> "Plan":
        """The plan as it was carried out: what could not be released safely is dropped. written: by shard.

        IncompleteError where a kept sample is neither written nor dropped.
        """
        tables = list[pa.Table]()
        for share in self.shares:
            rows = self.decisions.slice(share.first_decision, share.num_decisions)
            done = written.get(share.shard)
            num_written, dropped = (done.num_samples, done.dropped) if done else (0, {})
            rows = _with_dropped(rows, dropped)
            num_left = pc.sum(pc.not_equal(rows["action"], "drop")).as_py() or 0
            if num_written != num_left or num_left + len(dropped) != share.num_kept:
                told = f"{num_written} samples written of {share.num_kept} that are kept; nothing is released"
                raise IncompleteError(f"{printable(share.shard)}: {told}")
            tables.append(rows)
        decisions = pa.concat_tables([self.decisions.slice(0, 0), *tables])
        return replace(self, decisions=decisions, counts=_counts(decisions))


def decide(run: Place, record: RunRecord, corpus: Source, policy: Policy) -> Plan:
    """A decision for every row of a complete run. RunError where rows are missing."""
    refuse_foreign(run, record.settings_hash())
    found = results(run)
    is_whole = record.sample is None and record.limit is None
    shares, tables, num_decisions, num_older = list[Share](), list[pa.Table](), 0, 0
    for shard in corpus.shards:
        if not is_whole and not begun(shard, found.done):
            continue
        if not finished(shard, found.done):
            raise RunError(f"{printable(shard)} is not scanned to its end; run the same scan again, then filter")
        ranges = found.of(shard)
        rows = rows_at(run, ranges)
        num_older += rows.filter((pc.field("status") == "scored") & pc.field("unseen").is_null()).num_rows
        tables.append(decisions_of(rows, policy))
        kept = kept_of(tables[-1], is_whole)
        share = Share(shard, ranges, len(kept.sha256), is_whole, hash_of(kept), num_decisions, tables[-1].num_rows)
        shares.append(share)
        num_decisions += tables[-1].num_rows
    gone = stems_of_others(corpus.shards, found.done)
    if gone:
        raise IncompleteError(
            f"{record.source} has changed since it was scanned: {len(gone)} shards of the run are gone; nothing is "
            "released; restore them, or scan the source into a new run"
        )
    decisions = pa.concat_tables(tables) if tables else pa.table({name: [] for name in ("action", "rule")})
    if not has_all_chosen(record, decisions.num_rows, corpus.shards, found.done):
        wanted = record.sample or record.limit
        raise RunError(
            f"{decisions.num_rows} of {wanted} chosen images are scanned; run the same scan again, then filter"
        )
    return Plan(shares, decisions, _counts(decisions), num_older)


def decisions_of(rows: pa.Table, policy: Policy) -> pa.Table:
    """The decisions of a policy for the rows of one shard; what has no bytes is always dropped."""
    decided = policy.decide(rows)
    lost = pc.and_(pc.is_null(decided["sha256"]), pc.not_equal(decided["action"], "drop"))
    told = pc.binary_join_element_wise("there is nothing that could be copied", decided["reason"], ": ")
    return _overruled(decided, lost, UNREADABLE, told)


def kept_of(decisions: pa.Table, is_whole: bool) -> Kept:
    """What the decisions for one shard leave of it."""
    rows = decisions.filter(pc.not_equal(decisions["action"], "drop"))
    hashes = dict(zip(rows["index"].to_pylist(), rows["sha256"].to_pylist(), strict=True))
    return Kept(hashes, decisions.num_rows if is_whole else None)


def hash_of(kept: Kept) -> str:
    """Of which samples are kept, and of how many."""
    return hashlib.sha256(json.dumps([sorted(kept.sha256.items()), kept.num_samples]).encode()).hexdigest()


def _with_dropped(decisions: pa.Table, dropped: Mapping[int, str]) -> pa.Table:
    """dropped: index -> reason."""
    if not dropped:
        return decisions
    places = pc.index_in(decisions["index"], pa.array(dropped.keys(), decisions["index"].type))
    reasons = pa.array(dropped.values(), pa.string()).take(places.combine_chunks())
    return _overruled(decisions, pc.is_valid(places), UNSAFE_MEMBER, reasons)


def _overruled(decisions: pa.Table, rows: pa.ChunkedArray, rule: str, reasons: pa.ChunkedArray) -> pa.Table:
    """Where `rows` is true, the rule drops."""
    for name, value in (("reason", reasons), ("rule", rule), ("action", "drop")):
        column = decisions.schema.get_field_index(name)
        decisions = decisions.set_column(column, name, pc.if_else(rows, value, decisions[name]))
    return decisions


def _counts(decisions: pa.Table) -> Counter[tuple[str, str]]:
    return Counter(zip(decisions["action"].to_pylist(), decisions["rule"].to_pylist(), strict=True))
