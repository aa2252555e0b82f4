"""Turns rows of `queries/` into figures of a report. The rules of law for attributes come from `laws.yaml`."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from typing import Any

import yaml

from ingest.images.files.pieces import UNSEEN_KINDS
from ingest.sample import printable
from reports.run.figures import (
    Copies,
    EvidenceCount,
    GroupLevels,
    LawCount,
    LevelCount,
    Prevalence,
    Rate,
    SevereImage,
    UnseenContent,
)
from reports.run.warehouse import LEVEL_COUNTS, OF_SHARDS, Run
from reports.words import MAX_RATIONALE, boxes_in_words, whole_boxes
from scoring.privacy import private_condition
from scoring.runs.rows import Damage
from scoring.severity import WEIGHTS
from scoring.sql.expressions import boolean_expression, value_expression
from scoring.sql.names import literal
from scoring.table import IMAGE_SCHEMA, Col
from scoring.taxonomy import ATTRIBUTES, LEVELS, Attribute

Row = Mapping[str, Any]

NUM_SEVEREST = 20

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
    counts = {name: group[name] for name in (*_RATE, *_SCREENED)}
    rate = Rate(printable(group["group_name"]), **counts, **of_shards)
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
    counted = {
        name: sum(group[name] for group in groups)
        for name in ("num_scored", "num_private", "num_unknown", "num_quarantined", *_SCREENED)
    }
    judged = counted["num_scored"] - counted["num_unknown"]
    interval = run.ask("interval", num_private=str(counted["num_private"]), num_judged=str(judged))[0]
    rate = counted["num_private"] / judged if judged else None
    return rate_of({"group_name": "all", **counted, "privacy_rate": rate, **interval}, run.damage)


def levels_of(groups: Sequence[Row]) -> tuple[LevelCount, ...]:
    counts = {level: sum(group[count] for group in groups) for level, count in LEVEL_COUNTS.items()}
    num_images = sum(counts.values())
    return tuple(
        LevelCount(level, LEVELS[level], count, count / num_images if num_images else None)
        for level, count in counts.items()
    )


def levels_by_group(groups: Sequence[Row]) -> tuple[GroupLevels, ...]:
    levels = []
    for group in sorted(groups, key=lambda group: str(group["group_name"])):
        if group["num_scored"]:
            one, two, three, four, zero = (group[count] for count in LEVEL_COUNTS.values())
            levels.append(GroupLevels(printable(group["group_name"]), (one, two, three, four, zero)))
    return tuple(levels)


def prevalence_of(attribute: Attribute, row: Row | None, affirmed: Collection[str]) -> Prevalence:
    """Return the prevalence of an attribute.

    row: None without any scored image. affirmed: attributes that the engine never rules out.
    """
    counts = {name: row[name] if row else 0 for name in _COUNTS}
    share = row["share"] if row else None
    never_ruled_out = attribute.key in affirmed and counts["num_absent"] == 0 and counts["num_not_assessed"] > 0
    bound = bool(row and row["is_lower_bound"]) or never_ruled_out
    return Prevalence(attribute.key, attribute.title, attribute.level, **counts, share=share, is_lower_bound=bound)


def unseen_of(run: Run) -> UnseenContent:
    counts = ",\n    ".join(f"count(*) FILTER (list_contains(unseen, '{kind}')) AS {kind}" for kind in UNSEEN_KINDS)
    row = run.ask("unseen", counts=counts)[0]
    return UnseenContent(row["num_images"], {kind: row[kind] for kind in UNSEEN_KINDS})


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
        LawCount(
            rule.law,
            rule.article,
            rule.about,
            rule.attributes,
            row[f"shown_{number}"],
            row[f"shown_{number}"] / num_scored if num_scored else None,
            is_lower_bound=row[f"open_{number}"] > 0,
            together_with=rule.together_with,
        )
        for number, rule in enumerate(rules())
    )


def _has_answer(condition: str, keys: Sequence[str]) -> str:
    """Return SQL for whether an answer about one of these attributes meets the condition."""
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


def copies_of(run: Run, by_sql: str, private_sql: str) -> tuple[Copies, dict[str, Row]]:
    """Count the copies among all images; also return the row of each group by its name.

    Keeps a number for every image in memory.
    """
    rows = run.ask("copies", by=by_sql, private=private_sql)
    whole = next(row for row in rows if row["group_name"] is None)
    private = sum(row["num_private"] for row in rows if row["group_name"] is not None)
    num_images = whole["num_images"]
    rate = private / num_images if num_images else None
    copies = Copies(num_images, whole["num_distinct"], whole["num_in_largest"], rate, whole["rate_distinct"])
    return copies, {row["group_name"]: row for row in rows if row["group_name"] is not None}


@dataclass(frozen=True)
class LawRule:
    """A rule of law to which several attributes point."""

    law: str
    article: str
    about: str
    attributes: tuple[str, ...]
    """An image counts if it shows one of these, …"""

    together_with: tuple[str, ...] = ()
    """… and one of these, if there are any."""


@cache
def rules() -> tuple[LawRule, ...]:
    text = resources.files("reports").joinpath("report", "laws.yaml").read_text(encoding="utf-8")
    return tuple(
        LawRule(of["law"], of["article"], of["about"], tuple(of["attributes"]), tuple(of.get("together_with", ())))
        for of in yaml.safe_load(text)["rules"]
    )


def severest(run: Run) -> tuple[SevereImage, ...]:
    """Return the most severe images, highest `s_lex` first.

    Inside `run.rows_kept` it takes one pass over few columns.
    """
    weights = " ".join(f"WHEN {level} THEN {weight}" for level, weight in enumerate(WEIGHTS.tolist(), 1))
    tallied = run.ask("s_lex", weight=f"CASE attribute_level {weights} END")
    least = _least({row[Col.S_LEX]: row["num_images"] for row in tallied}, NUM_SEVEREST)
    if least is None:
        return ()
    ordered = sorted(ATTRIBUTES, key=lambda attribute: attribute.level)
    shown = ", ".join(f"CASE WHEN {item.key} = 1 THEN '{item.key}' END" for item in ordered)
    rows = run.ask("severest", attributes=f"[{shown}]", least=str(least), most=str(NUM_SEVEREST))
    return tuple(map(_severe_image, rows))


def _severe_image(row: Mapping[str, Any]) -> SevereImage:
    """Return the image of a row with the columns of `queries/severest.sql`."""
    return SevereImage(
        shard=printable(row[Col.SHARD]),
        index=row[Col.INDEX],
        key=printable(row[Col.KEY]),
        category=None if row[Col.CATEGORY] is None else printable(row[Col.CATEGORY]),
        level=row[Col.LEVEL],
        s_lex=row[Col.S_LEX],
        score=round(row[Col.SCORE], 4),
        attributes=tuple(key for key in row["attributes"] if key),
        rationale=printable(row[Col.RATIONALE] or "")[:MAX_RATIONALE],
        boxes=boxes_in_words(whole_boxes(row[Col.BOXES])),
    )


def _least(tallied: Mapping[int, int], most: int) -> int | None:
    """Return the lowest s_lex above 0 among the `most` highest images; None if nothing was found in any image."""
    left, least = most, None
    for s_lex in sorted(tallied, reverse=True):
        if s_lex == 0 or left <= 0:
            break
        least, left = s_lex, left - tallied[s_lex]
    return least
