"""Whether planted wrong labels have the smallest areas under the margin.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.wrong_labels

Four sets like the training set of PrivacyAlert: 788 private and 2,348 public pictures of 64 features, in six clusters a
side, with 8 % of the private and 2.7 % of the public labels turned over.
"""

import importlib.util
from pathlib import Path

import numpy as np

SCRIPT = Path(__file__).parents[1] / "examples" / "papers" / "clean_labels.py"
NUM_PRIVATE, NUM_PUBLIC, NUM_FEATURES, NUM_CLUSTERS = 788, 2348, 64, 6
SPREAD, INPUT_LENGTH = 0.616, 8.0
"""Standard deviation of the clusters' middles; pictures of a cluster have 1. And the length of a usual input."""

FLIPPED = (0.027, 0.08)
"""Share of wrong labels, of public and of private pictures."""


def planted(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return inputs, shape (n, 64); labels; and which of them are wrong. Both of shape (n,)."""
    generator = np.random.default_rng(seed)
    truth = np.repeat([1, 0], [NUM_PRIVATE, NUM_PUBLIC])
    middles = generator.normal(scale=SPREAD, size=(2, NUM_CLUSTERS, NUM_FEATURES))
    features = middles[truth, generator.integers(0, NUM_CLUSTERS, len(truth))] + generator.normal(
        size=(len(truth), NUM_FEATURES)
    )
    is_wrong = generator.random(len(truth)) < np.array(FLIPPED)[truth]
    scaled = (features - features.mean(axis=0)) / features.std(axis=0)
    inputs = (scaled * INPUT_LENGTH / np.sqrt(NUM_FEATURES)).astype(np.float32)
    return inputs, np.where(is_wrong, 1 - truth, truth), is_wrong


def main() -> None:
    spec = importlib.util.spec_from_file_location("clean_labels", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    clean = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(clean)
    print("| set | wrong | precision at as many | in the self-test | chosen percentile takes | the 99th takes |")
    print("|---|---|---|---|---|---|")
    for seed in range(4):
        inputs, labels, is_wrong = planted(seed)
        precision, by_percentile = clean.self_test(inputs, labels, seed)
        area, fakes = clean.areas(inputs, labels, np.random.default_rng(seed))
        chosen = max((each for each, share in by_percentile.items() if share >= clean.MIN_PRECISION), default=1.0)
        taken = [
            f"{is_taken.mean():.1%}, {is_wrong[is_taken].mean():.0%} of them wrong"
            for percentile in (chosen, clean.PERCENTILES[-1])
            for is_taken in [area < np.percentile(fakes, percentile)]
        ]
        smallest = is_wrong[np.argsort(area, kind="stable")[: is_wrong.sum()]].mean()
        print(f"| {seed} | {is_wrong.sum()} | {smallest:.2f} | {precision:.2f} | {chosen:g}: {taken[0]} | {taken[1]} |")


if __name__ == "__main__":
    main()
