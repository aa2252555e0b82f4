"""What a release will hold: one pass over all rows, of which only counts and hashes stay in memory."""

import hashlib
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from ingest.errors import IncompleteError, RunError, number_of
from ingest.formats import Source
from ingest.sample import printable
from ingest.storage.place import Place
from jobs.releases.decider import Decider
from jobs.releases.decisions import KeptHash, counted, row_chunks, unseen_in
from reports.report.opened import open_run
from scoring.policies.policy import ACTIONS, Policy
from scoring.policies.reserved import ReservedRule
from scoring.privacy import LEVEL_0_ADVICE, PROBABILITIES, matches_level_0_too, unanswered_columns
from scoring.runs.coverage import has_all_chosen
from scoring.runs.footers import refuse_foreign
from scoring.runs.ledger import finished, has_any_result, shard_ids_of_others
from scoring.runs.record import RunRecord
from scoring.runs.results import Results, RowRange, results
from scoring.runs.rows import Damage, damage_of, is_damage, scope_of
from scoring.table import Col

THEN = "wait if a scan is at work, else run the same scan again; then filter"
"""What to do if rows are missing: a scan may be at work, or was interrupted."""


@dataclass(frozen=True)
class Share:
    """What is released of one shard."""

    shard: str
    rows: list[RowRange]
    """Position of its rows in the run."""

    num_rows: int
    num_kept: int
    """Samples to write, flagged ones too."""

    is_whole: bool
    """All samples of the shard were scanned."""

    kept_sha256: str
    """Hash of the kept samples. The copy decides again, and must get the same hash."""


@dataclass(frozen=True)
class Counts:
    """How many images a policy keeps, flags and drops."""

    by_rule: Counter[tuple[str, str]] = field(default_factory=Counter)
    """(action, rule) -> images."""

    num_damaged_parts: int = 0
    """Rows of the run that are about a part of a damaged shard, and no images. They have decisions too."""

    num_unseen: int = 0
    """Kept and flagged images that hold content that may not have been scanned."""

    unseen_kinds: Counter[str] = field(default_factory=Counter)
    """Kind of such content -> how many of these images hold it."""

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(*(getattr(self, each.name) + getattr(other, each.name) for each in fields(Counts)))

    @property
    def num_images(self) -> int:
        return sum(self.by_rule.values())

    def as_json(self, is_clean: bool) -> dict[str, Any]:
        """Return what `release.json` says. is_clean: content that was not scanned was removed from the files."""
        rules: dict[str, dict[str, int]] = {}
        for (action, rule), count in sorted(self.by_rule.items()):
            rules.setdefault(rule, {})[action] = count
        return {
            "actions": self.actions(),
            "rules": rules,
            "num_unseen_kept": 0 if is_clean else self.num_unseen,
            "unseen_kept": {} if is_clean else self.kinds(),
            "num_unseen_removed": self.num_unseen if is_clean else 0,
        }

    def kinds(self) -> dict[str, int]:
        """Return `unseen_kinds`, the most frequent first."""
        return dict(sorted(self.unseen_kinds.items(), key=lambda item: (-item[1], item[0])))

    def actions(self) -> dict[str, int]:
        return {name: sum(n for (action, _), n in self.by_rule.items() if action == name) for name in ACTIONS}


@dataclass(frozen=True)
class Plan:
    shares: list[Share]
    """One per shard that has rows, in the order of the source."""

    counts: Counts
    num_kept_bytes: int
    """Size of the encoded images that are kept."""

    num_scored_left: int
    """Images with a score that are kept or flagged."""

    damage: Damage
    """Shards of which an unknown number of images was not seen."""

    @property
    def num_kept(self) -> int:
        return sum(share.num_kept for share in self.shares)

    def kept_sha256(self) -> str:
        """Return the hash of what is kept of the whole corpus."""
        return hashlib.sha256("".join(share.kept_sha256 for share in self.shares).encode()).hexdigest()


def plan_release(run: Place, record: RunRecord, corpus: Source, decider: Decider) -> Plan:
    """Decide for every row of a complete run. RunError if rows are missing; PolicyError if a rule fails."""
    refuse_foreign(run, record.settings_hash())
    listed = results(run)
    shares, counts, damaged = list[Share](), Counts(), list[tuple[str, Counter[str]]]()
    num_kept_bytes = num_scored_left = 0
    for shard, ranges in shard_rows(record, corpus, listed):
        kept, num_rows = KeptHash(shard), 0
        for rows in row_chunks(run, ranges, decider.columns):
            decisions = decider.decide(rows)
            kept.update(decisions)
            num_rows += decisions.num_rows
            counts += counts_of(decisions, unseen_in(rows, decisions).values())
            damage = Counter(rows[Col.REASON].filter(is_damage(rows)).to_pylist())
            if damage:
                damaged.append((shard, damage))
            is_kept = pc.not_equal(decisions["action"], "drop")
            num_scored_left += pc.sum(pc.and_(is_kept, pc.equal(rows[Col.STATUS], "scored"))).as_py() or 0
            num_kept_bytes += pc.sum(rows[Col.NUM_BYTES].filter(is_kept)).as_py() or 0
        is_whole = record.is_whole
        shares.append(Share(shard, ranges, num_rows, kept.num_kept, is_whole, kept.hexdigest(is_whole)))
    _refuse_incomplete(record, corpus, listed, num_rows=sum(share.num_rows for share in shares))
    return Plan(shares, counts, num_kept_bytes, num_scored_left, damage_of(damaged))


def shard_rows(record: RunRecord, corpus: Source, listed: Results) -> Iterator[tuple[str, list[RowRange]]]:
    """Yield each shard with where its rows are. RunError if one is not scanned to its end."""
    for shard in corpus.shards:
        if not record.is_whole and not has_any_result(shard, listed.ledger):
            continue
        if not finished(shard, listed.ledger):
            raise RunError(f"{printable(shard)} is not scanned to its end; {THEN}")
        yield shard, listed.of(shard)


def counts_of(decisions: pa.Table, unseen: Collection[Sequence[str]]) -> Counts:
    """Return the counts of images, without rows about damage. unseen: kinds of content of each that holds some."""
    by_rule = counted(decisions)
    num_damaged = by_rule.pop(("drop", str(ReservedRule.DAMAGED_SHARD)), 0)
    return Counts(by_rule, num_damaged, len(unseen), Counter(kind for kinds in unseen for kind in kinds))


def counts_in(decisions: pa.Table) -> Counts:
    """Return the counts of decisions as they were carried out."""
    return counts_of(decisions, pc.drop_null(decisions["unseen"]).to_pylist())


def _refuse_incomplete(record: RunRecord, corpus: Source, listed: Results, num_rows: int) -> None:
    gone = len(shard_ids_of_others(corpus.shards, listed.ledger))
    if gone:
        raise IncompleteError(
            f"{record.source} has changed since it was scanned: {number_of(gone, 'shard')} of the run "
            f"{'is' if gone == 1 else 'are'} gone; nothing is released; restore what is gone, or scan the source into "
            "a new run"
        )
    if not has_all_chosen(record, num_rows, corpus.shards, listed.ledger):
        raise RunError(f"{num_rows} of {record.num_chosen} chosen images are scanned; {THEN}")


def unanswered_in(url: str, record: RunRecord, policy: Policy) -> frozenset[str]:
    """Return the columns that are null in every scored image of a run. The run is opened only if the policy asks for
    probabilities."""
    if PROBABILITIES.isdisjoint(policy.asked):
        return unanswered_columns(record.engine)
    with open_run(url) as run:
        return run.unanswered(policy.asked)


def scope(record: RunRecord, plan: Plan) -> str:
    """Return which images of the source the decisions are of; all if `--limit` asked for more than there are."""
    num_rows = plan.counts.num_images + plan.counts.num_damaged_parts
    return scope_of(record, record.limit is not None and num_rows < record.limit, plan.damage)


def cautions(record: RunRecord, plan: Plan, policy: Policy, unanswered: Collection[str]) -> Iterator[str]:
    yield scope(record, plan)
    if plan.damage.caution:
        yield plan.damage.caution
    if record.screen is not None:
        yield record.screen.caution
    if record.made_up:
        yield record.made_up
    for rule, columns in policy.blind_rules(unanswered).items():
        asked = ", ".join(columns)
        yield f'  rule "{rule}" decided nothing: the {record.engine["name"]} engine answers nothing about {asked}'
    for chosen_rule, sql in zip(policy.rules, policy.sql, strict=True):
        if chosen_rule.then != "keep" and matches_level_0_too(sql):
            yield f'  rule "{chosen_rule.name}" {LEVEL_0_ADVICE}'
