"""Settings of `python -m benchmarks.statistics`: intervals of `evaluate`, `diff` and `labels agreement`.

Samples are made up. A sample that does not define a figure does not count.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from benchmarks.coverage import Row
from reports.evaluation.metrics import as_four_levels, attribute_metrics, band_of
from reports.labels.agreement import agreement
from reports.statistics.binary import METRICS, Flags, Numbers, cells, rates
from reports.statistics.correlation import weighted_spearman
from reports.statistics.intervals import NUM_FEW, Draws, Interval, of_private, of_scores
from reports.statistics.paired import adjusted_p_values, difference, interval_of_mean, seldom_denies
from scoring import severity
from scoring.taxonomy import KEYS

NUM_IN_POPULATION = 50_000

NUM_PICTURES = (38, 100, 400, 1000)


NUM_BOOTSTRAP_DRAWS = 600

MARKED_FEW = 'the figure has the mark "few"'

NOT_TESTED = "diff makes no test"


Sampled = Mapping[str, Interval | None]
Generator = np.random.Generator


class Binary(NamedTuple):
    """Private or public: how many pictures are drawn, and how a run answers."""

    num: int
    share_private: float
    sensitivity: float
    specificity: float
    num_copies: int = 1
    """How often each picture of a third of them is in the sample; copies have the same answer."""


BINARY = {
    "38 pictures, 58 % private": Binary(38, 0.58, 0.97, 0.90),
    "100 pictures, 10 % private": Binary(100, 0.10, 0.97, 0.90),
    "400 pictures, 2 % private": Binary(400, 0.02, 0.97, 0.90),
    "1,000 pictures, 30 % private": Binary(1000, 0.30, 0.97, 0.90),
    "38 pictures, all answered yes": Binary(38, 0.58, 1, 0),
    "100 pictures, all answered yes": Binary(100, 0.10, 1, 0),
    "400 pictures, all answered yes": Binary(400, 0.02, 1, 0),
    "1,000 pictures, all answered yes": Binary(1000, 0.30, 1, 0),
    "100 pictures, 10 % private, poor run": Binary(100, 0.10, 0.6, 0.95),
    "60 pictures and 2 copies of a third of them": Binary(60, 0.40, 0.9, 0.9, num_copies=3),
}


def answers(num_draws: int) -> Iterator[Row]:
    """Private or public, of `evaluate`: one row for each setting and figure."""
    for name, setting in BINARY.items():
        yield from _covered(name, *_binary(setting), num_draws)


def scores_and_attributes(num_draws: int) -> Iterator[Row]:
    """The other figures of `evaluate`, and differences between two runs."""
    for num in NUM_PICTURES:
        yield from _covered(f"{num:,} pictures, two runs", *_two_runs(num), num_draws)
        for kind in SCORES:
            yield from _covered(f"{num:,} pictures, {kind}", *_scores(kind, num), num_draws)
        for kind in ATTRIBUTES:
            yield from _covered(f"{num:,} pictures, {kind}", *_attributes(kind, num), num_draws)


def agreements(num_draws: int) -> Iterator[Row]:
    """Of `labels agreement`."""
    for num in NUM_PICTURES:
        for num_people in (2, 4):
            yield from _covered(f"{num:,} pictures, {num_people} people", *_agreement(num_people, num), num_draws)


CHANGED = {"every score": 1.0, "a score of 10": 0.1, "a score of 50": 0.02, "a score of 200": 0.005}
"""How many pictures the second run answers anew, finding more."""


def changes(num_draws: int) -> Iterator[Row]:
    """The mean change of severity scores, of `diff`, and its tests of runs that differ by noise only."""
    for num in (*NUM_PICTURES, 5000):
        for kind, share in CHANGED.items():
            yield from _covered(f"{num:,} pictures, {kind} can change", *_changed_scores(share, num), num_draws)
    for num, share, denied in NOISE:
        yield _noise(num, share, denied, num_draws)


NOISE = ((3000, 0.1, 0.0), (3000, 0.1, 1 / 2700), (3000, 0.1, 0.3), (3000, 0.1, 0.7), (3000, 0.1, 1.0), (300, 0.3, 1.0))
"""Pictures, the share that shows something, and how many of the others the first run denies; the rest it leaves
open."""


def _changed_scores(share: float, num: int) -> tuple[Mapping[str, float], Callable[[Generator], Sampled]]:
    population = np.random.default_rng(6)
    present = population.random((NUM_IN_POPULATION, len(KEYS))) < population.uniform(0.02, 0.15, len(KEYS))
    is_anew = population.random((NUM_IN_POPULATION, 1)) < share
    before, after = _formula(present), _formula(present | (is_anew & (population.random(present.shape) < 0.1)))

    def sample(generator: Generator) -> Sampled:
        chosen = generator.integers(NUM_IN_POPULATION, size=num)
        a, b = before[chosen], after[chosen]
        ends = interval_of_mean(num, float((b - a).mean()), float((b - a).std(ddof=1)))
        return {"mean change": Interval(*ends, is_few=bool((a != b).sum() < NUM_FEW))}

    return {"mean change": float((after - before).mean())}, sample


def _noise(num: int, share: float, denied: float, num_samples: int) -> Row:
    """How often the test of two runs that err alike has a p of 0.05 or more."""
    generator, significant, tested = np.random.default_rng(9), 0, 0
    for _ in range(num_samples):
        truth = np.arange(num) < share * num
        a, b = (_answers(generator, truth, 0.8, 1 - 0.2 * share / (1 - share)) for _ in range(2))
        is_open = ~a & (generator.random(num) >= denied)
        counts = [[(a & ~b).sum(), (~a & ~is_open & b).sum(), 0, (is_open & b).sum(), 0, (is_open & ~b).sum()]]
        is_tested = ~seldom_denies([a.sum()], [(~a & ~is_open).sum()], [is_open.sum()])
        ((p_value, _),) = adjusted_p_values(np.array(counts), is_tested)
        tested += int(is_tested[0])
        significant += p_value is not None and p_value < 0.05
    setting = f"{num:,} pictures, noise only, A denies {denied:.3g} of what it does not find"
    return Row(setting, "p of 0.05 or more", 1 - significant / num_samples, NOT_TESTED * (tested < num_samples / 2))


def _covered(
    setting: str, truths: Mapping[str, float], sample: Callable[[Generator], Sampled], num_samples: int
) -> Iterator[Row]:
    generator = np.random.default_rng(0)
    found: dict[str, list[tuple[bool, bool]]] = {}
    for _ in range(num_samples):
        for figure, interval in sample(generator).items():
            if interval is not None:
                assert interval.low < interval.high, f"{setting}, {figure}: an interval without width"
                holds = interval.low - 1e-9 <= truths[figure] <= interval.high + 1e-9
                found.setdefault(figure, []).append((holds, interval.is_few))
    for figure, samples in found.items():
        coverage, marked = np.mean(samples, axis=0)
        yield Row(setting, figure, float(coverage), MARKED_FEW if marked > 0.5 else "")


def _binary(one: Binary) -> tuple[Mapping[str, float], Callable[[Generator], Sampled]]:
    def sample(generator: Generator) -> Sampled:
        truth = generator.random(one.num) < one.share_private
        answers = _answers(generator, truth, one.sensitivity, one.specificity)
        times = np.where(np.arange(one.num) < one.num / 3, one.num_copies, 1)
        groups = np.repeat(np.arange(one.num), times)
        draws = Draws(groups, NUM_BOOTSTRAP_DRAWS, int(generator.integers(2**31)))
        return of_private(cells(truth[groups], answers[groups]), draws)

    hit, miss = one.share_private * one.sensitivity, one.share_private * (1 - one.sensitivity)
    alarm, rest = (1 - one.share_private) * (1 - one.specificity), (1 - one.share_private) * one.specificity
    return {name: float(value) for name, value in rates(np.array([hit, alarm, miss, rest])).items()}, sample


def _answers(generator: Generator, truth: Flags, sensitivity: float, specificity: float) -> Flags:
    return np.where(generator.random(len(truth)) < np.where(truth, sensitivity, specificity), truth, ~truth)


def _two_runs(num: int) -> tuple[Mapping[str, float], Callable[[Generator], Sampled]]:
    """Four of ten pictures are private. The run after copies half of the answers of the one before."""

    def drawn(generator: Generator, size: int) -> tuple[Flags, Flags, Flags]:
        truth = generator.random(size) < 0.4
        before = _answers(generator, truth, 0.85, 0.9)
        after = np.where(generator.random(size) < 0.5, before, _answers(generator, truth, 0.95, 0.92))
        return truth, after, before

    def sample(generator: Generator) -> Sampled:
        draws = Draws(np.arange(num), NUM_BOOTSTRAP_DRAWS, int(generator.integers(2**31)))
        answers = drawn(generator, num)
        return {metric: difference(metric, *answers, draws).interval for metric in METRICS}

    truth, after, before = drawn(np.random.default_rng(1), 2_000_000)
    of_after, of_before = (rates(cells(truth, answers).sum(axis=0)) for answers in (after, before))
    return {metric: float(of_after[metric] - of_before[metric]) for metric in METRICS}, sample


SCORES = ("formula scores", "nearly right formula scores", "holistic scores", "scores that mean nothing")


def _scores(kind: str, num: int) -> tuple[Mapping[str, float], Callable[[Generator], Sampled]]:
    generator = np.random.default_rng(2)
    present = generator.random((NUM_IN_POPULATION, len(KEYS))) < generator.uniform(0.02, 0.15, len(KEYS))
    missed, made_up = (0.03, 0.002) if kind.startswith("nearly") else (0.1, 0.01)
    wrong = generator.random(present.shape) < np.where(present, missed, made_up)
    truth, predicted = _formula(present), _formula(present ^ wrong)
    if kind.startswith("holistic"):
        predicted = np.clip(np.round(0.15 + 0.6 * truth + generator.normal(0, 0.15, len(truth)), 1), 0, 1)
    if kind.endswith("nothing"):
        predicted = generator.random(len(truth))
    levels = [as_four_levels(band_of(scores)) for scores in (truth, predicted)]
    is_right, errors = levels[0] == levels[1], predicted - truth
    one = np.ones((1, len(truth)))
    truths = {"mae": np.abs(errors).mean(), "bias": errors.mean(), "level_accuracy": is_right.mean()}
    truths |= {"pearson": np.corrcoef(truth, predicted)[0, 1], "spearman": weighted_spearman(truth, predicted, one)[0]}

    def sample(generator: Generator) -> Sampled:
        chosen = generator.integers(len(truth), size=num)
        draws = Draws(np.arange(num), NUM_BOOTSTRAP_DRAWS, int(generator.integers(2**31)))
        return of_scores(truth[chosen], predicted[chosen], is_right[chosen], draws)

    return truths, sample


def _formula(present: Flags) -> Numbers:
    return severity.score_of(severity.lexicographic(severity.level_counts(present))).astype(np.float64)


ATTRIBUTES = ("common attributes", "rare attributes", "rare attributes, poor run")


def _attributes(kind: str, num: int) -> tuple[Mapping[str, float], Callable[[Generator], Sampled]]:
    """The true macro-F1 is that of the attributes that have an F1 in the sample, so it is taken as a difference."""
    population = np.random.default_rng(3)
    shares = population.uniform(*((0.1, 0.4) if kind.startswith("common") else (0.02, 0.1)), len(KEYS))
    sensitivity, made_up = (0.6, 0.02) if kind.endswith("poor run") else (0.95, 0.01)
    hits, misses, alarms = shares * sensitivity, shares * (1 - sensitivity), (1 - shares) * made_up
    true_f1 = 2 * hits / (2 * hits + misses + alarms)

    def sample(generator: Generator) -> Sampled:
        truth = generator.random((num, len(KEYS))) < shares
        answers = generator.random((num, len(KEYS))) < np.where(truth, sensitivity, made_up)
        draws = Draws(np.arange(num), NUM_BOOTSTRAP_DRAWS, int(generator.integers(2**31)))
        found, summary = attribute_metrics(truth.astype(float), answers.astype(float), draws)
        has_f1 = np.array([one.f1 is not None for one in found.values()])
        macro, first = summary.intervals.get("macro_f1"), next(iter(found.values())).intervals.get("f1")
        return {
            "macro_f1": macro and _moved(macro, float(true_f1[has_f1].mean())),
            "f1 of an attribute": first and _moved(first, float(true_f1[0])),
        }

    return {"macro_f1": 0.0, "f1 of an attribute": 0.0}, sample


def _agreement(num_people: int, num: int) -> tuple[Mapping[str, float], Callable[[Generator], Sampled]]:
    """A tenth is answered 1, a twentieth 0.5; each person gives another answer to a tenth, and none to a fifth."""

    def drawn(generator: Generator, size: int) -> Numbers:
        truth = generator.choice([0.0, 0.5, 1.0], size=size, p=[0.85, 0.05, 0.1])
        other = generator.choice([0.0, 0.5, 1.0], size=(num_people, size))
        answers = np.where(generator.random((num_people, size)) < 0.1, other, truth)
        return np.where(generator.random((num_people, size)) < 0.2, np.nan, answers)

    def sample(generator: Generator) -> Sampled:
        return agreement("x", drawn(generator, num)).intervals

    true = agreement("x", drawn(np.random.default_rng(5), 400_000))
    return {name: getattr(true, name) for name in ("cohen", "fleiss", "alpha_nominal", "alpha_ordinal")}, sample


def _moved(interval: Interval, truth: float) -> Interval:
    return Interval(interval.low - truth, interval.high - truth, interval.is_few)
