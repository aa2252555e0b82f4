"""Draw pictures of VISPR for a benchmark of severity, as CPRT's is drawn.

    privsieve labels import vispr VISPR --out vispr.parquet
    python examples/papers/vispr_levels.py vispr.parquet candidates.parquet
    python examples/papers/vispr_levels.py vispr.parquet drawn.parquet --levels consensus.parquet --tuning 2048

Candidates are the test pictures (for evaluation) and the validation pictures (for tuning) with labels of level 1 or
2, and safe ones for levels 3 and 4. The level of a safe picture is known only once it is annotated: annotate the
candidates by two runs and `privsieve labels consensus`, and give the result as `--levels`. Then 2,860, 1,025, 1,363
and 1,488 evaluation pictures of levels 1 to 4 are drawn, candidates of level 2 without a face first; a picture of
level 0 counts as level 4, since the paper has no level 0. `--tuning N` draws N tuning pictures at random: the paper
has 3,630, of which its 80 steps see 2,048; it does not say which.

Source: Tsaprazlis et al., "Rethinking Visual Privacy", section 4.1.
"""

import argparse
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from ingest.errors import PrivsieveError
from scoring.labels.table import read_labels
from scoring.taxonomy import ATTRIBUTES

PAPER_COUNTS = {1: 2860, 2: 1025, 3: 1363, 4: 1488}
"""Level -> evaluation pictures of the paper."""


def level_sql() -> str:
    """The first level of which an attribute is 1, else 0."""
    largest = {n: ", ".join(a.key for a in ATTRIBUTES if a.level == n) for n in PAPER_COUNTS}
    return f"CASE {' '.join(f'WHEN greatest({keys}) = 1 THEN {n}' for n, keys in largest.items())} ELSE 0 END"


def candidates(vispr: pa.Table) -> pa.Table:
    """Return sha256, key, annotator, split, licence and class of the candidates. vispr: labels as imported."""
    return duckdb.sql(
        f"""
        SELECT sha256, key, 'vispr candidates' AS annotator, split, licence, CASE
            WHEN private = 0 THEN 'level 3 or 4' WHEN level = 1 THEN 'level 1'
            WHEN biometrics > 0 THEN 'level 2' ELSE 'level 2 without face' END AS class
        FROM (SELECT *, {level_sql()} AS level FROM vispr)
        WHERE split IN ('test', 'validation') AND (coalesce(private = 0, false) OR level IN (1, 2))
        ORDER BY coalesce(sha256, key)
        """
    ).to_arrow_table()


def drawn(found: pa.Table, annotated: pa.Table | None, num_tuning: int | None, seed: int) -> pa.Table:
    """Draw from the candidates. annotated: labels, one a picture, that give the levels; None takes every evaluation
    picture."""
    lot = f"md5(coalesce(found.sha256, found.key) || '{seed}')"
    evaluation = "SELECT * FROM found WHERE split = 'test'"
    if annotated is not None:
        wanted = " ".join(f"WHEN {level} THEN {num}" for level, num in PAPER_COUNTS.items())
        evaluation = f"""
            SELECT found.* FROM found JOIN (
                SELECT sha256, key, CASE level WHEN 0 THEN 4 ELSE level END AS level
                FROM (SELECT *, {level_sql()} AS level FROM annotated)
            ) AS known ON coalesce(found.sha256 = known.sha256, found.key = known.key)
            WHERE split = 'test'
            QUALIFY row_number() OVER (
                PARTITION BY level ORDER BY class <> 'level 2 without face', {lot}
            ) <= CASE level {wanted} END
        """
    tuning = f"SELECT * FROM found WHERE split = 'validation' ORDER BY {lot} LIMIT {num_tuning or 2**62}"
    return duckdb.sql(f"({evaluation}) UNION ALL ({tuning})").to_arrow_table()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("vispr")
    parser.add_argument("out", type=Path)
    parser.add_argument("--levels", help="labels of a consensus, one a picture")
    parser.add_argument("--tuning", type=int, help="draw this many tuning pictures")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    if asked.out.exists():
        sys.exit(f"{asked.out} already exists; name another file, or remove it")
    try:
        annotated = None if asked.levels is None else read_labels(asked.levels)
        chosen = drawn(candidates(read_labels(asked.vispr)), annotated, asked.tuning, asked.seed)
    except PrivsieveError as error:
        sys.exit(str(error))
    pq.write_table(chosen, asked.out)
    for row in chosen.group_by(["split", "class"]).aggregate([([], "count_all")]).sort_by("class").to_pylist():
        print(f"{row['split']}: {row['class']} {row['count_all']:,}")
    num_evaluation = chosen["split"].to_pylist().count("test")
    if annotated is not None and num_evaluation < sum(PAPER_COUNTS.values()):
        print(f"{num_evaluation:,} evaluation pictures; the paper has {sum(PAPER_COUNTS.values()):,}")


if __name__ == "__main__":
    main()
