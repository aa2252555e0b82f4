"""Do printed intervals of categories, and of sources weighted by them, hold the truth? For `statistics`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.coverage import Row
from benchmarks.statistics_corpora import Corpus, Random, binned, holds, probabilities_of
from reports.audit.population import CategoryWeights
from reports.statistics.category_rates import category_rates
from reports.statistics.estimates import ABSENT, PRESENT, Counts, Labels, Numbers, evidence, rates_of
from reports.statistics.shares import post_stratified
from scoring.runs.audit_files import NUM_CELLS

MARKED = "each such rate says that it is by a model"


def weighted_source(rates: Sequence[float], sizes: Sequence[float], size: int, num_labels: int, num_draws: int) -> Row:
    random, held, num = np.random.default_rng(4), list[float](), len(rates)
    categories = np.repeat(np.arange(num), size)
    weighting = CategoryWeights(tuple(map(str, range(num))), np.array(sizes), np.full(num, float(size)))
    truth_of_source = float(np.array(rates) @ np.array(sizes) / np.sum(sizes))
    for _ in range(num_draws):
        truth = random.random(len(categories)) < np.array(rates)[categories]
        is_yes = np.where(truth, random.random(len(truth)) < 0.6, random.random(len(truth)) < 0.03)
        corpus = Corpus(truth, np.where(is_yes, PRESENT, ABSENT))
        chance = probabilities_of(corpus.cells, corpus.num_images, num_labels)
        drawn = np.flatnonzero(random.random(len(truth)) < chance)
        of_images = weighting.weights[categories]
        num_images = np.bincount(corpus.cells, of_images, NUM_CELLS)
        is_there = truth[drawn].astype(np.float64)
        labels = Labels(corpus.cells[drawn], is_there, chance[drawn], of_images[drawn], categories[drawn])
        known = evidence(num_images, labels)
        estimate = rates_of(known).prevalence
        of_categories = np.zeros((num, NUM_CELLS))
        np.add.at(of_categories, (categories, corpus.cells), 1)
        found = category_rates(known, of_categories, labels)
        own = np.array([estimate.value if one is None else one.prevalence.value for one in found], dtype=np.float64)
        held.append(
            holds(
                weighting.with_error_of_draw(estimate, weighting.names, own, np.full(num, float(size))), truth_of_source
            )
        )
    return Row(
        f"{size:,} of each of {num} categories, {num_labels} labels, weighted",
        "rate of the source",
        float(np.mean(held)),
    )


@dataclass(frozen=True)
class Categories:
    """Categories in which an engine errs alike or not."""

    name: str
    sizes: Counts
    rates: Numbers
    right: Numbers
    """Sensitivity in each; with probabilities how far the signal is shifted."""

    has_probabilities: bool = False
    num_labels: int = 400


def category_settings() -> Iterator[Categories]:
    four, forty = np.full(4, 5_000), np.full(40, 500)
    rates_of_4, rates_of_40 = np.array([0.02, 0.1, 0.2, 0.4]), np.geomspace(0.002, 0.6, 40)
    is_third = np.arange(40) % 3 == 0
    yield Categories("4 of 5,000, errs alike", four, rates_of_4, np.full(4, 0.7))
    yield Categories("4 of 5,000, errs differently", four, rates_of_4, np.array([0.7, 0.3, 0.7, 0.5]))
    yield Categories("40 of 500, errs alike", forty, rates_of_40, np.full(40, 0.7))
    yield Categories("40 of 500, errs differently", forty, rates_of_40, np.where(is_third, 0.3, 0.7))
    yield Categories("40 of 500, probabilities, errs alike", forty, rates_of_40, np.zeros(40), True)
    yield Categories(
        "40 of 500, probabilities, errs differently", forty, rates_of_40, np.where(is_third, -1.0, 0.0), True
    )
    tiny = np.array([3] * 20 + [20] * 20 + [2_000] * 10)
    yield Categories("3, 20 or 2,000 images, errs alike", tiny, np.geomspace(0.01, 0.6, 50), np.full(50, 0.7))
    surer, of_11 = np.array([60_000] + [400] * 11), np.concatenate([[0.3], np.geomspace(0.01, 0.5, 11)])
    yield Categories("one of 60,000 and 11 of 400, errs alike", surer, of_11, np.full(12, 0.7))
    errs = np.where(np.arange(12) % 3 == 1, 0.3, 0.8)
    yield Categories("one of 60,000 and 11 of 400, errs differently", surer, of_11, errs)
    ten = np.where(np.arange(10) % 3 == 0, 0.3, 0.8)
    every_third = np.where(np.arange(8) % 3 == 0, 0.3, 0.8)
    of_8 = np.geomspace(0.02, 0.5, 8)
    yield Categories("8 of 1,000, errs differently, 200 labels", np.full(8, 1_000), of_8, every_third, False, 200)
    yield Categories(
        "10 of 2,000, errs differently, 1,000 labels",
        np.full(10, 2_000),
        np.geomspace(0.02, 0.5, 10),
        ten,
        False,
        1_000,
    )


def categories(num_draws: int) -> Iterator[Row]:
    """Rates of categories: those by their own labels, and those by a model."""
    for made in category_settings():
        random = np.random.default_rng(5)
        held: dict[tuple[bool, int], list[float]] = {}
        num = max(20, num_draws // 4)
        for _ in range(num):
            for category, is_direct, is_held in _category_rates(made, random):
                held.setdefault((is_direct, category), []).append(is_held)
        for is_direct in (True, False):
            of_kind = [of_category for (is_own, _), of_category in held.items() if is_own == is_direct]
            if of_kind:
                figure = "rates with 30 labels of their own" if is_direct else "rates with fewer"
                worst = min((np.mean(one) for one in of_kind if len(one) >= num / 2), default=np.nan)
                said = "" if is_direct else f"{MARKED}; worst category {worst:.0%}"
                yield Row(made.name, figure, float(np.mean(np.concatenate(of_kind))), said)


def _category_rates(made: Categories, random: Random) -> Iterator[tuple[int, bool, float]]:
    numbers = np.repeat(np.arange(len(made.sizes)), made.sizes)
    truth = random.random(len(numbers)) < made.rates[numbers]
    if made.has_probabilities:
        signal = random.normal(size=len(truth)) + 2.2 * truth + made.right[numbers]
        cells = binned(1 / (1 + np.exp(0.3 - 1.3 * (2.2 * (signal - 1.1) + np.log(0.1 / 0.9)))))
    else:
        is_yes = np.where(truth, random.random(len(truth)) < made.right[numbers], random.random(len(truth)) < 0.05)
        cells = np.where(is_yes, PRESENT, ABSENT)
    corpus = Corpus(truth, cells)
    chance = probabilities_of(corpus.cells, corpus.num_images, made.num_labels)
    drawn = np.flatnonzero(random.random(len(truth)) < chance)
    labels = Labels(cells[drawn], truth[drawn].astype(np.float64), chance[drawn], categories=numbers[drawn])
    known = evidence(corpus.num_images, labels)
    of_categories = np.zeros((len(made.sizes), NUM_CELLS))
    np.add.at(of_categories, (numbers, cells), 1)
    found = category_rates(known, of_categories, labels)
    true_rates = np.bincount(numbers, truth) / made.sizes
    for category, (estimate, true_rate) in enumerate(zip(found, true_rates.tolist(), strict=True)):
        if estimate is not None:
            yield category, estimate.method == "difference", holds(estimate.prevalence, true_rate)


def category_sizes(num_draws: int) -> Iterator[Row]:
    """A run of as many images of each category, some of which could not be judged."""
    for rates, sizes, judged, size in (
        ((0.02, 0.9), (90_000, 10_000), 0.7, 100),
        ((0.005, 0.98), (90_000, 10_000), 0.5, 200),
        (tuple(np.linspace(0.01, 0.95, 20)), (5_000,) * 20, 0.6, 20),
        ((0.02, 0.3, 0.8), (50_000, 8_000, 400), 1.0, 80),
    ):
        random, held = np.random.default_rng(7), list[float]()
        truth = float(np.array(rates) @ np.array(sizes) / np.sum(sizes))
        for _ in range(max(1_000, num_draws)):
            num_judged = random.binomial(size, judged, len(rates))
            num_private = random.binomial(num_judged, rates)
            found = post_stratified(np.array(sizes), np.full(len(sizes), size), num_judged, num_private)
            held.append(np.nan if found is None else float(found[1] <= truth <= found[2]))
        yield Row(
            f"{len(rates)} categories, {1 - judged:.0%} not judged", "raw rate of the source", float(np.nanmean(held))
        )
