"""Say how well each metric of similarity follows what people recognise, as SemSim does.

    python examples/papers/recognised.py votes STUDY
    privsieve similarity compare ORIGINALS CHANGED/* --part whole --out pairs.parquet
    python examples/papers/rank_metrics.py STUDY/votes.csv pairs.parquet

VOTES: a CSV file with set, key, annotator and recognised (1 or 0). The majority of a pair counts, ties are left out.
Kendall's tau and Spearman's rho are of the mean of a metric over each set (a method and its strength, or a release)
against the share of its pairs that were recognised. With few sets a high figure can be chance: the paper has 14.

Published: tau over 14 models of SemSim .59 to .71, of PSNR .35 to .56. Source: Sun et al., "Privacy Assessment
on Reconstructed Images".
"""

import argparse
import csv
import sys
from collections import Counter, defaultdict

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.stats import kendalltau, spearmanr

from reports.similarity.results import METRICS


def recognised(file: str) -> dict[tuple[str, str], float]:
    """Return set and key -> 1 if most people recognised the pair, else 0; nothing of ties."""
    given = defaultdict(Counter)
    with open(file, newline="", encoding="utf-8") as lines:
        for row in csv.DictReader(lines):
            given[row["set"], row["key"]][row["recognised"]] += 1
    return {pair: float(of["1"] > of["0"]) for pair, of in given.items() if of["1"] != of["0"]}


def ranks(truth: dict[tuple[str, str], float], pairs: list[dict]) -> dict[str, tuple[float, float]]:
    """Return metric -> tau and rho over the sets. The sign is turned where lower means more alike."""
    by_set = defaultdict(list)
    for row in pairs:
        if row["state"] == "compared" and (row["set"], row["key"]) in truth:
            by_set[row["set"]].append((truth[row["set"], row["key"]], row))
    if len(by_set) < 3:
        sys.exit(f"an order needs three sets with judged pairs, and there are {len(by_set)}")
    shares = [np.mean([of for of, _ in judged]) for judged in by_set.values()]
    found = {}
    for metric, is_likeness in METRICS.items():
        values = [[row[metric] for _, row in judged if row[metric] is not None] for judged in by_set.values()]
        if all(values):
            means = (1 if is_likeness else -1) * np.array([np.mean(of_set) for of_set in values])
            found[metric] = (float(kendalltau(means, shares).statistic), float(spearmanr(means, shares).statistic))
    return found


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("votes")
    parser.add_argument("pairs")
    args = parser.parse_args(argv)
    try:
        found = ranks(recognised(args.votes), pq.read_table(args.pairs).to_pylist())
    except (OSError, ValueError, LookupError, pa.ArrowException) as error:
        sys.exit(f"{args.votes} or {args.pairs} cannot be read, or lacks columns ({type(error).__name__})")
    for metric, (tau, rho) in found.items():
        print(f"{metric}: Kendall's tau {tau:.3f}, Spearman's rho {rho:.3f}")


if __name__ == "__main__":
    main(sys.argv[1:])
