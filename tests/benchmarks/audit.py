"""How good the estimates of `audit` are, simulated: python -m tests.benchmarks.audit [--draws 500]

A made-up corpus whose truth is known is audited many times, with 400 labels each. The model of the simulation errs as a
detector of middling quality does, and its probabilities are too sure of themselves.
"""

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from reports.audit.drawing import EVEN_SHARE, densities
from reports.statistics.category_rates import by_prior_shift
from reports.statistics.estimates import (
    ABSENT,
    EDGES,
    NUM_BINS,
    PRESENT,
    Counts,
    Flags,
    Numbers,
    evidence,
    prevalence,
    standard_error,
)
from scoring.runs.audit_files import NUM_CELLS, PRIVATE, Purpose
from scoring.taxonomy import KEYS

PREVALENCES = (0.005, 0.02, 0.05, 0.2, 0.4)
NUM_LABELS = 400
NUM_IMAGES = 40_000
NUM_BETA_DRAWS = 500
SEPARATION = 3.0
"""Between the means of the signal with the subject and without, in standard deviations: AUC .98."""

Z = 1.959964


@dataclass(frozen=True)
class Corpus:
    """A corpus of which the truth is known. Each maps a subject to one entry an image."""

    truth: Mapping[str, Flags]
    cells: Mapping[str, Counts]

    def num_images(self) -> dict[str, Counts]:
        return {name: np.bincount(cells, minlength=NUM_CELLS) for name, cells in self.cells.items()}


@dataclass(frozen=True)
class Outcome:
    """Of one subject over all draws."""

    prevalence: float
    raw_rate: float
    bias: float
    deviation: float
    """Standard deviation of the estimate."""

    coverage: float
    """Share of the intervals that hold the truth."""

    normal_coverage: float
    """The same of the estimate ± 1.96 standard errors, which the audit does not use."""

    half_width: float
    """Mean of half of the interval's length."""

    @property
    def labels_of_a_plain_sample(self) -> float:
        """Labels of a plain random sample with an interval of the same length (normal distribution)."""
        return Z**2 * self.prevalence * (1 - self.prevalence) / self.half_width**2


def corpus(prevalence_of: Mapping[str, float], has_probabilities: bool, seed: int) -> Corpus:
    """All subjects come together more often than by chance."""
    random = np.random.default_rng(seed)
    common = random.normal(size=NUM_IMAGES)
    truth, cells = dict[str, Flags](), dict[str, Counts]()
    for name, rate in prevalence_of.items():
        liability = 0.5 * common + 0.75**0.5 * random.normal(size=NUM_IMAGES)
        truth[name] = liability > np.quantile(liability, 1 - rate)
        signal = random.normal(size=NUM_IMAGES) + SEPARATION * truth[name]
        log_odds = SEPARATION * (signal - SEPARATION / 2) + np.log(rate / (1 - rate))
        probability = 1 / (1 + np.exp(0.3 - 1.3 * log_odds))
        is_yes = probability >= 0.5
        bins = np.searchsorted(EDGES, probability, side="right") + NUM_BINS * is_yes
        cells[name] = bins if has_probabilities else np.where(is_yes, PRESENT, ABSENT)
    return Corpus(truth, cells)


def samples(
    made: Corpus, purpose: Purpose, num_draws: int, seed: int
) -> Iterator[tuple[npt.NDArray[np.int64], Numbers]]:
    """Places and inclusion probabilities of the drawn images, of each sample."""
    num_images = made.num_images()
    density = np.full(NUM_IMAGES, EVEN_SHARE)
    for name, of_cells in densities(num_images, purpose).items():
        density += of_cells[made.cells[name]]
    probability = np.minimum(1, NUM_LABELS / NUM_IMAGES * density / density.mean())
    random = np.random.default_rng(seed)
    for _ in range(num_draws):
        places = np.flatnonzero(random.random(NUM_IMAGES, dtype=np.float32) < probability)
        yield places, probability[places]


def outcomes(
    made: Corpus, purpose: Purpose, subjects: tuple[str, ...], num_draws: int, seed: int
) -> dict[str, Outcome]:
    """What the audit estimates of the subjects, over many samples."""
    num_images, random = made.num_images(), np.random.default_rng(seed)
    found: dict[str, list[tuple[float | None, ...]]] = {name: [] for name in subjects}
    for places, probabilities in samples(made, purpose, num_draws, seed):
        for name in subjects:
            labels = made.truth[name][places].astype(np.float64)
            one = evidence(num_images[name], made.cells[name][places], labels, probabilities)
            estimate = prevalence(one, random, NUM_BETA_DRAWS)
            found[name].append((estimate.value, estimate.low, estimate.high, standard_error(one)))
    return {name: _outcome(made, name, np.array(found[name], dtype=np.float64)) for name in subjects}


def _outcome(made: Corpus, name: str, estimates: Numbers) -> Outcome:
    truth = float(made.truth[name].mean())
    value, low, high, error = estimates.T
    is_yes = (made.cells[name] == PRESENT) | ((made.cells[name] >= NUM_BINS) & (made.cells[name] < 2 * NUM_BINS))
    return Outcome(
        prevalence=truth,
        raw_rate=float(is_yes.mean()),
        bias=float(value.mean()) - truth,
        deviation=float(value.std(ddof=1)),
        coverage=float(((low <= truth) & (truth <= high)).mean()),
        normal_coverage=float((np.abs(value - truth) <= Z * error).mean()),
        half_width=float((high - low).mean()) / 2,
    )


def private_outcome(rate: float, has_probabilities: bool, purpose: Purpose, num_draws: int, seed: int) -> Outcome:
    """Of the private decision alone. With `private` the labels of the attributes are drawn as if all were rare."""
    of_all = {PRIVATE: rate, **{key: PREVALENCES[n % len(PREVALENCES)] for n, key in enumerate(KEYS)}}
    made = corpus(of_all, has_probabilities, seed)
    return outcomes(made, purpose, (PRIVATE,), num_draws, seed + 1)[PRIVATE]


@dataclass(frozen=True)
class CategoryOutcome:
    """Of 40 categories of 1,000 images, of which .2 to 60 % are private; one sample of labels for all."""

    raw_error: float
    """Mean difference between the raw rate and the true one."""

    error: float
    """The same of the rate by prior shift."""

    coverage: float


def category_outcome(num_draws: int, seed: int) -> CategoryOutcome:
    random = np.random.default_rng(seed)
    rates = np.geomspace(0.002, 0.6, 40)
    categories = np.repeat(np.arange(40), NUM_IMAGES // 40)
    truth = random.random(NUM_IMAGES) < rates[categories]
    signal = random.normal(size=NUM_IMAGES) + 2.2 * truth
    probability = 1 / (1 + np.exp(0.3 - 1.3 * (2.2 * (signal - 1.1) + np.log(0.1 / 0.9))))
    is_yes = probability >= 0.5
    cells = np.searchsorted(EDGES, probability, side="right") + NUM_BINS * is_yes
    made = Corpus({PRIVATE: truth}, {PRIVATE: cells})
    counts = np.zeros((40, NUM_CELLS), dtype=np.int64)
    np.add.at(counts, (categories, cells), 1)
    true_rates, raw = (np.bincount(categories, flags) / 1000 for flags in (truth, is_yes))
    errors, held = [], []
    for places, probabilities in samples(made, "private", num_draws, seed):
        one = evidence(counts.sum(axis=0), cells[places], truth[places].astype(np.float64), probabilities)
        found = by_prior_shift(one, counts, random)
        value, low, high = np.array([[e.value, e.low, e.high] for e in found], dtype=np.float64).T
        errors.append(float(np.abs(value - true_rates).mean()))
        held.append(float(((low <= true_rates) & (true_rates <= high)).mean()))
    return CategoryOutcome(float(np.abs(raw - true_rates).mean()), float(np.mean(errors)), float(np.mean(held)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    head = "| engine gives | labels for | prevalence | raw rate | bias | sd | coverage | normal | half width | plain |"
    print(head + "\n|" + "---|" * 9)
    for has_probabilities in (True, False):
        for purpose in ("private", "both"):
            for rate in PREVALENCES:
                one = private_outcome(rate, has_probabilities, purpose, arguments.draws, arguments.seed)
                print(_line("probabilities" if has_probabilities else "yes or no", purpose, one), flush=True)
    of_all = category_outcome(20, arguments.seed)
    errors = f"mean error raw {of_all.raw_error:.2%}, corrected {of_all.error:.2%}"
    print(f"40 categories: {errors}, coverage {of_all.coverage:.1%}")


def _line(engine: str, purpose: str, one: Outcome) -> str:
    cells = [
        engine,
        purpose,
        f"{one.prevalence:.1%}",
        f"{one.raw_rate:.2%}",
        f"{one.bias:+.3%}",
        f"{one.deviation:.2%}",
    ]
    cells += [
        f"{one.coverage:.1%}",
        f"{one.normal_coverage:.1%}",
        f"{one.half_width:.2%}",
        f"{one.labels_of_a_plain_sample:,.0f}",
    ]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main()
