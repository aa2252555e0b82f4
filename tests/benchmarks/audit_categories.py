"""The test of the assumption of prior shift, simulated: python -m tests.benchmarks.audit_categories [--draws 400]

How often it raises an alarm although the engine errs alike in all categories, and how often it notices that it does
not. 20,000 images, 400 labels. One category has half of the images, the others share the rest; every second category
has twice the rate of the others.
"""

import argparse
from dataclasses import dataclass

import numpy as np

from reports.statistics.category_rates import ShiftTest, shift_test
from reports.statistics.estimates import Counts, Flags, Numbers

NUM_IMAGES, NUM_LABELS = 20_000, 400
LEVEL, NUM_PERMUTATIONS = 0.05, 199


@dataclass(frozen=True)
class Engine:
    """How often the subject is there, and how the engine errs."""

    rate: float
    missed: float
    """Share of the images with the subject that are not answered yes."""

    false: float
    """Share of the others that are."""


ENGINES = (Engine(0.25, 0.3, 0.15), Engine(0.1, 0.2, 0.03))
NUM_CATEGORIES = (3, 10, 30)
WORSE = (0.5, 1.0)
"""Share of its answers yes that the engine that differs does not give in every third category."""


def drawn_labels(
    engine: Engine, num_categories: int, is_uneven: bool, worse: float, seed: int
) -> tuple[Flags, Flags, Numbers, Counts]:
    """Truth, answer, inclusion probability and category of each labelled picture.

    is_uneven: what other subjects ask for draws the answers yes of one category more densely, and no of another.
    """
    random = np.random.default_rng(seed)
    shares = np.append(np.full(num_categories - 1, 0.5 / (num_categories - 1)), 0.5)
    categories = random.choice(num_categories, NUM_IMAGES, p=shares)
    truth = random.random(NUM_IMAGES) < engine.rate * np.where(categories % 2, 4, 2) / 3
    is_yes = np.where(truth, random.random(NUM_IMAGES) >= engine.missed, random.random(NUM_IMAGES) < engine.false)
    is_yes &= ~((categories % 3 == 1) & (random.random(NUM_IMAGES) < worse))
    density = 0.2 + 0.8 * is_yes
    if is_uneven:
        density += 4 * ((categories == num_categories - 1) & is_yes & (random.random(NUM_IMAGES) < 0.7))
        density += 2 * ((categories == 0) & ~is_yes & (random.random(NUM_IMAGES) < 0.5))
    probabilities = np.minimum(1, density * NUM_LABELS / density.sum())
    drawn = random.random(NUM_IMAGES) < probabilities
    return truth[drawn], is_yes[drawn], probabilities[drawn], categories[drawn].astype(np.int64)


def simulated(engine: Engine, num_categories: int, is_uneven: bool, worse: float, num_draws: int) -> list[ShiftTest]:
    return [
        shift_test(*drawn_labels(engine, num_categories, is_uneven, worse, seed), seed, NUM_PERMUTATIONS)
        for seed in range(num_draws)
    ]


def share_of_alarms(tests: list[ShiftTest]) -> float:
    """Of all draws; a draw without a test raises none."""
    return sum(one.p_value is not None and one.p_value <= LEVEL for one in tests) / len(tests)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=400)
    num_draws = parser.parse_args().draws
    print("| categories | tested | rate | missed | false | drawn | false alarms | half missed | all missed |")
    print(f"|{'---|' * 9}")
    for num_categories in NUM_CATEGORIES:
        for engine in ENGINES:
            for is_uneven in (False, True):
                same = simulated(engine, num_categories, is_uneven, 0, num_draws)
                worse = [
                    share_of_alarms(simulated(engine, num_categories, is_uneven, w, num_draws // 2)) for w in WORSE
                ]
                cells = [
                    str(num_categories),
                    f"{np.mean([one.num_categories for one in same]):.1f}",
                    *(f"{100 * share:.0f} %" for share in (engine.rate, engine.missed, engine.false)),
                    "unevenly" if is_uneven else "alike",
                    *(f"{100 * share:.1f} %" for share in (share_of_alarms(same), *worse)),
                ]
                print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
