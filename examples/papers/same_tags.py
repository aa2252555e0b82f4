"""Compare the labels of pictures with the same tags, and leave one picture of each such set, as PrivacyAlert does.

    python examples/papers/features.py PICTURES ENCODER.onnx features.parquet
    python examples/papers/same_tags.py features.parquet VOTES [--out distinct.parquet]

VOTES: labels of several people, with `private` or `vote`. Tags are the words of a caption, whatever their order and
case. A set looks alike if one of the 10 nearest pictures (by cosine) of one of its pictures is of the set and has the
other label. OUT has the labels of all pictures but those left out: of each set the picture with the smallest sha256
stays. The paper does not say whether one picture of a set was left, what the same tags are, nor when a set looks
alike: these rules are our own.

Published: 4,000 pictures in 1,853 sets, 354 of them labelled differently, 99 of these look alike; people consistent
in 65.22 %; 62.5 % of pictures have more than 3 of 5 neighbours with their label. Source: Zhao et al., "PrivacyAlert".
"""

import argparse
import re
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ingest.errors import PrivsieveError
from scoring.labels.table import read_labels

NUM_NEAR, NUM_NEAREST, MOST = 10, 5, 3


def sets_with_same_tags(captions: list[str | None]) -> list[list[int]]:
    """Return the pictures of each set, as numbers."""
    members = defaultdict(list)
    for number, caption in enumerate(captions):
        if words := frozenset(re.findall(r"\w+", (caption or "").lower())):
            members[words].append(number)
    return [numbers for numbers in members.values() if len(numbers) > 1]


def nearest(vectors: np.ndarray) -> np.ndarray:
    """Return the numbers of the 10 nearest others, the nearest first. vectors: shape (n, d)."""
    units = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    near = np.empty((len(units), NUM_NEAR), np.int64)
    for number, unit in enumerate(units):
        likeness = units @ unit
        likeness[number] = -np.inf
        near[number] = np.argsort(-likeness, kind="stable")[:NUM_NEAR]
    return near


def same_tags(features: pa.Table, votes: pa.Table) -> dict[str, int]:
    """Return the figures of the study. features: as `features.py` writes them. votes: rows of labels."""
    number_of = {sha256: number for number, sha256 in enumerate(features["sha256"].to_pylist())}
    answers = [defaultdict[str, int](int) for _ in number_of]
    for row in votes.filter(pc.is_valid(votes["private"])).to_pylist():
        if row["sha256"] in number_of:
            answers[number_of[row["sha256"]]][row["annotator"]] = row["private"]
    share = np.array([np.mean(list(given.values())) if given else np.nan for given in answers])
    private = np.where(np.isnan(share) | (share == 0.5), np.nan, share > 0.5)
    sets = sets_with_same_tags(features["caption"].to_pylist())
    different = [numbers for numbers in sets if {0.0, 1.0} <= set(private[numbers].tolist())]
    again = []
    for numbers in sets:
        for person in set().union(*(answers[number] for number in numbers)):
            if len(given := [answers[number][person] for number in numbers if person in answers[number]]) > 1:
                again.append(len(set(given)) == 1)
    figures = {
        "pictures": len(number_of),
        "pictures with tags that another one has": sum(map(len, sets)),
        "sets with the same tags": len(sets),
        "sets labelled differently": len(different),
        "times that a person judged several pictures of a set": len(again),
        "times that the labels were then the same": sum(again),
    }
    decided = np.flatnonzero(~np.isnan(private))
    if len(decided) <= NUM_NEAR:
        return figures
    near = decided[nearest(np.stack(features["vector"].to_pylist()).astype(np.float32)[decided])]
    near_of = dict(zip(decided.tolist(), near, strict=True))
    figures["sets labelled differently that look alike"] = sum(
        any(
            other in near_of[number] and private[other] == 1 - private[number]
            for number in numbers
            if number in near_of
            for other in numbers
        )
        for numbers in different
    )
    fits = (private[near[:, :NUM_NEAREST]] == private[decided][:, None]).sum(axis=1) > MOST
    return figures | {"pictures with a label": len(decided), "pictures with more than 3 of 5 alike": int(fits.sum())}


def distinct(features: pa.Table, votes: pa.Table) -> pa.Table:
    """Return the labels without all but one picture of each set."""
    hashes = features["sha256"].to_pylist()
    sets = sets_with_same_tags(features["caption"].to_pylist())
    gone = {sha256 for numbers in sets for sha256 in sorted(hashes[number] for number in numbers)[1:]}
    return votes.filter(pa.array([sha256 not in gone for sha256 in votes["sha256"].to_pylist()]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("features", type=Path)
    parser.add_argument("votes")
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    if asked.out and asked.out.exists():
        sys.exit(f"{asked.out} already exists; name another file, or remove it")
    try:
        features, votes = pq.read_table(asked.features), read_labels(asked.votes)
    except PrivsieveError as error:
        sys.exit(str(error))
    except (OSError, pa.ArrowException) as error:
        sys.exit(f"{asked.features} cannot be read as Parquet ({type(error).__name__})")
    for name, number in same_tags(features, votes).items():
        print(f"{name}: {number:,}")
    if asked.out:
        kept = distinct(features, votes)
        pq.write_table(kept, asked.out)
        print(f"{len(pc.unique(kept['sha256'])):,} pictures in {asked.out}")


if __name__ == "__main__":
    main()
