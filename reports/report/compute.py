"""Everything that a report says of a run, asked in as few passes over its rows as possible.

Rules of honesty: quarantined images have no level and are in no rate; an attribute that was not assessed is never
counted as absent; a rate comes with its 95 % interval; names that a corpus gives are data and are made printable.
What is reported: `reports.report.results`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ingest.errors import QueryError
from ingest.sample import printable
from reports.report import answers
from reports.report.corrected import corrected_rates
from reports.report.making import facts_of
from reports.report.results import Report
from reports.run.design import SourceSizes
from reports.run.figures import Pair, Rate, ReasonCount
from reports.run.warehouse import Run
from reports.words import shortened
from scoring.policies.level_zero import ADVICE, matches_level_0_too
from scoring.privacy import BY_LEVEL, MEANINGS, private_condition, private_sql
from scoring.runs.coverage import Coverage
from scoring.runs.rows import scope_of
from scoring.sql.expressions import boolean_expression, shown, value_expression
from scoring.table import IMAGE_SCHEMA, presence_only
from scoring.taxonomy import ATTRIBUTES, KEYS

__all__ = ["NOTHING_MORE", "Details", "Rate", "Report", "rates", "shortened", "summarise"]

MAX_GROUPS = 10_000
"""More groups than this make no report that anyone reads; `--by` was probably an identifier."""


@dataclass(frozen=True)
class Details:
    """Parts of a report in addition to its rates."""

    by_label: str | None = None
    """What a group is called in headings; None for `by`, shortened."""

    names_images: bool = True
    """Whether the most severe images are listed by key."""

    finds_copies: bool = False
    """Whether copies are looked for, which takes memory for each image."""

    sizes: SourceSizes = field(default_factory=SourceSizes)


NOTHING_MORE = Details()


def summarise(
    run: Run,
    by: str = "category",
    private: str | None = None,
    min_count: int = 1,
    top: int = 15,
    details: Details = NOTHING_MORE,
) -> Report:
    """Ask every question of `queries/`. QueryError where `by` or `private` is not an expression over the row.

    private: SQL condition; None for what the protocol of the run asks.
    """
    private = private_condition(run.record.engine) if private is None else private
    groups = _groups(run, by, private)
    kept = [group for group in groups if group["num_scored"] >= min_count]
    total = answers.total_of(run, groups, private_sql(private, run.record.engine))
    with run.patterns_kept():
        prevalence = {row["attribute"]: row for row in run.ask("prevalence")}
        cooccurrence = [Pair(**row) for row in run.ask("cooccurrence")]
        laws = answers.laws_of(run, total.num_scored)
        worst = answers.severest(run) if details.names_images else ()
    by_sql, asked = value_expression(by, IMAGE_SCHEMA), private_sql(private, run.record.engine)
    rates = tuple(answers.rate_of(group, run.damage) for group in kept)
    copies = None
    if details.finds_copies:
        copies, by_group = answers.copies_of(run, by_sql, asked)
        names = [group["group_name"] for group in kept]
        rates = tuple(_with_copies(rate, by_group.get(name)) for rate, name in zip(rates, names, strict=True))
        total = replace(total, num_distinct=copies.num_distinct, rate_distinct=copies.rate_distinct)
    corrected = corrected_rates(run, by, private)
    report = Report(
        run=printable(run.url),
        source=printable(run.record.source),
        scope=run.record.scope,
        is_whole=run.record.is_whole,
        made_up=run.record.made_up,
        screened=None if run.record.screen is None else run.record.screen.caution,
        engine=_engine(run.record.engine),
        assessed=_assessed(run.record.engine, prevalence),
        num_images=total.num_images,
        num_scored=total.num_scored,
        num_quarantined=total.num_quarantined,
        damage=run.damage,
        by=by,
        by_label=details.by_label or shortened(printable(by), 40),
        private=private,
        private_meaning=_private_meaning(private),
        private_caution=_private_caution(private, asked),
        min_count=min_count,
        top=top,
        levels=answers.levels_of(groups),
        prevalence=tuple(
            answers.prevalence_of(attribute, prevalence.get(attribute.key), presence_only(run.record.engine))
            for attribute in ATTRIBUTES
        ),
        total=total,
        rates=rates,
        num_groups=len(groups),
        quarantined=tuple(ReasonCount(printable(row["reason"]), row["num_images"]) for row in run.ask("quarantined")),
        unseen=answers.unseen_of(run),
        levels_by_group=answers.levels_by_group(kept),
        cooccurrence=tuple(sorted(cooccurrence, key=lambda pair: (KEYS.index(pair.attribute), KEYS.index(pair.other)))),
        rejections=tuple(ReasonCount(printable(row["message"]), row["num_images"]) for row in run.ask("rejections")),
        severest=worst,
        laws=laws,
        copies=copies,
        making=facts_of(run.record, scope_of(run.record, has_all=False, damage=run.damage)),
        audited=corrected,
        label_gaps=corrected.gaps,
        has_stale_audit=corrected.is_stale,
        audited_condition=corrected.other_condition,
    )
    report = report.covering(_taken_as_finished(report.num_images), run.record, details.sizes)
    names_of = {printable(group["group_name"]): group for group in kept}
    highest = [names_of[rate.group] for rate in report.highest]
    # Where the condition is unknown the image is not private here, so the plain one will do; it reads fewer columns.
    evidence = answers.evidence_of(run, by_sql, boolean_expression(private, IMAGE_SCHEMA), highest)
    return replace(report, coverage=None, evidence=evidence)


def rates(run: Run, by: str = "category", private: str | None = None) -> tuple[Rate, ...]:
    """Return every group, highest rate first, by one pass over the rows. QueryError as with `summarise`."""
    private = private_condition(run.record.engine) if private is None else private
    return tuple(answers.rate_of(group, run.damage) for group in _groups(run, by, private))


def _taken_as_finished(num_images: int) -> Coverage:
    """Until the source is listed, which `Report.covering` takes into account."""
    return Coverage(True, None, 0, num_images, None, None)


def _with_copies(rate: Rate, row: Mapping[str, Any] | None) -> Rate:
    return replace(rate, num_distinct=row["num_distinct"], rate_distinct=row["rate_distinct"]) if row else rate


def _groups(run: Run, by: str, private: str) -> list[dict[str, Any]]:
    by_sql = value_expression(by, IMAGE_SCHEMA)
    groups = run.ask_rates(by_sql, private_sql(private, run.record.engine), str(MAX_GROUPS + 1))
    if len(groups) > MAX_GROUPS:
        raise QueryError(
            f"{shown(by)} makes more than {MAX_GROUPS:,} groups, and a report holds no more; group by less"
        )
    return groups


def _private_meaning(private: str) -> str:
    if private == BY_LEVEL:
        return f"private: {MEANINGS[private]} (our choice; --private sets another condition)"
    if private in MEANINGS:
        return f"private: {MEANINGS[private]}"
    return f"private: {printable(private)} (set with --private)"


def _private_caution(private: str, sql: str) -> str | None:
    if private in MEANINGS or not matches_level_0_too(sql):
        return None
    return f"CAUTION: --private {shown(private)} {ADVICE}"


def _engine(engine: Mapping[str, Any]) -> str:
    parts = [str(engine[part]) for part in ("name", "model", "protocol") if engine.get(part)]
    return printable(" · ".join(parts)) or "unknown"


def _assessed(engine: Mapping[str, Any], prevalence: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    """Return what run.json says that the engine can judge; without it, what was judged at least once."""
    assessed = engine.get("assessed")
    if isinstance(assessed, list):
        return tuple(key for key in KEYS if key in assessed)
    return tuple(key for key in KEYS if prevalence.get(key, {}).get("share") is not None)
