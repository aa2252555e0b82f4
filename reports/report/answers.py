"""Turns rows of `queries/` into figures of a report. The rules of law for attributes come from `laws.yaml`."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Any

import yaml

from ingest.images.files.pieces import UNSEEN_KINDS
from ingest.sample import printable
from reports.run.design import RunDesign
from reports.run.figures import Edge, EvidenceCount, LawCount, LeftOut, Prevalence, Rate, Scores, SevereImage
from reports.run.warehouse import LEVEL_COUNTS, OF_SHARDS, Run
from reports.statistics.shares import CONFIDENCE, z_of
from reports.words import MAX_RATIONALE, boxes_in_words, whole_boxes
from scoring.privacy import private_condition, severity_sql
from scoring.runs.rows import Damage
from scoring.sql.expressions import boolean_expression, value_expression
from scoring.sql.names import literal
from scoring.table import IMAGE_SCHEMA, Col
from scoring.taxonomy import ATTRIBUTES, Attribute

Row = Mapping[str, Any]

NUM_SEVEREST = 20

NUM_LOOKED_AT = 200
"""How many of the most severe images are looked at for copies of each other."""

NUM_BINS = 20
"""Bars of a histogram of scores."""

MAX_KINDS = 5
"""Number of kinds of evidence that are listed per group."""

_COUNTS = ("num_present", "num_ambiguous", "num_absent", "num_not_assessed")
_RATE = ("num_scored", "num_private", "num_unknown", "privacy_rate", "rate_low", "rate_high", "num_quarantined")
_SCREENED = ("num_screened", "num_guarded", "num_missed")

LAWS = {"gdpr": "GDPR", "hipaa": "HIPAA", "eu_ai_act": "EU AI Act", "ccpa": "CCPA/CPRA"}
"""Field of `scoring.taxonomy.Laws` -> name of the law."""


def rate_of(group: Row, damage: Damage) -> Rate:
    """Return the rate in a row of `rates.sql`, with the bounds that quarantined and unknown images leave open."""
    of_shards: Mapping[str, Any] = {name: group.get(name) for name in OF_SHARDS}
    counts: Mapping[str, Any] = {name: group[name] for name in (*_RATE, *_SCREENED)}
    levels = tuple(group[name] for name in LEVEL_COUNTS.values())
    rate = Rate(printable(group["group_name"]), **counts, **of_shards, nums_by_level=levels)
    if damage.num_parts or not rate.num_images:
        return rate
    return replace(
        rate,
        share_if_none_private=rate.num_private / rate.num_images,
        share_if_all_private=(rate.num_private + rate.num_left_out) / rate.num_images,
    )


def total_of(run: Run, groups: Sequence[Row], private: str) -> Rate:
    """Return the rate of all groups together. private: checked SQL."""
    if run.record.shard_draw is not None and groups:  # how shards differ as a whole does not follow from the groups
        (whole,) = run.ask_rates("'all'", private, "ALL")
        return rate_of(whole, run.damage)
    summed = ("num_scored", "num_private", "num_unknown", "num_quarantined", *LEVEL_COUNTS.values(), *_SCREENED)
    counted = {name: sum(group[name] for group in groups) for name in summed}
    judged = counted["num_scored"] - counted["num_unknown"]
    interval = run.ask("interval", num_private=str(counted["num_private"]), num_judged=str(judged))[0]
    rate = counted["num_private"] / judged if judged else None
    return rate_of({"group_name": "all", **counted, "privacy_rate": rate, **interval}, run.damage)


def prevalence_of(attribute: Attribute, row: Row | None, affirmed: Collection[str]) -> Prevalence:
    """Return the prevalence of an attribute.

    row: None without any scored image. affirmed: attributes that the engine never rules out.
    """
    counts = {name: row[name] if row else 0 for name in _COUNTS}
    share = row["share"] if row else None
    never_ruled_out = attribute.key in affirmed and counts["num_absent"] == 0 and counts["num_not_assessed"] > 0
    bound = bool(row and row["is_lower_bound"]) or never_ruled_out
    return Prevalence(attribute.key, attribute.title, attribute.level, **counts, share=share, is_lower_bound=bound)


def scores_of(run: Run, column: str, design: RunDesign, edges: tuple[Edge, ...]) -> Scores:
    """Return mean and histogram of the column, 0–1. The mean has an interval if the images are a plain sample."""
    bins = ", ".join(f"count(*) FILTER (bin = {number})" for number in range(NUM_BINS))
    row = run.ask("scores", column=column, num_bins=str(NUM_BINS), bins=bins)[0]
    num_images, mean, half = row["num_images"], row["mean"], None
    if design.kind == "random" and row["deviation"] is not None:
        drawn = run.num_images() / design.num_in_source if design.num_in_source else 0.0
        half = z_of(CONFIDENCE) * row["deviation"] * (max(0.0, 1 - drawn) / num_images) ** 0.5
    low, high = (None, None) if half is None else (max(0.0, mean - half), min(1.0, mean + half))
    return Scores(column, num_images, mean, low, high, tuple(row["histogram"]), edges)


def left_out(run: Run) -> LeftOut:
    kinds = ",\n    ".join(f"count(*) FILTER (list_contains(unseen, '{kind}')) AS {kind}" for kind in UNSEEN_KINDS)
    unseen = run.ask("unseen", counts=kinds)[0]
    return LeftOut(
        quarantined={printable(row["reason"]): row["num_images"] for row in run.ask("quarantined")},
        rejections={printable(row["message"]): row["num_images"] for row in run.ask("rejections")},
        damaged_parts=dict(run.damage.parts),
        unseen={kind: unseen[kind] for kind in UNSEEN_KINDS},
        num_unseen=unseen["num_images"],
    )


def laws_of(run: Run, num_scored: int) -> tuple[LawCount, ...]:
    """Count the images that each rule of law concerns. Inside `run.rows_kept` it takes no pass over the rows."""
    counts = []
    for number, rule in enumerate(rules()):
        sets = [keys for keys in (rule.attributes, rule.together_with) if keys]
        shown = " AND ".join(_has_answer("answer.value = 1", keys) for keys in sets)
        possible = " AND ".join(_has_answer("(answer.value = 1 OR answer.value IS NULL)", keys) for keys in sets)
        counts.append(f"coalesce(sum(num_images) FILTER ({shown}), 0)::BIGINT AS shown_{number}")
        counts.append(f"coalesce(sum(num_images) FILTER ({possible} AND NOT ({shown})), 0)::BIGINT AS open_{number}")
    row = run.ask("laws", counts=",\n    ".join(counts))[0]
    return tuple(
        replace(
            rule,
            num_images=row[f"shown_{number}"],
            share=row[f"shown_{number}"] / num_scored if num_scored else None,
            is_lower_bound=row[f"open_{number}"] > 0,
        )
        for number, rule in enumerate(rules())
    )


def _has_answer(condition: str, keys: Sequence[str]) -> str:
    of_keys = f"answer.attribute IN ({', '.join(map(literal, keys))})"
    return f"len(list_filter(answers, lambda answer: {condition} AND {of_keys})) > 0"


def evidence_of(run: Run, by_sql: str, private_sql: str, groups: Sequence[Row]) -> tuple[EvidenceCount, ...]:
    """Return the evidence of these groups, in their order."""
    private = {group["group_name"]: group["num_private"] for group in groups if group["num_private"]}
    if not private:
        return ()
    names = ", ".join(map(literal, private))
    asked = {"by": by_sql, "private": private_sql, "groups": names, "most": str(MAX_KINDS)}
    order = {name: index for index, name in enumerate(private)}
    rows = sorted(run.ask("evidence", **asked), key=lambda row: order[row["group_name"]])
    return tuple(
        EvidenceCount(
            printable(row["group_name"]), printable(row["kind"])[:100], row["num_images"], private[row["group_name"]]
        )
        for row in rows
    )


def explanations_of(run: Run, groups: Sequence[str], num: int, by: str, private: str | None) -> dict[str, Counter[str]]:
    """Return up to `num` random private images of each group as the kinds of evidence of each, such as "face; date",
    with how many have the same.

    Kinds only, as with `evidence_of`. Images without a rationale are left out, and groups without such an image.
    groups: names of groups. by, private: as in `OpenRun.rates`.
    """
    condition = private_condition(run.record.engine) if private is None else private
    rows = run.ask(
        "explanations",
        by=value_expression(by, IMAGE_SCHEMA),
        private=boolean_expression(condition, IMAGE_SCHEMA),
        groups=", ".join(map(literal, groups)),
        most=str(num),
    )
    explanations = dict[str, Counter[str]]()
    for row in rows:
        kinds = [kind for kind in row["kinds"].split("; ") if kind not in ("", "private")]
        text = "; ".join(sorted({printable(kind)[:100] for kind in kinds})) or "no known kind"
        explanations.setdefault(row["group_name"], Counter())[text] += 1
    return explanations


@cache
def rules() -> tuple[LawCount, ...]:
    """Return the rules of law to which several attributes point, without counts."""
    text = resources.files("reports").joinpath("report", "laws.yaml").read_text(encoding="utf-8")
    return tuple(
        LawCount(
            rule["law"], rule["article"], rule["about"], tuple(rule["attributes"]), tuple(rule.get("together_with", ()))
        )
        for rule in yaml.safe_load(text)["rules"]
    )


def severest(run: Run) -> tuple[SevereImage, ...]:
    """Return the most severe images, copies of one picture once."""
    ordered = sorted(ATTRIBUTES, key=lambda attribute: attribute.level)
    shown = ", ".join(f"CASE WHEN {item.key} = 1 THEN '{item.key}' END" for item in ordered)
    asked = {"severity": severity_sql(run.record.engine), "looked_at": str(NUM_LOOKED_AT)}
    least = run.ask("least_severity", **asked)[0]["least"]
    if least is None:
        return ()
    # As SQL a fraction would be a decimal number, which is no float of 32 bits.
    asked |= {"least": f"{least!r}::DOUBLE" if isinstance(least, float) else str(least), "attributes": f"[{shown}]"}
    return tuple(map(_severe_image, run.ask("severest", **asked, most=str(NUM_SEVEREST))))


def _severe_image(row: Row) -> SevereImage:
    """Return the image of a row with the columns of `queries/severest.sql`."""
    return SevereImage(
        shard=printable(row[Col.SHARD]),
        index=row[Col.INDEX],
        key=printable(row[Col.KEY]),
        sha256=row[Col.SHA256],
        category=None if row[Col.CATEGORY] is None else printable(row[Col.CATEGORY]),
        level=row["severity_level"],
        score=round(row["shown_score"], 4),
        attributes=tuple(key for key in row["attributes"] if key),
        rationale=printable(row[Col.RATIONALE] or "")[:MAX_RATIONALE],
        boxes=boxes_in_words(whole_boxes(row[Col.BOXES])),
    )
