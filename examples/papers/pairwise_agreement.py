"""How far do people agree, by class and category? Pairwise agreement of Zhao et al., "PrivacyAlert".

    privsieve labels consensus PEOPLE --method majority --out MAJORITY
    python examples/papers/pairwise_agreement.py PEOPLE MAJORITY

The mean over pictures of 1 - |a - b| over pairs of people: of all pictures, of those with each class by majority, and
of each category (column `class`). Votes count in the steps 1, 0.75, 0.25 and 0; without votes, private and public are
1 and 0. That the class is the one of the majority is our choice: the paper does not say. PEOPLE and MAJORITY are
Parquet files of labels; pictures are joined by sha256, else by key. The bands are the paper's.
"""

import argparse
import sys
from collections.abc import Sequence

import duckdb

AGREEMENT = """
WITH said AS (
    SELECT coalesce(sha256, key) AS picture, annotator, CASE vote WHEN 'clearly private' THEN 1 WHEN 'private' THEN 0.75
        WHEN 'public' THEN 0.25 WHEN 'clearly public' THEN 0 ELSE private END AS step
    FROM read_parquet($people)
), agreed AS (
    SELECT a.picture, avg(1 - abs(a.step - b.step)) AS agreement
    FROM said AS a JOIN said AS b ON a.picture = b.picture AND a.annotator < b.annotator
    WHERE a.step IS NOT NULL AND b.step IS NOT NULL GROUP BY a.picture
), majorities AS (
    SELECT coalesce(sha256, key) AS picture, class AS category,
        coalesce(vote, CASE private WHEN 1 THEN 'private' WHEN 0 THEN 'public' END) AS majority
    FROM read_parquet($majority)
)
SELECT category, majority, count(*) AS num_pictures, avg(agreement) AS mean
FROM agreed LEFT JOIN majorities USING (picture)
GROUP BY GROUPING SETS ((), (majority), (category), (category, majority))
HAVING (grouping(category) = 1 OR category IS NOT NULL) AND (grouping(majority) = 1 OR majority IS NOT NULL)
ORDER BY category NULLS FIRST, majority NULLS FIRST
"""


def groups(people: str, majority: str) -> list[tuple[str | None, str | None, int, float]]:
    """Return category, class, number of pictures and mean agreement of each group; None stands for all."""
    return duckdb.execute(AGREEMENT, {"people": people, "majority": majority}).fetchall()


def band(mean: float) -> str:
    """Return the paper's word for an agreement."""
    return "none" if mean < 0.25 else "poor" if mean <= 0.5 else "moderate" if mean <= 0.75 else "high"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("people", metavar="PEOPLE")
    parser.add_argument("majority", metavar="MAJORITY")
    given = parser.parse_args(arguments)
    try:
        found = groups(given.people, given.majority)
    except duckdb.Error as error:
        sys.exit(f"pairwise_agreement: {str(error).splitlines()[0]}")
    for category, majority, num_pictures, mean in found:
        print(f"{category or 'all'}, {majority or 'all'}: {mean:.3f} of {num_pictures} pictures, {band(mean)}")


if __name__ == "__main__":
    main()
