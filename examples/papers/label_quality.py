"""How right are the labels of a data set, by what people say of a balanced sample?

    python examples/papers/label_quality.py LABELS DRAWN
    python examples/papers/label_quality.py LABELS DRAWN ANSWERS…

Samson et al., "Privacy-Aware Visual Language Models", label quality. The first command draws 25 private and 25 public
pictures into DRAWN (.csv) without their labels, in a random order. People label them with the data set's own definition
of private in view and without seeing the source (`privsieve review RUN --queue DRAWN --for classes --blind`; then
`labels export RUN/reviews` and `labels import csv`). The second command compares. Right is what at least three people,
and more than half of those who judged a picture, say of it. LABELS and ANSWERS are Parquet files as `privsieve labels
import` writes them; pictures are joined by sha256, else by key.
"""

import argparse
import csv
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np

import privsieve
from reports.statistics.intervals import Draws, Interval, of_share

MIN_ANSWERS = 3

DRAW = """
SELECT sha256, key, 'to label' AS annotator FROM (
    SELECT *, row_number() OVER (PARTITION BY private ORDER BY lot) AS place
    FROM (SELECT *, md5($seed || ' ' || coalesce(sha256, key)) AS lot FROM read_parquet($labels))
    WHERE private IS NOT NULL
) WHERE place <= $num_per_side ORDER BY lot
"""

ANSWERS = """
WITH said AS (
    SELECT label.private AS labelled, count(answer.private) AS num_answers,
        count(*) FILTER (answer.private = 1) AS num_private
    FROM read_csv($drawn, all_varchar = true) AS picture
    JOIN read_parquet($labels) AS label ON label.sha256 = picture.sha256 OR label.key = picture.key
    JOIN read_parquet($answers) AS answer ON answer.sha256 = picture.sha256 OR answer.key = picture.key
    GROUP BY picture.sha256, picture.key, label.private
)
SELECT labelled = 1 AS labelled, 2 * num_private > num_answers AS says_private FROM said
WHERE greatest(num_private, num_answers - num_private) >= $min_answers AND 2 * num_private <> num_answers
"""


@dataclass(frozen=True)
class Quality:
    """What people say of labels."""

    num_judged: int
    """Drawn pictures of which enough people say the same."""

    num_private_wrong: int
    """Judged pictures that are labelled private, and that people call public."""

    num_public_wrong: int
    interval: Interval | None
    """95 % interval of the share of right labels (Clopper and Pearson)."""

    fleiss: float | None
    """Fleiss' κ of the people; None if it is not defined."""

    @property
    def num_right(self) -> int:
        return self.num_judged - self.num_private_wrong - self.num_public_wrong


def draw(labels: str, drawn: Path, num_per_side: int = 25, seed: int = 0) -> int:
    """Write the drawn pictures, half of them private by their labels, and return their number."""
    given = {"labels": labels, "num_per_side": num_per_side, "seed": seed}
    rows = duckdb.execute(DRAW, given).fetchall()
    if (num_drawn := len(rows)) != 2 * num_per_side:
        raise privsieve.LabelsError(
            f"{labels}: {num_drawn} pictures could be drawn, not {num_per_side} of each side; give a smaller --n"
        )
    with drawn.open("w", newline="") as file:
        csv.writer(file).writerows([("sha256", "key", "annotator"), *rows])
    return num_drawn


def judge(labels: str, drawn: Path, answers: Sequence[str]) -> Quality:
    """Compare the labels of the drawn pictures with the answers of people."""
    given = {"labels": labels, "drawn": str(drawn), "answers": list(answers), "min_answers": MIN_ANSWERS}
    rows = duckdb.execute(ANSWERS, given).fetchall()
    is_right = np.array([labelled == says_private for labelled, says_private in rows], dtype=bool)
    fleiss = [row.fleiss for row in privsieve.agreement(*answers).rows if row.name == "private"]
    return Quality(
        len(rows),
        sum(labelled and not says_private for labelled, says_private in rows),
        sum(says_private and not labelled for labelled, says_private in rows),
        of_share(is_right, Draws(np.arange(len(rows)), 0, 0)) if rows else None,
        fleiss[0] if fleiss else None,
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("labels", metavar="LABELS")
    parser.add_argument("drawn", metavar="DRAWN", type=Path)
    parser.add_argument("answers", metavar="ANSWERS", nargs="*")
    parser.add_argument("--n", type=int, default=25, help="pictures of each side")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    if given.drawn.exists() != bool(given.answers):
        sys.exit(f"{given.drawn}: draw first without ANSWERS; then give ANSWERS")
    try:
        if not given.answers:
            print(f"{draw(given.labels, given.drawn, given.n, given.seed)} pictures drawn")
            return
        found = judge(given.labels, given.drawn, given.answers)
    except (privsieve.PrivsieveError, duckdb.Error) as error:
        sys.exit(f"label_quality: {str(error).splitlines()[0]}")
    ends = found.interval
    interval = "" if ends is None else f" (95 %: {ends.low:.1%} to {ends.high:.1%})"
    print(f"people confirm the label of {found.num_right} of {found.num_judged} pictures{interval}")
    print(f"wrong: {found.num_private_wrong} labelled private, {found.num_public_wrong} labelled public")
    print("Fleiss' kappa of the people:", "–" if found.fleiss is None else f"{found.fleiss:.3f}")


if __name__ == "__main__":
    main()
