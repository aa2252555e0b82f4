"""Do corrected rates of screened runs, and of runs of drawn shards, hold the truth? For `statistics`."""

from collections.abc import Iterator

import numpy as np

from benchmarks.coverage import Row
from benchmarks.statistics_corpora import Random, holds, probabilities_of
from reports.audit.population import DrawnShards
from reports.statistics.estimates import (
    ABSENT,
    GUARDED,
    PRESENT,
    Counts,
    Flags,
    Labels,
    Numbers,
    Rates,
    evidence,
    masses_of,
    rates_of,
)
from scoring.runs.audit_files import NUM_CELLS, PRIVATE
from scoring.runs.record import ShardDraw

FIGURES = ("rate", "sensitivity", "specificity")


def screens(num_draws: int) -> Iterator[Row]:
    """A screen leaves most images out; its guard sends some of them to the engine, which finds a third there."""
    for num, rate, missed, passes, guard, num_labels, false_alarms in (
        (100_000, 0.05, 0.02, 0.1, 0.01, 400, 0.01),
        (100_000, 0.05, 0.1, 0.1, 0.01, 400, 0.01),
        (100_000, 0.01, 0.3, 0.1, 0.01, 400, 0.01),
        (100_000, 0.05, 0.02, 0.1, 0.01, 400, 0.05),
        (100_000, 0.05, 0.02, 0.1, 0.005, 200, 0.01),
        (10_000, 0.05, 0.02, 0.3, 0.05, 300, 0.01),
    ):
        random, held, widths, num_bounds = np.random.default_rng(9), list[list[float]](), list[float](), 0
        for _ in range(num_draws):
            truth = random.random(num) < rate
            is_out = np.where(truth, random.random(num) < missed, random.random(num) >= passes)
            is_guarded = is_out & (random.random(num) < guard)
            is_yes = np.where(truth, random.random(num) < np.where(is_out, 0.3, 0.8), random.random(num) < false_alarms)
            is_scored, mass = ~is_out | is_guarded, float(is_out.sum() / is_guarded.sum())
            cells = (np.where(is_yes, PRESENT, ABSENT) + GUARDED * is_guarded)[is_scored]
            num_images = np.bincount(cells, minlength=NUM_CELLS) * masses_of(mass)
            chance = probabilities_of(cells, num_images, num_labels, mass)
            drawn = np.flatnonzero(random.random(len(cells)) < chance)
            is_there = truth[is_scored][drawn].astype(np.float64)
            labels = Labels(cells[drawn], is_there, chance[drawn], masses_of(mass)[cells[drawn]])
            found = is_yes & ~is_out
            rates = truth.mean(), found[truth].mean(), (~found[~truth]).mean()
            corrected = rates_of(evidence(num_images, labels, mass))
            estimates = (corrected.prevalence, corrected.sensitivity, corrected.specificity)
            num_bounds += estimates[0].value is None
            held.append(list(map(holds, estimates, rates)))
            widths.append((estimates[0].high or 1.0) - (estimates[0].low or 0.0))
        name = (
            f"{num:,} images, {rate:.0%} private, screen misses {missed:.0%} and passes {passes:.0%}, "
            f"guard {guard:.1%}, {num_labels} labels, {false_alarms:.0%} false alarms"
        )
        said = f"width {np.mean(widths):.1%}" + (
            f", {num_bounds} of {num_draws} with bounds only" if num_bounds else ""
        )
        for figure, coverage in zip(FIGURES, np.nanmean(held, axis=0), strict=True):
            yield Row(name, f"{figure} of all images", float(coverage), said if figure == "rate" else "")


KINDS = (
    "errors alike",
    "truth even",
    "misses clustered",
    "rare, clustered",
    "engine always says no",
    "answers clustered, truth even",
)

NUM_SHARDS = 400

SAID = "the sentence says: if the other shards are like the drawn ones"
FEW = f"{SAID}, which so few cannot show"


def shards(num_draws: int) -> Iterator[Row]:
    """Images of some shards were scanned, and some of these labelled."""
    for kind in KINDS:
        for num, num_images, num_labels in ((40, 4_000, 400), (10, 2_000, 400)):
            random, held, widths = np.random.default_rng(20), list[list[float]](), list[float]()
            for _ in range(num_draws):
                rates, true = _audit_of_shards(kind, num, num_images, num_labels, random)
                held.append(list(map(holds, (rates.prevalence, rates.sensitivity, rates.specificity), true)))
                widths.append((rates.prevalence.high or 1.0) - (rates.prevalence.low or 0.0))
            name = f"{kind}, {num_images:,} images of {num} of {NUM_SHARDS} shards, {num_labels} labels"
            for figure, coverage in zip(FIGURES, np.nanmean(held, axis=0), strict=True):
                if figure == "rate" or kind != "engine always says no":
                    said = FEW if num < 30 else SAID if coverage < 0.93 else ""
                    width = f"width {np.mean(widths):.1%}" if figure == "rate" else ""
                    yield Row(name, f"{figure} of the source", float(coverage), "; ".join(filter(None, (width, said))))


def _audit_of_shards(
    kind: str, num: int, num_images: int, num_labels: int, random: Random
) -> tuple[Rates, tuple[float, float, float]]:
    shard, truth, is_yes = _source(kind, random)
    chosen = random.choice(NUM_SHARDS, num, replace=False)
    pool = np.flatnonzero(np.isin(shard, chosen))
    images = random.choice(pool, min(num_images, len(pool)), replace=False)
    cells = np.where(is_yes[images], PRESENT, ABSENT)
    counts = np.zeros((num, NUM_CELLS))
    places = np.searchsorted(np.sort(chosen), shard[images])
    np.add.at(counts, (places, cells), 1)
    chance = probabilities_of(cells, counts.sum(axis=0), num_labels)
    drawn = np.flatnonzero(random.random(len(images)) < chance)
    labels = Labels(cells[drawn], truth[images][drawn].astype(np.float64), chance[drawn])
    known = evidence(counts.sum(axis=0), labels)
    names = tuple(map(str, range(num)))
    draw = ShardDraw(num, NUM_SHARDS, len(images), len(pool))
    of_shards = DrawnShards(draw, names, {PRIVATE: counts[:, None]})
    rates = of_shards.of_source(PRIVATE, known, labels, [names[place] for place in places[drawn]], rates_of(known))
    return rates, (truth.mean(), is_yes[truth].mean(), (~is_yes[~truth]).mean())


def _source(kind: str, random: Random) -> tuple[Counts, Flags, Flags]:
    """Return the shard of each image of a source, whether it is private, and what the engine says."""
    shard = np.repeat(np.arange(NUM_SHARDS), np.clip(random.lognormal(6.3, 0.6, NUM_SHARDS).astype(int), 100, 3_000))

    def chance(of_shards: Numbers | float) -> Flags:
        return np.asarray(random.random(len(shard)) < of_shards)

    is_odd = (random.random(NUM_SHARDS) < {"misses clustered": 0.1, "rare, clustered": 0.05}.get(kind, 0.2))[shard]
    by_shard = random.beta(1, 9, NUM_SHARDS)[shard]
    if kind == "errors alike":
        truth = chance(by_shard)
        return shard, truth, np.where(truth, chance(0.75), chance(0.03))
    if kind == "truth even":
        truth = chance(0.1)
        return shard, truth, np.where(truth, chance(0.75), chance(0.03))
    if kind == "misses clustered":
        truth = chance(np.where(is_odd, 0.6, 0.05))
        return shard, truth, np.where(truth, chance(np.where(is_odd, 0.05, 0.9)), chance(0.03))
    if kind == "rare, clustered":
        truth = chance(np.where(is_odd, 0.1, 0.001))
        return shard, truth, np.where(truth, chance(0.7), chance(0.01))
    if kind == "engine always says no":
        return shard, chance(by_shard), np.zeros(len(shard), np.bool_)
    truth = chance(0.1)
    return shard, truth, np.where(truth, chance(0.75), chance(np.where(is_odd, 0.3, 0.01)))
