"""What to know before the counts: of which images they are, and which rules may not do what was meant."""

from collections.abc import Iterator

from ingest.errors import PolicyError, number_of
from jobs.filter.plan import Plan
from jobs.filter.record import GroupCounts
from scoring.policies.level_zero import ADVICE, matches_level_0_too
from scoring.policies.policy import Policy
from scoring.runs.record import RunRecord
from scoring.runs.rows import scope_of


def refuse_blind(policy: Policy, record: RunRecord) -> None:
    """Raise PolicyError if every rule looks only at what the run's engine does not judge."""
    if policy.is_blind(record.engine["assessed"]):
        raise PolicyError(
            f"{policy.file}: this policy can decide nothing about this run: no rule looks at anything that the "
            f"{record.engine['name']} engine judges (protocol {record.engine['protocol']})"
        )


def scope(record: RunRecord, plan: Plan) -> str:
    """Return which images of the source the decisions are of; all if `--limit` asked for more than there are."""
    num_rows = plan.counts.num_images + plan.counts.num_damaged_parts
    return scope_of(record, record.limit is not None and num_rows < record.limit, plan.damage)


def cautions(record: RunRecord, plan: Plan, policy: Policy) -> Iterator[str]:
    yield scope(record, plan)
    if plan.damage.caution:
        yield plan.damage.caution
    if record.screen is not None:
        yield record.screen.caution
    if record.made_up:
        yield record.made_up
    for rule, columns in policy.inapplicable_rules(record.engine["assessed"]).items():
        yield f'  rule "{rule}" decided nothing: the {record.engine["name"]} engine does not judge {", ".join(columns)}'
    for chosen_rule, sql in zip(policy.rules, policy.sql, strict=True):
        if chosen_rule.then != "keep" and matches_level_0_too(sql):
            yield f'  rule "{chosen_rule.name}" {ADVICE}'
    if plan.num_older:
        rows = f"{number_of(plan.num_older, 'row')} {'was' if plan.num_older == 1 else 'were'}"
        yield (f"  {rows} scanned by an older version that did not record unseen content; scan again to have it judged")


def notes_of_groups(groups: GroupCounts | None) -> Iterator[str]:
    """Yield a line about groups of near duplicates."""
    if groups is not None:
        pictures = number_of(groups.num_overruled, "picture")
        yield (
            f"  {number_of(groups.num_pictures, 'picture')} in {number_of(groups.num_groups, 'group')} of near "
            f"duplicates ({groups.by}): {pictures} with a stricter decision than of their own"
        )
