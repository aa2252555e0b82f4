"""How right is a screen, by labels of pictures that it has not learnt from?

    python examples/papers/screened.py SCREEN PICTURES LABELS RUN [--category FIELD]

Zhao et al., "PrivacyAlert", tables 3 to 6: precision, recall and F1 of private and of public pictures, private from a
probability of 0.5 on, of all pictures and of each category; and how many private pictures the screen would leave out,
with the exact 95 % interval. SCREEN is of `privsieve screen fit`. LABELS are Parquet with sha256 and private, as
`privsieve labels import` writes them. The pictures are scanned into RUN by the screen, and by an engine that looks at
none.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import duckdb
import numpy as np

import privsieve
from reports.statistics.binary import cells, classwise
from reports.statistics.shares import clopper_pearson

JOINED = """
SELECT label.private = 1, prob_screen >= 0.5, status = 'screened', coalesce(category, '')
FROM rows JOIN read_parquet($labels) AS label USING (sha256) WHERE label.private IN (0, 1) AND prob_screen IS NOT NULL
"""


def judged(screen: str, pictures: str, labels: str, run: Path, category: str | None = None) -> list[str]:
    """Return a line for all pictures, one for each category, and one of what is missed."""
    privsieve.scan(pictures, run, engine="canned", screen=screen, category=category)
    with privsieve.open_run(run) as opened:
        rows = opened.rows(["sha256", "prob_screen", "status", "category"])
    found = duckdb.connect().register("rows", rows).execute(JOINED, {"labels": labels}).fetchall()
    if not found:
        raise privsieve.LabelsError(f"{labels}: no label is of a picture that the screen has seen")
    private, called, screened, categories = map(np.array, zip(*found, strict=True))
    names = sorted(set(categories.tolist())) if category else []
    lines = [_line("all", private, called)]
    lines += [_line(name or "no category", private[categories == name], called[categories == name]) for name in names]
    missed, num_private = int((private & screened).sum()), int(private.sum())
    low, high = clopper_pearson(missed, num_private) if num_private else (0, 1)
    return [*lines, f"left out: {missed} of {num_private} private pictures (95 % interval {low:.1%} to {high:.1%})"]


def _line(name: str, private: np.ndarray, called: np.ndarray) -> str:
    sides = classwise(cells(private, called).sum(axis=0).astype(np.float64))
    parts = [f"{name}: {len(private)} pictures, accuracy {sides.accuracy:.3f}"]
    for side, rates in (("private", sides.private), ("public", sides.public)):
        shown = ["–" if rate is None else f"{rate:.3f}" for rate in (rates.precision, rates.recall, rates.f1)]
        parts.append(f"{side} P {shown[0]}, R {shown[1]}, F1 {shown[2]}")
    return "; ".join(parts)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("screen", "pictures", "labels"):
        parser.add_argument(name, metavar=name.upper())
    parser.add_argument("run", metavar="RUN", type=Path)
    parser.add_argument("--category", help="JSON field, cls, or Parquet column of a picture's category")
    given = parser.parse_args(arguments)
    try:
        lines = judged(given.screen, given.pictures, given.labels, given.run, given.category)
    except (privsieve.PrivsieveError, duckdb.Error) as error:
        sys.exit(f"screened: {str(error).splitlines()[0]}")
    print(*lines, sep="\n")


if __name__ == "__main__":
    main()
