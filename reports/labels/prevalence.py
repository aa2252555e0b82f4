"""How much more or less often annotators find each attribute than the majority of people.

Source: Tsaprazlis et al., "Rethinking Visual Privacy": over- and under-prediction of models. The paper does not print
its unit; here it is a difference of shares of the same pictures.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np

from reports.statistics.paired import interval_of_mean
from scoring.labels.consensus import yes_of_most
from scoring.labels.judgements import Floats, Judgements
from scoring.taxonomy import ATTRIBUTES, LEVELS


@dataclass(frozen=True)
class AttributePrevalence:
    """An attribute, or the mean of the attributes of a level, in the pictures that an annotator and people judged."""

    name: str
    annotator: str
    num_pictures: int
    share: float
    """Share of these pictures in which the annotator finds it; an unclear cue (0.5) does not count."""

    share_of_people: float
    """Share in which more than half of the people find it; a tie does not count."""

    difference: float
    """share − share_of_people: above 0 where the annotator finds it too often."""

    low: float
    """Lower end of the 95 % interval of the difference."""

    high: float


def prevalences(judged: Judgements, people: Collection[str]) -> Iterator[AttributePrevalence]:
    """Yield the prevalences of each annotator not in `people`: the attributes in the order of the taxonomy, then the
    levels."""
    is_person = np.array([name in people for name in judged.annotators])
    truth = yes_of_most(judged.values[is_person])
    for name, values in zip(judged.annotators, judged.values, strict=True):
        if name in people:
            continue
        both = ~np.isnan(values) & ~np.isnan(truth)
        says, is_there = np.where(both, values == 1, np.nan), np.where(both, truth, np.nan)
        for index, attribute in enumerate(ATTRIBUTES):
            yield from _compared(attribute.key, name, says[:, [index]], is_there[:, [index]])
        for level in sorted(set(LEVELS) - {0}):
            places = [index for index, attribute in enumerate(ATTRIBUTES) if attribute.level == level]
            yield from _compared(f"mean of level {level}", name, says[:, places], is_there[:, places])


def _compared(what: str, annotator: str, says: Floats, is_there: Floats) -> Iterator[AttributePrevalence]:
    """Yield the prevalence, or nothing if there is no picture that both judged.

    says, is_there: shape (pictures, attributes), NaN if not judged.
    """
    is_judged = ~np.isnan(says).any(axis=1)
    if not is_judged.any():
        return
    shares, of_people = says[is_judged].mean(axis=1), is_there[is_judged].mean(axis=1)
    differences = shares - of_people
    deviation = float(differences.std(ddof=1)) if len(differences) > 1 else 0.0
    mean = float(differences.mean())
    ends = interval_of_mean(len(differences), mean, deviation)
    yield AttributePrevalence(
        what, annotator, len(differences), float(shares.mean()), float(of_people.mean()), mean, *ends
    )
