"""Screens on planted data: whether the promised miss rate holds, and whether drift is noticed.

    OPENBLAS_NUM_THREADS=1 python -m benchmarks.screen --draws 200

Three modalities, each of which tells something of two thirds of the pictures only, and nothing of the others. In each
draw a screen is fitted on new labels, and its true miss rate is measured on 5,000 other private pictures.
"""

import argparse
from collections import Counter
from dataclasses import dataclass

import numpy as np

from reports.screening.bounds import broken_bound, drifted_share
from reports.screening.compute import FitSettings, MadeScreen, is_screened, made_screen, scores_of
from reports.screening.pictures import LabelledFeatures
from scoring.labels.reviews import GuardLooks
from scoring.screen.guard import GuardCounts
from scoring.screen.modalities import Features
from scoring.screen.model import Vectors
from scoring.screen.record import ModalityName

NAMES: tuple[ModalityName, ...] = ("thumbnail", "caption", "encoder")
LENGTH = 4
SHIFT = 1.6
"""Distance of the two sides in each feature, in standard deviations, where a modality tells something."""

TELLING = 2 / 3
NUM_TRUE = 5_000


def planted(
    generator: np.random.Generator, num_private: int, num_public: int, broken: ModalityName | None = None
) -> LabelledFeatures:
    """broken: a modality that sees noise only."""
    num = num_private + num_public
    private = np.repeat([1.0, 0.0], [num_private, num_public])
    vectors = dict[ModalityName, np.ndarray[tuple[int, ...], np.dtype[np.float64]]]()
    for name in NAMES:
        tells = (generator.random(num) < TELLING) & (name != broken)
        vectors[name] = generator.normal(size=(num, LENGTH)) + (SHIFT * tells * (private - 0.5))[:, None]
    has_caption = generator.random(num) < 0.9
    views = [_view(vectors, number, bool(has_caption[number])) for number in range(num)]
    return LabelledFeatures(
        sha256=tuple(generator.bytes(32).hex() for _ in range(num)),
        private=private,
        levels=np.zeros(num, dtype=np.int64),
        probabilities=np.ones(num),
        is_even=np.ones(num, dtype=np.bool_),
        groups=np.arange(num, dtype=np.int64),
        views=tuple((view,) for view in views),
    )


def _view(
    vectors: dict[ModalityName, np.ndarray[tuple[int, ...], np.dtype[np.float64]]], number: int, has_caption: bool
) -> Vectors:
    return {
        name: Features(values[number].astype(np.float32)) if has_caption or name != "caption" else None
        for name, values in vectors.items()
    }


def fitted(
    generator: np.random.Generator,
    target: float,
    num_private: int,
    num_public: int,
    seed: int,
    names: tuple[ModalityName, ...] = NAMES,
) -> MadeScreen:
    identities = {name: {"features": "planted"} for name in names}
    settings = FitSettings(target, 0.95, None, 0.01, seed)
    labelled = planted(generator, num_private, num_public)
    return made_screen(labelled, identities, dict.fromkeys(names, LENGTH), settings, "0" * 64, "evenly")


def true_miss(made: MadeScreen, generator: np.random.Generator) -> float:
    """The share of new private pictures that the screen leaves out."""
    return _share_screened(made, planted(generator, NUM_TRUE, 0))


def _share_screened(made: MadeScreen, pictures: LabelledFeatures) -> float:
    return float(is_screened(scores_of(pictures, made.predictor), made.record).mean())


@dataclass(frozen=True)
class Noticed:
    """What the two signs of drift say of a scan."""

    stops: bool
    warns: bool


def scanned(
    made: MadeScreen,
    generator: np.random.Generator,
    num: int,
    prevalence: float,
    broken: ModalityName | None = None,
    guard_share: float = 0.01,
) -> Noticed:
    """A scan of `num` pictures whose private ones the engine finds all, and people who look at all guarded ones. The
    rates come from 4,000 pictures of a side, so that a large scan need not be made."""
    missed = _share_screened(made, planted(generator, 4_000, 0, broken))
    left_out = _share_screened(made, planted(generator, 0, 4_000, broken))
    num_private = generator.binomial(num, prevalence)
    private_out = generator.binomial(num_private, missed)
    public_out = generator.binomial(num - num_private, left_out)
    guarded = generator.binomial([private_out, public_out], guard_share)
    counts = GuardCounts(
        num_seen=num,
        num_screened=int(private_out + public_out - guarded.sum()),
        num_guarded=int(guarded.sum()),
        num_missed=int(guarded[0]),
        num_private=int(num_private - private_out),
    )
    return Noticed(
        broken_bound(counts, made.record, GuardLooks(counts.num_missed, counts.num_missed)) is not None,
        drifted_share(counts, made.record) is not None,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--target", type=float, default=0.01)
    asked = parser.parse_args()
    misses, passed, fusions = list[float](), list[float](), Counter[str]()
    signs = {name: list[Noticed]() for name in ("as labelled", "prevalence x 3", "thumbnail broken")}
    for draw in range(asked.draws):
        generator = np.random.default_rng([draw, 22])
        made = fitted(generator, asked.target, 1_035, 3_105, draw)
        misses.append(true_miss(made, generator))
        passed.append(1 - made.record.labelled.num_screened / made.record.labelled.num_pictures)
        fusions[made.record.fusion] += 1
        if draw < 40:
            signs["as labelled"].append(scanned(made, generator, 200_000, 0.25))
            signs["prevalence x 3"].append(scanned(made, generator, 200_000, 0.75))
            signs["thumbnail broken"].append(scanned(made, generator, 200_000, 0.25, "thumbnail"))
    kept = np.mean(np.array(misses) <= asked.target)
    print(f"target {asked.target:g}: kept in {kept:.1%} of {asked.draws} draws; mean true miss {np.mean(misses):.4f}")
    print(f"passes {np.mean(passed):.3f}; fusions: {dict(fusions)}")
    for name, noticed in signs.items():
        stops, warns = (np.mean([getattr(each, sign) for each in noticed]) for sign in ("stops", "warns"))
        print(f"{name}: the scan stops in {stops:.0%}, warns in {warns:.0%} of {len(noticed)}")


if __name__ == "__main__":
    main()
