"""Computes everything that a report says of a run, in as few passes over its rows as possible.

Rules of honesty: quarantined images have no level and are in no rate; an attribute that was not assessed is never
counted as absent; a rate comes with its 95 % interval; names that a corpus gives are data and are made printable.
What is reported: `reports.report.results`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ingest import __version__
from ingest.errors import QueryError
from ingest.sample import printable
from reports.report import answers
from reports.report.results import Report, corrected_rates
from reports.run.design import SourceSizes
from reports.run.figures import Fact, Pair, Rate, ReasonCount
from reports.run.warehouse import Run
from reports.words import shortened
from scoring.privacy import BY_LEVEL, LEVEL_0_ADVICE, MEANINGS, matches_level_0_too, private_condition, private_sql
from scoring.runs.coverage import Coverage
from scoring.runs.record import RunRecord
from scoring.runs.rows import scope_of
from scoring.sql.expressions import boolean_expression, shown, value_expression
from scoring.table import IMAGE_SCHEMA, presence_only
from scoring.taxonomy import ATTRIBUTES, KEYS

MAX_GROUPS = 10_000
"""More groups make a report too long to read; `--by` was probably an identifier."""


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
    """Make a report of a run by all questions of `queries/`.

    private: SQL condition; None for that of the run's protocol.
    QueryError if `by` or `private` is not an expression over the row.
    """
    private = private_condition(run.record.engine) if private is None else private
    with run.rows_kept(f"{by} {private_sql(private, run.record.engine)}"):
        return _summarised(run, by, private, min_count, top, details)


def _summarised(run: Run, by: str, private: str, min_count: int, top: int, details: Details) -> Report:
    groups = _groups(run, by, private)
    kept = [group for group in groups if group["num_scored"] >= min_count]
    asked = private_sql(private, run.record.engine)
    total = answers.total_of(run, groups, asked)
    prevalence = {row["attribute"]: row for row in run.ask("prevalence")}
    cooccurrence = [Pair(**row) for row in run.ask("cooccurrence")]
    laws = answers.laws_of(run, total.num_scored)
    worst = answers.severest(run) if details.names_images else ()
    by_sql = value_expression(by, IMAGE_SCHEMA)
    rates = tuple(answers.rate_of(group, run.damage) for group in kept)
    copies = None
    if details.finds_copies:
        copies, by_group = answers.copies_of(run, by_sql, asked)
        names = [group["group_name"] for group in kept]
        rates = tuple(
            replace(rate, num_distinct=row["num_distinct"], rate_distinct=row["rate_distinct"]) if row else rate
            for rate, row in zip(rates, map(by_group.get, names), strict=True)
        )
        total = replace(total, num_distinct=copies.num_distinct, rate_distinct=copies.rate_distinct)
    report = Report(
        run=printable(run.url),
        source=printable(run.record.source),
        scope=run.record.scope,
        is_whole=run.record.is_whole,
        made_up=run.record.made_up,
        screened=None if run.record.screen is None else run.record.screen.caution,
        engine=_engine(run.record.engine),
        assessed=tuple(key for key in KEYS if key in run.record.engine["assessed"]),
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
        audited=corrected_rates(run, by, private),
    )
    # The source is not listed yet: this is the coverage of a finished run.
    finished = Coverage(True, None, 0, report.num_images, None, None)
    report = report.covering(finished, run.record, details.sizes)
    names_of = {printable(group["group_name"]): group for group in kept}
    highest = [names_of[rate.group] for rate in report.highest]
    # An image of unknown privacy is not private here, so the plain condition is enough; it reads fewer columns.
    evidence = answers.evidence_of(run, by_sql, boolean_expression(private, IMAGE_SCHEMA), highest)
    return replace(report, coverage=None, evidence=evidence)


def rates(run: Run, by: str = "category", private: str | None = None) -> tuple[Rate, ...]:
    """Return the rate of every group, highest first, in one pass over the rows. QueryError as with `summarise`."""
    private = private_condition(run.record.engine) if private is None else private
    return tuple(answers.rate_of(group, run.damage) for group in _groups(run, by, private))


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
    return f"CAUTION: --private {shown(private)} {LEVEL_0_ADVICE}"


def _engine(engine: Mapping[str, Any]) -> str:
    return printable(f"{engine['name']} · {engine['protocol']}")


_SHOWN_OF_HASH = 16


def facts_of(record: RunRecord, scope: str) -> tuple[Fact, ...]:
    """Return one line per setting that is set, in the order in which a reader asks for them.

    scope: which images of the source the run is of.
    """
    engine = record.engine
    lines = [
        ("Report made with", f"privsieve {__version__}"),
        ("Scanned with", f"privsieve {record.privsieve}, code {_short(record.code)}"),
        ("Source", f"{record.source} ({record.source_format})"),
        ("Categories from", _categories(record)),
        ("Images", scope),
        ("Engine", engine["name"]),
        ("Questions and settings", engine["protocol"]),
        ("Weights (SHA-256)", _listed({name: _short(digest) for name, digest in engine["weights"].items()})),
        ("Accuracy of the adapter", _adapter(engine["weights"])),
        ("Packages", _listed(engine["versions"])),
        ("Pictures", _pictures(record)),
        ("Captions", "the engine reads them" if engine["uses_caption"] else ""),
        ("Taxonomy", record.taxonomy),
        ("Hash of all settings", _short(record.settings_hash())),
    ]
    return tuple(Fact(name, printable(value)) for name, value in lines if value)


def _categories(record: RunRecord) -> str:
    if record.labels:
        return f"a list of labels, SHA-256 {_short(record.labels)}"
    return record.category or ("folders" if record.source_format == "tree" else "the source's own field")


def _pictures(record: RunRecord) -> str:
    lines = [f"at most {record.max_pixels:,} pixels and {record.max_frames:,} frames of a file"]
    if max_side_px := record.engine["max_side_px"]:
        lines.append(f"longer side at most {max_side_px} pixels")
    return "; ".join(lines)


def _adapter(weights: Mapping[str, str]) -> str:
    """Say that a run records no figure of its adapter's card; empty without an adapter."""
    if not any(name.startswith("adapter ") for name in weights):
        return ""
    return "not recorded in a run; what tune measured is in the adapter's privsieve.json, of other pictures"


def _listed(of: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in of.items())


def _short(digest: str) -> str:
    return f"{digest[:_SHOWN_OF_HASH]}…" if len(digest) > _SHOWN_OF_HASH else digest
