"""Do printed intervals hold the truth? python -m benchmarks.statistics [--draws 300] [--only WORD]

Corpora whose truth is known are audited many times, in every setting in which an interval once failed. Each line says
how often a nominal 95 % interval held the truth, and what the commands say where it does not. The settings of
`evaluate`, `diff` and `labels agreement` are in `statistics_evaluation`, those of categories in
`statistics_categories`.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from benchmarks.coverage import Row
from benchmarks.statistics_categories import categories, category_sizes, weighted_source
from benchmarks.statistics_corpora import Corpus, Make, Random, holds, probabilities_of, with_probabilities, yes_or_no
from benchmarks.statistics_designs import screens, shards
from benchmarks.statistics_evaluation import agreements, answers, changes, scores_and_attributes
from reports.audit.cells import CellCounts
from reports.audit.compute import private_rate
from reports.audit.population import of_source
from reports.statistics.estimates import IS_YES, NOT_JUDGED, Counts, Labels, Numbers, evidence, rates_of
from reports.statistics.shares import standings
from scoring.labels.table import JudgedLabels, to_labels
from scoring.runs.audit_files import NUM_CELLS, PRIVATE, SAMPLE_SCHEMA, AuditDesign, AuditSample
from tests.reports import shard_draws

CAUTION = "the audit says that labels count as the truth"
AUDITS: dict[str, tuple[Make, int]] = {
    ".17 % private, specificity .99": (yes_or_no(20_000, 0.0017, 0.7, 0.99), 400),
    ".17 % private, specificity .90": (yes_or_no(20_000, 0.0017, 0.7, 0.90), 400),
    "10 % private, sensitivity .3": (yes_or_no(20_000, 0.1, 0.3, 0.97), 400),
    "1 % private, sensitivity .3": (yes_or_no(20_000, 0.01, 0.3, 0.97), 400),
    "30 % private, sensitivity .98": (yes_or_no(20_000, 0.3, 0.98, 0.95), 400),
    "30 % private, sensitivity .99, 200 labels": (yes_or_no(20_000, 0.3, 0.99, 0.99), 200),
    "10 % private, sensitivity .95, specificity .98": (yes_or_no(20_000, 0.1, 0.95, 0.98), 400),
    "300 images, 100 labels": (yes_or_no(300, 0.17, 0.8, 0.95), 100),
    "200 images, 60 labels": (yes_or_no(200, 0.3, 0.95, 0.95), 60),
    "60 images, 30 labels": (yes_or_no(60, 0.32, 0.8, 0.95), 30),
    "probabilities, 10 % private": (with_probabilities(20_000, 0.098, 3.0), 400),
    "probabilities, 2 % private": (with_probabilities(20_000, 0.02, 3.0), 400),
    "probabilities, AUC .998, 200 labels": (with_probabilities(20_000, 0.1, 4.1), 200),
    "probabilities, AUC .998, 400 labels": (with_probabilities(20_000, 0.1, 4.1), 400),
    "engine always says no, 5 % private": (yes_or_no(20_000, 0.05, 0.0, 1.0), 400),
    "engine always says yes, 5 % private": (yes_or_no(20_000, 0.05, 1.0, 0.0), 400),
    "engine always says no, .2 % private": (yes_or_no(20_000, 0.002, 0.0, 1.0), 400),
    "engine says yes to .05 %, .1 % private": (yes_or_no(20_000, 0.001, 0.4, 0.9999), 400),
    "engine says yes to .2 %, 1 % private, 200 labels": (yes_or_no(100_000, 0.01, 0.2, 0.9998), 200),
}


def audits(num_draws: int) -> Iterator[Row]:
    """Rate, sensitivity and specificity of the scored images, with right labels."""
    for name, (make, num_labels) in AUDITS.items():
        random, held = np.random.default_rng(1), list[list[float]]()
        for _ in range(num_draws):
            corpus = make(random)
            chance = probabilities_of(corpus.cells, corpus.num_images, num_labels)
            drawn = np.flatnonzero(random.random(len(chance)) < chance)
            truth, is_yes = corpus.truth, IS_YES[corpus.cells]
            labels = Labels(corpus.cells[drawn], truth[drawn].astype(np.float64), chance[drawn])
            rates = rates_of(evidence(corpus.num_images, labels))
            found = is_yes[truth].mean() if truth.any() else np.nan
            true = truth.mean(), found, (~is_yes[~truth]).mean()
            held.append(list(map(holds, (rates.prevalence, rates.sensitivity, rates.specificity), true)))
        for figure, coverage in zip(("rate", "sensitivity", "specificity"), np.nanmean(held, axis=0), strict=True):
            if not (name.startswith("engine always") and figure != "rate"):
                yield Row(name, figure, float(coverage))


def never_judged(num_draws: int) -> Iterator[Row]:
    """An attribute that no engine judges is present only where the sample is thin."""
    for thin, rate in ((0.1, 0.1), (0.1, 0.3), (0.3, 0.05), (0.03, 0.4)):
        random, held = np.random.default_rng(2), list[float]()
        for _ in range(num_draws):
            is_thin = random.random(20_000) < thin
            truth = is_thin & (random.random(20_000) < rate)
            density = np.where(is_thin, 1 / 3, 1.0)
            chance = 400 / 20_000 * density / density.mean()
            drawn = np.flatnonzero(random.random(20_000) < chance)
            num_images = np.bincount([NOT_JUDGED], minlength=NUM_CELLS) * 20_000
            cells = np.full(len(drawn), NOT_JUDGED)
            known = evidence(num_images, Labels(cells, truth[drawn].astype(np.float64), chance[drawn]))
            held.append(holds(rates_of(known).prevalence, float(truth.mean())))
        yield Row(f"never judged, in {rate:.0%} of the {thin:.0%} drawn thinly", "rate", float(np.mean(held)))


def sources(num_draws: int) -> Iterator[Row]:
    """The run itself is a random sample, or one of each category."""
    for size, num_labels, rate in (
        (1_000, 400, 0.12),
        (2_000, 400, 0.12),
        (5_000, 400, 0.12),
        (20_000, 2_000, 0.12),
        (1_000, 1_000, 0.12),
        (400, 400, 0.13),
        (1_000, 400, 0.01),
    ):
        random, held = np.random.default_rng(3), list[float]()
        for _ in range(num_draws):
            corpus = yes_or_no(size, rate, 0.7, 0.97)(random)
            chance = (
                np.ones(size) if num_labels == size else probabilities_of(corpus.cells, corpus.num_images, num_labels)
            )
            drawn = np.flatnonzero(random.random(size) < chance)
            labels = corpus.truth[drawn].astype(np.float64)
            known = evidence(corpus.num_images, Labels(corpus.cells[drawn], labels, chance[drawn]))
            held.append(holds(of_source(rates_of(known).prevalence, size), rate))
        yield Row(
            f"run of {size:,} drawn from a source, {num_labels:,} labels, {rate:.0%}",
            "rate of the source",
            float(np.mean(held)),
        )
    for rates, sizes, size, num_labels in (
        ((0.02, 0.8), (900_000, 100_000), 300, 300),
        ((0.02, 0.8), (900_000, 100_000), 2_000, 400),
        (tuple(np.linspace(0.01, 0.5, 20)), tuple(np.geomspace(1e3, 1e6, 20)), 200, 400),
    ):
        yield weighted_source(rates, sizes, size, num_labels, num_draws)
    for num_all, rate, alikeness, num_shards, num_images in (
        (400, 0.12, 0.05, 40, 2_000),
        (400, 0.12, 0.3, 40, 2_000),
        (400, 0.02, 0.05, 40, 2_000),
        (400, 0.12, 0.05, 5, 2_000),
        (60, 0.12, 0.1, 30, 3_000),
        (4_000, 0.005, 0.02, 100, 10_000),
        (400, 0.005, 0.3, 40, 2_000),
    ):
        yield Row(
            f"{num_images:,} images in {num_shards} of {num_all:,} shards, {rate:.1%}, correlation in them {alikeness}",
            "raw rate of the source",
            shard_draws.coverage(shard_draws.source(num_all, rate, alikeness), num_shards, num_images, num_draws),
        )


@dataclass(frozen=True)
class People:
    """What people make of the pictures of an audit sample."""

    name: str
    wrong: float = 0.0
    """Share of answers that are wrong."""

    second: float = 0.0
    """Share of the pictures that a second person judges."""

    skips_private: float = 0.0
    """Share of the private pictures that are skipped."""

    has_copies: bool = False
    """Three of ten pictures have a copy; labels name pictures by key."""

    said: str = ""


PEOPLE = (
    People("right labels"),
    People("one person, 5 % wrong", wrong=0.05, said=CAUTION),
    People("one person, 5 % wrong, a tenth judged twice", wrong=0.05, second=0.1),
    People("two people, half judged twice, 5 % wrong", wrong=0.05, second=0.5),
    People("two people judge all, 3 % wrong", wrong=0.03, second=1.0),
    People("two people judge all, 10 % wrong", wrong=0.1, second=1.0),
    People("30 % of the private pictures skipped", skips_private=0.3),
    People("copies of 30 %, labels by key", has_copies=True),
)


def people(num_draws: int) -> Iterator[Row]:
    """The whole path from labels to the rate, of a corpus with 10 % private pictures."""
    for who in PEOPLE:
        random, held = np.random.default_rng(6), list[float]()
        for _ in range(num_draws):
            held.append(_audited(who, random))
        yield Row(who.name, "rate", float(np.mean(held)), who.said)


def _audited(who: People, random: Random) -> float:
    corpus = yes_or_no(5_000, 0.1, 0.8, 0.97)(random)
    pictures = np.arange(5_000)
    if who.has_copies:  # copies of the first pictures, which are private more often
        order = np.argsort(~corpus.truth, kind="stable")
        truth, cells = corpus.truth[order], corpus.cells[order]
        corpus = Corpus(np.concatenate([truth, truth[:1_500]]), np.concatenate([cells, cells[:1_500]]))
        pictures = np.concatenate([np.arange(5_000), np.arange(1_500)])
    chance = probabilities_of(corpus.cells, corpus.num_images, 400)
    drawn = random.permutation(np.flatnonzero(random.random(len(chance)) < chance))
    sample = _sample(corpus, pictures, drawn, chance)
    truth = corpus.truth[drawn]
    is_skipped = truth & (random.random(len(drawn)) < who.skips_private)
    rows: dict[str, list[object]] = {"key": [], "sha256": [], "annotator": [], "private": []}
    seen = set[int]()
    for place, is_private, skip in zip(range(len(drawn)), truth.tolist(), is_skipped.tolist(), strict=True):
        picture = int(pictures[drawn[place]])
        if picture in seen:
            continue
        seen.add(picture)
        for name in ("ana", "ben")[: 1 + (random.random() < who.second)]:
            rows["key"].append(f"k{drawn[place]}")
            rows["sha256"].append(None if who.has_copies else f"{picture:064x}")
            rows["annotator"].append(name)
            rows["private"].append(None if skip else int(is_private ^ (random.random() < who.wrong)))
    nothing = np.zeros(len(rows["key"]), np.bool_)
    judged = JudgedLabels(to_labels(rows, len(nothing)), nothing, nothing, nothing)
    return holds(
        private_rate(sample, CellCounts((), {PRIVATE: corpus.num_images[None, None]}), judged),
        float(corpus.truth.mean()),
    )


def _sample(corpus: Corpus, pictures: npt.NDArray[np.int64], drawn: Counts, chance: Numbers) -> AuditSample:
    columns: dict[str, list[object]] = {
        "shard": ["0.tar"] * len(drawn),
        "index": drawn.tolist(),
        "key": [f"k{n}" for n in drawn],
        "name": [f"k{n}" for n in drawn],
        "sha256": [f"{pictures[n]:064x}" for n in drawn],
        "inclusion_probability": chance[drawn].tolist(),
        f"cell_{PRIVATE}": corpus.cells[drawn].tolist(),
    }
    arrays = [
        pa.array(columns.get(field.name, [None if field.nullable else 0] * len(drawn)), field.type)
        for field in SAMPLE_SCHEMA
    ]
    num = len(corpus.truth)
    design = AuditDesign(
        num_wanted=400, seed=0, purpose="private", private="level IN (1, 2)", settings="", num_rows=num,
        rows_sha256="0" * 64, num_scored=num, least_probability=1e-12, guard_mass=1, privsieve="",
    )  # fmt: skip
    return AuditSample(pa.Table.from_arrays(arrays, schema=SAMPLE_SCHEMA), design)


def ranks(num_draws: int) -> Iterator[Row]:
    """Joint intervals of many small groups and one large one; no false order."""
    for num, size, rate, large, large_rate, num_large in (
        (300, 20, 0.004, 100_000, 0.005, 1),
        (1_000, 20, 0.002, 100_000, 0.003, 3),
        (300, 30, 0.01, 50_000, 0.012, 5),
        (2_000, 50, 0.02, 200_000, 0.025, 1),
        (364, 50, 0.05, 100_000, 0.06, 1),
        (364, 274, 0.001, 50_000, 0.002, 1),
    ):
        random, right = np.random.default_rng(8), 0
        sizes = np.array([size] * num + [large] * num_large)
        rates = np.array([rate] * num + [large_rate] * num_large)
        for _ in range(num_draws):
            counts = random.binomial(sizes, rates)
            found = standings([(int(k), int(n), 0.0) for k, n in zip(counts, sizes, strict=True)])
            is_small_right = all(low <= num_large + 1 and high == num + num_large for low, high in found[:num])
            right += is_small_right and all(low == 1 for low, _ in found[num:])
        yield Row(f"{num:,} groups of {size} at {rate:.1%}, {num_large} of {large:,}", "all ranks", right / num_draws)


PARTS = (
    audits,
    never_judged,
    sources,
    screens,
    shards,
    categories,
    people,
    category_sizes,
    ranks,
    answers,
    scores_and_attributes,
    changes,
    agreements,
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--only", choices=[part.__name__ for part in PARTS])
    arguments = parser.parse_args()
    print("| setting | interval of | holds the truth | where it does not |\n|---|---|---|---|")
    for part in PARTS:
        if arguments.only in (None, part.__name__):
            for row in part(arguments.draws):
                print(f"| {row.setting} | {row.figure} | {row.coverage:.1%} | {row.said} |", flush=True)


if __name__ == "__main__":
    main()
