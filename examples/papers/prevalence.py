"""How much more often does a model find each attribute than people do? Over- and under-prediction, as CPRT shows it.

    python examples/papers/prevalence.py PEOPLE RUN-OR-LABELS…

PEOPLE: a labels file, or RUN/reviews. An attribute is there if more than half of the people who judged a picture say
so; 0.5 and ties count as no. Each line has the pictures that the annotator and people judged, the shares in which
either finds it, and the difference in points with its 95 % interval; at the end the mean of each level.

Source: Tsaprazlis et al., "Rethinking Visual Privacy". The paper does not print its unit; here it is a difference of
shares of the same pictures. Published: race or ethnicity about 25.5 % below people, levels 1, 3 and 4 over 10 % above.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from ingest.errors import PrivsieveError
from jobs.labelling.labels import labels_of, tables_of
from reports.statistics.paired import interval_of_mean
from scoring.labels.consensus import yes_of_most
from scoring.labels.judgements import judgements
from scoring.taxonomy import ATTRIBUTES, LEVELS


def prevalences(people: str, others: list[str]) -> Iterator[tuple[str, str, int, float, float, float, float]]:
    """Yield annotator, attribute or level, number of pictures, both shares, and the ends of their difference."""
    names = labels_of(people)["annotator"].unique().to_pylist()
    judged = judgements(tables_of([people, *others]))
    is_person = np.array([name.removesuffix(f" ({people})") in names for name in judged.annotators])
    truth = yes_of_most(judged.values[is_person])
    columns = [(attribute.key, [index]) for index, attribute in enumerate(ATTRIBUTES)]
    for level in sorted(set(LEVELS) - {0}):
        of_level = [index for index, attribute in enumerate(ATTRIBUTES) if attribute.level == level]
        columns.append((f"mean of level {level}", of_level))
    for name, values in zip(np.array(judged.annotators)[~is_person], judged.values[~is_person], strict=True):
        is_judged = ~np.isnan(values) & ~np.isnan(truth)
        for what, places in columns:
            rows = is_judged[:, places].all(axis=1)
            if rows.any():
                shares, by_people = (values == 1)[rows][:, places].mean(axis=1), truth[rows][:, places].mean(axis=1)
                more = shares - by_people
                deviation = float(more.std(ddof=1)) if len(more) > 1 else 0.0
                ends = interval_of_mean(len(more), float(more.mean()), deviation)
                yield name, what, len(more), float(shares.mean()), float(by_people.mean()), *ends


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("people")
    parser.add_argument("others", nargs="+")
    args = parser.parse_args(argv)
    try:
        for name, what, num, share, by_people, low, high in prevalences(args.people, args.others):
            print(
                f"{name}, {what}: {num} pictures, {share:.1%}, people {by_people:.1%}, "
                f"{100 * (share - by_people):+.1f} points ({100 * low:+.1f} to {100 * high:+.1f})"
            )
    except PrivsieveError as error:
        sys.exit(f"{Path(__file__).name}: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
