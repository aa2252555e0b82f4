"""Computes everything that a report says of a run, in as few passes over its rows as possible.

Rules of honesty: quarantined images have no level and are in no rate; an attribute that was not assessed is never
counted as absent; a rate comes with its 95 % interval; names that a corpus gives are data and are made printable.
What is reported: `reports.report.results`.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ingest import __version__
from ingest.errors import QueryError
from ingest.sample import printable
from reports.report import answers
from reports.report.results import Report, read_audit
from reports.run.design import RunDesign, SourceSizes, design_of, in_source, overall
from reports.run.figures import Edge, Rate, Scores
from reports.run.warehouse import Run
from scoring.privacy import LEVEL_0_ADVICE, MEANINGS, matches_level_0_too, private_condition, private_sql, score_column
from scoring.runs.coverage import Coverage
from scoring.runs.record import READABLE, WHOLE, RunRecord
from scoring.runs.rows import scope_of
from scoring.severity import BANDS
from scoring.sql.expressions import boolean_expression, shown, value_expression
from scoring.table import IMAGE_SCHEMA, Col, presence_only
from scoring.taxonomy import ATTRIBUTES, KEYS

MAX_GROUPS = 10_000
"""More groups make a report too long to read; `--by` was probably an identifier."""


EVERY_IMAGE = SourceSizes()


def cautions_of(run: Run, coverage: Coverage) -> tuple[str, ...]:
    """Return why figures do not describe the whole source, or any picture at all; one line each, mostly none."""
    record = run.record
    scope = scope_of(record, coverage.has_all, run.damage)
    part = None if scope in (WHOLE, READABLE) else scope
    screened = None if record.screen is None else record.screen.caution
    return tuple(filter(None, (part, run.damage.caution, coverage.warning, record.made_up, screened)))


def summarise(
    run: Run,
    by: str = "category",
    private: str | None = None,
    top: int = 15,
    sizes: SourceSizes = EVERY_IMAGE,
    coverage: Coverage | None = None,
) -> Report:
    """Make a report of a run by all questions of `queries/`.

    private: SQL condition; None for that of the run's protocol. sizes: of the source of a sample, if known.
    coverage: None for that of a finished run. QueryError if `by` or `private` is not an expression over the row.
    """
    private = private_condition(run.record.engine) if private is None else private
    coverage = coverage or Coverage(True, None, 0, run.num_images(), None, None)
    with run.rows_kept(f"{by} {private_sql(private, run.record.engine)}"):
        return _summarised(run, by, private, top, sizes, coverage)


def _summarised(run: Run, by: str, private: str, top: int, sizes: SourceSizes, coverage: Coverage) -> Report:
    record, engine = run.record, run.record.engine
    groups = _groups(run, by, private)
    asked, by_sql = private_sql(private, engine), value_expression(by, IMAGE_SCHEMA)
    of_private = list[str]()
    if private not in MEANINGS and matches_level_0_too(asked):
        of_private.append(f"CAUTION: --private {shown(private)} {LEVEL_0_ADVICE}")
    total = answers.total_of(run, groups, asked)
    kept = [group for group in groups if group["num_scored"]]
    names = {printable(group["group_name"]): group for group in kept}
    rates = tuple(answers.rate_of(group, run.damage) for group in kept)
    design = design_of(record, coverage, sizes, run.damage)
    audited, corrected = read_audit(run, by, private, design.kind)
    if not sizes.by_category and by == "category":
        sizes = replace(sizes, by_category=audited.category_sizes)
    rates = in_source(rates, design, sizes, total.num_images)
    prevalence = {row["attribute"]: row for row in run.ask("prevalence")}
    report = Report(
        run=printable(run.url),
        source=printable(record.source),
        scope=design.scope,
        cautions=(*cautions_of(run, coverage), *of_private),
        made_up=record.made_up,
        assessed=tuple(key for key in KEYS if key in engine["assessed"]),
        models={printable(name): sha256 for name, sha256 in engine["weights"].items()},
        making=facts_of(record, design.scope),
        by=by,
        private=private,
        top=top,
        design=design,
        coverage=coverage,
        total=total,
        overall=overall(total, rates, by, design, sizes),
        rates=rates,
        num_groups=len(groups),
        scores=_scores(run, by_sql, by, design, sizes),
        prevalence=tuple(
            answers.prevalence_of(attribute, prevalence.get(attribute.key), presence_only(engine))
            for attribute in ATTRIBUTES
        ),
        laws=answers.laws_of(run, total.num_scored),
        left_out=answers.left_out(run),
        severest=answers.severest(run),
        evidence=(),
        corrected=corrected,
        audited=audited,
    )
    # An image of unknown privacy is not private here, so the plain condition is enough; it reads fewer columns.
    plain = boolean_expression(private, IMAGE_SCHEMA)
    evidence = answers.evidence_of(run, by_sql, plain, [names[rate.group] for rate in report.highest])
    return replace(report, evidence=evidence)


def _scores(run: Run, by_sql: str, by: str, design: RunDesign, sizes: SourceSizes) -> Scores | None:
    """Return the distribution of the model's own score; one more pass over the rows for each edge."""
    column = score_column(run.record.engine)
    if column is None:
        return None

    def edge(level: int, score: float) -> Edge:
        condition = f"{column} >= {score}"
        groups = run.ask_rates(by_sql, condition, "ALL")
        total = answers.total_of(run, groups, condition)
        rates = tuple(answers.rate_of(group, run.damage) for group in groups)
        return Edge(level, score, total.num_private, overall(total, rates, by, design, sizes))

    bands = enumerate(BANDS, 1) if column == Col.HOLISTIC_SCORE else ()
    edges = tuple(edge(level, score) for level, (score, _) in bands if score > 0)
    return answers.scores_of(run, column, design, edges)


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


def facts_of(record: RunRecord, scope: str) -> dict[str, str]:
    """Return name -> value of each setting that is set, in the order in which a reader asks for them.

    scope: which images of the source the run is of.
    """
    engine = record.engine
    facts = {
        "Report made with": f"privsieve {__version__}",
        "Scanned with": f"privsieve {record.privsieve}, code {record.code}",
        "Source": f"{record.source} ({record.source_format})",
        "Categories from": _categories(record),
        "Images": scope,
        "Engine": engine["name"],
        "Questions and settings": engine["protocol"],
        "Accuracy of the adapter": _adapter(engine["weights"]),
        "Packages": ", ".join(f"{name} {version}" for name, version in engine["versions"].items()),
        "Pictures": _pictures(record),
        "Captions": "the engine reads them" if engine["uses_caption"] else "",
        "Taxonomy": record.taxonomy,
        "Hash of all settings": record.settings_hash(),
    }
    return {name: printable(value) for name, value in facts.items() if value}


def _categories(record: RunRecord) -> str:
    if record.labels:
        return f"a list of labels, SHA-256 {record.labels}"
    return record.category or ("folders" if record.source_format == "tree" else "the source's own field")


def _pictures(record: RunRecord) -> str:
    lines = [f"at most {record.max_pixels:,} pixels and {record.max_frames:,} frames of a file"]
    if max_side_px := record.engine["max_side_px"]:
        lines.append(f"longer side at most {max_side_px} pixels")
    return "; ".join(lines)


def _adapter(weights: Mapping[str, str]) -> str:
    if not any(name.startswith("adapter ") for name in weights):
        return ""
    return "not recorded in a run; what tune measured is in the adapter's privsieve.json, of other pictures"
