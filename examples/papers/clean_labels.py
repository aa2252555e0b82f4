"""List labels that are probably wrong, by the area under the margin (AUM), as PrivacyAlert cleans its labels.

    python examples/papers/features.py PICTURES ENCODER.onnx features.parquet
    python examples/papers/clean_labels.py features.parquet LABELS suspicious.parquet [--percentile 99 --max-share 0.5]

LABELS: one label a picture, with `private`; at least 60 of each side. A small network learns the labels. The margin
of a picture is the logit of its label minus the largest other one; the area is its mean over the fit, taken each time
before the network learns from the picture. A third of the labels at a time becomes a class that means nothing; a
label is suspicious below a percentile of the areas of these. PrivacyAlert takes the 99th, which takes away half of a
planted set (docs/measured/labels.md), so a self-test turns 3 % of the labels over on purpose, three times, and by
default takes the largest percentile of which half of what it finds was turned over. OUT names the pictures without
their labels, the most suspicious first, for `privsieve review RUN --queue OUT` or `privsieve tune set … --exclude OUT`.

Sources: Pleiss et al., "Identifying Mislabeled Data using the Area Under the Margin Ranking"; Zhao et al.,
"PrivacyAlert", who fine-tune whole networks. Here it is one hidden layer over the vectors of an encoder.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ingest.errors import PrivsieveError
from scoring.labels.table import read_labels

NUM_CLASSES, NUM_UNITS, BATCH, NUM_STEPS, NUM_EPOCHS = 3, 64, 64, 600, (4, 100)
LEARNING_RATE, MOMENTUM, DECAY, INPUT_LENGTH = 0.05, 0.9, 1e-2, 8.0
"""Settings of stochastic gradient descent, chosen on planted sets; inputs have the usual length 8."""

PLANTED_SHARE, NUM_PLANTINGS, MIN_PRECISION, MIN_GAIN, MIN_LABELS = 0.03, 3, 0.5, 3.0, 60
PERCENTILES = (1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 50.0, 70.0, 90.0, 99.0)


def areas_of_fit(inputs: np.ndarray, labels: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return the area of each label, 0–2, shape (n,). inputs: shape (n, d)."""
    num, length = inputs.shape
    hidden = (generator.normal(size=(length, NUM_UNITS)) / INPUT_LENGTH).astype(np.float32)
    output = (generator.normal(size=(NUM_UNITS + 1, NUM_CLASSES)) / 10).astype(np.float32)
    moved_hidden, moved_output = np.zeros_like(hidden), np.zeros_like(output)
    is_label = np.eye(NUM_CLASSES, dtype=np.float32)[labels]
    num_epochs = int(np.clip(round(NUM_STEPS * BATCH / num), *NUM_EPOCHS))
    total = np.zeros(num)
    for _ in range(num_epochs):
        order = generator.permutation(num)
        for first in range(0, num, BATCH):
            batch = order[first : first + BATCH]
            seen, is_theirs = inputs[batch], is_label[batch]
            units = np.maximum(seen @ hidden, 0)
            with_bias = np.hstack([units, np.ones((len(batch), 1), np.float32)])
            logits = with_bias @ output
            total[batch] += (logits * is_theirs).sum(axis=1) - np.where(is_theirs == 1, -np.inf, logits).max(axis=1)
            shares = np.exp(logits - logits.max(axis=1, keepdims=True))
            slopes = (shares / shares.sum(axis=1, keepdims=True) - is_theirs) / len(batch)
            slope_hidden = seen.T @ ((slopes @ output[:-1].T) * (units > 0)) + DECAY * hidden
            moved_hidden = MOMENTUM * moved_hidden - LEARNING_RATE * slope_hidden
            moved_output = MOMENTUM * moved_output - LEARNING_RATE * (with_bias.T @ slopes + DECAY * output)
            hidden, output = hidden + moved_hidden, output + moved_output
    return total / num_epochs


def areas(inputs: np.ndarray, labels: np.ndarray, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return the areas of the pictures, and of the same pictures while they had the class that means nothing."""
    part = generator.permutation(len(labels)) % NUM_CLASSES
    with_label, without = np.zeros((2, len(labels)))
    for run in range(NUM_CLASSES):
        is_fake = part == run
        area = areas_of_fit(inputs, np.where(is_fake, 2, labels), generator)
        with_label[~is_fake] += area[~is_fake] / (NUM_CLASSES - 1)
        without[is_fake] = area[is_fake]
    return with_label, without


def self_test(inputs: np.ndarray, labels: np.ndarray, seed: int) -> tuple[float, dict[float, float]]:
    """Turn labels over on purpose. Return which share of as many with the smallest areas were such ones, and of each
    percentile the share of such ones among what is below it."""
    precisions, found, below = [], dict.fromkeys(PERCENTILES, 0), dict.fromkeys(PERCENTILES, 0)
    for planting in range(NUM_PLANTINGS):
        generator = np.random.default_rng((seed, planting))
        is_planted = np.zeros(len(labels), dtype=bool)
        for side in (0, 1):
            members = np.flatnonzero(labels == side)
            is_planted[generator.choice(members, max(1, round(PLANTED_SHARE * len(members))), replace=False)] = True
        area, fakes = areas(inputs, np.where(is_planted, 1 - labels, labels), generator)
        precisions.append(is_planted[np.argsort(area, kind="stable")[: is_planted.sum()]].mean())
        for percentile in PERCENTILES:
            is_below = area < np.percentile(fakes, percentile)
            found[percentile] += int((is_below & is_planted).sum())
            below[percentile] += int(is_below.sum())
    return float(np.mean(precisions)), {each: found[each] / max(1, below[each]) for each in PERCENTILES}


def suspicious(
    vectors: np.ndarray, labels: np.ndarray, percentile: float | None, max_share: float, seed: int
) -> tuple[np.ndarray, float]:
    """Return the numbers of suspicious labels, the most suspicious first, and the percentile. labels: 0 and 1.

    ValueError if there are too few labels, if planted ones are not found, or if the given percentile finds too many.
    """
    if min((labels == side).sum() for side in (0, 1)) < MIN_LABELS:
        raise ValueError(f"to find wrong labels takes {MIN_LABELS} private and {MIN_LABELS} public pictures")
    scaled = (vectors - vectors.mean(axis=0)) / np.maximum(vectors.std(axis=0), 1e-6)
    inputs = (scaled * INPUT_LENGTH / np.sqrt((scaled**2).sum(axis=1).mean())).astype(np.float32)
    precision, by_percentile = self_test(inputs, labels, seed)
    print(f"self-test: {precision:.0%} of the labels with the smallest areas were turned over on purpose")
    if precision < MIN_GAIN * PLANTED_SHARE:
        raise ValueError("the vectors say too little of what is private; take another encoder")
    area, fakes = areas(inputs, labels, np.random.default_rng(seed))
    good = [each for each, share in by_percentile.items() if share >= MIN_PRECISION]
    used = percentile or max(good, default=PERCENTILES[0])
    num_below, most = int((area < np.percentile(fakes, used)).sum()), int(max_share * len(labels))
    if percentile is not None and num_below > most:
        raise ValueError(f"{num_below:,} of {len(labels):,} labels are below this percentile, more than --max-share")
    return np.argsort(area, kind="stable")[: min(num_below, most)], used


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("features", type=Path)
    parser.add_argument("labels")
    parser.add_argument("out", type=Path)
    parser.add_argument("--percentile", type=float)
    parser.add_argument("--max-share", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    if asked.out.exists():
        sys.exit(f"{asked.out} already exists; name another file, or remove it")
    try:
        rows = read_labels(asked.labels).select(["sha256", "private"]).to_pylist()
        known = {row["sha256"]: row["private"] for row in rows if row["private"] is not None}
        seen = [row for row in pq.read_table(asked.features).to_pylist() if row["sha256"] in known]
        labels = np.array([known[row["sha256"]] for row in seen], dtype=np.int64)
        vectors = np.array([row["vector"] for row in seen], dtype=np.float64)
        chosen, used = suspicious(vectors, labels, asked.percentile, asked.max_share, asked.seed)
    except (PrivsieveError, OSError, ValueError) as error:
        sys.exit(str(error))
    hashes = [seen[number]["sha256"] for number in chosen]
    pq.write_table(pa.table({"sha256": hashes, "annotator": ["to check"] * len(hashes)}), asked.out)
    print(f"{len(hashes):,} of {len(labels):,} labels are suspicious (percentile {used:g}): {asked.out}")


if __name__ == "__main__":
    main()
