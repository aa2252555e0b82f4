"""How much the images of a run say of its source about each subject of an audit, if its shards were drawn.

What labels find is as alike within a shard as what the run answers, as far as is assumed here: the labels of an audit
are too few to show it shard by shard.
"""

from collections.abc import Mapping

from reports.audit.cells import audit_sql
from reports.audit.counting import NO_CATEGORY
from reports.run.drawn_shards import degrees_sql, effective_size_sql, fraction_of, residual_sql
from reports.run.warehouse import Run
from scoring.runs.audit_sample import SUBJECTS

Fractions = Mapping[tuple[str, str | None], float]
"""Subject and category, None for the whole run -> the number that represents the drawn share of the source
(`reports.run.drawn_shards.fraction_of`)."""


def drawn_fractions(run: Run, private: str) -> Fractions:
    """Empty if no shards were drawn. private: SQL condition of the audit."""
    draw = run.record.shard_draw
    if draw is None:
        return {}
    sql = audit_sql(run, private)
    counts = [f"count(*) FILTER ({one.answer} = 1) AS yes_{subject}" for subject, one in sql.subjects.items()]
    totals = [f"sum(yes_{one}) OVER of_group AS all_{one}" for one in SUBJECTS]
    residuals = [f"{residual_sql(f'yes_{one}', 'n', f'all_{one}', 'n_all')} AS e_{one}" for one in SUBJECTS]
    sums = [
        f"sum(yes_{one})::DOUBLE AS k_{one}, sum(pow(e_{one}, 2)) AS squares_{one}, "
        f"sum(pow(e_{one}, 4)) AS fourths_{one}"
        for one in SUBJECTS
    ]
    sizes = [
        f"{effective_size_sql(draw, f'_{one}')} AS size_{one}, {degrees_sql(f'_{one}')} AS degrees_{one}"
        for one in SUBJECTS
    ]
    rows = run.ask(
        "audit_shards",
        category=f"coalesce(category, '{NO_CATEGORY}')",
        scored=sql.scored,
        counts=", ".join(counts),
        again=", ".join(f"sum(yes_{one}) AS yes_{one}" for one in SUBJECTS),
        totals=", ".join(totals),
        residuals=", ".join(residuals),
        sums=", ".join(sums),
        sizes=", ".join(sizes),
    )
    return {
        (subject, None if row["is_whole"] else row["category"]): fraction_of(
            row["n"], row[f"size_{subject}"], row[f"degrees_{subject}"]
        )
        for row in rows
        for subject in SUBJECTS
    }
