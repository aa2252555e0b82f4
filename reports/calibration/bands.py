"""Bands of the severity score for another taxonomy, from labels.

Pictures with the same attributes are one combination, a vector of 0 and 1. A linear map takes it to 16 dimensions, in
which combinations with the same most severe level are near. Each level has a severity; that of a combination is the
mean of the levels' severities over all other combinations, in which nearer ones weigh more. The 5th percentile of the
severities of a level is the lower edge of its band; the last level begins at 0, the first ends at 1.

Source: Tsaprazlis et al., "Rethinking Visual Privacy", appendix A.1 and A.2. The paper leaves open what is chosen
here: the severity of level m of n is (n − m)/(n − 1); a combination is not its own neighbour; ε is the median squared
distance to the nearest other combination; the learning rate is 0.001, a batch 256 pictures. The published bands do not
follow from this: they are constants of the published taxonomy.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ingest.errors import LabelsError, number_of
from reports.statistics.binary import Numbers
from reports.words import percent
from scoring.taxonomy import Taxonomy

NUM_DIMENSIONS = 16
NUM_EPOCHS = 30
MIN_STEPS = 800
"""With few pictures there are more epochs, up to about as many batches as 30 epochs of the paper's 6,736 evaluation
pictures have."""

BATCH = 256
LEARNING_RATE, DECAY = 1e-3, 1e-2
"""Settings of AdamW; the decay is that of PyTorch."""

MARGIN, MARGIN_PER_LEVEL = 0.10, 0.12
PERCENTILE = 5.0
NUM_BOOTSTRAPS = 20

MIN_COMBINATIONS = 4
"""Different combinations of attributes that each level needs."""

MIN_NEAREST = 0.95
"""Share of pictures that must be nearest to the centre of their own level; else the embedding does not tell levels
apart."""

MAX_WIDTH_SHARE = 0.25
"""An edge whose standard deviation over bootstraps is a larger part of the narrower band next to it is unstable."""

COLLAPSED = 0.005
"""Edges this near to the severities of the levels themselves follow from no data."""

BLOCK = 1_000
"""Number of combinations whose distances to all others are in memory at once."""

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class LevelFit:
    level: int
    weight: int
    """What one attribute of the level adds to s_lex."""

    num_pictures: int
    num_combinations: int
    lower: float
    """Lower edge of the band; that of the last level is set to 0."""

    upper: float
    lower_sd: float | None
    """Standard deviation of the lower edge over fits of pictures drawn with replacement; None for the last level."""


@dataclass(frozen=True)
class BandsFit:
    """Bands of all levels, and what was chosen to get them."""

    levels: tuple[LevelFit, ...]
    epsilon: float
    nearest: float
    """Share of pictures that are nearest to the centre of their own level."""

    first_loss: float
    last_loss: float
    """Mean triplet loss of the first and of the last epoch."""

    num_empty: int
    """Pictures without any attribute, which have no level and are left out."""

    num_unjudged: int
    """Pictures left out because an attribute was not judged."""


def fitted_bands(values: Numbers, taxonomy: Taxonomy, seed: int) -> BandsFit:
    """Fit the bands of a taxonomy with four levels.

    values: shape (n, attributes), 0, 0.5, 1 or NaN; 0.5 counts as 0, as in the paper's labels. LabelsError if a level
    has too few combinations, or if the bands are degenerate or unstable.
    """
    is_judged = ~np.isnan(values).any(axis=1)
    present = values[is_judged] == 1
    is_empty = ~present.any(axis=1)
    combinations, pictures = np.unique(present[~is_empty], axis=0, return_inverse=True)
    level_of_attribute = np.array([attribute.level for attribute in taxonomy.attributes.values()])
    levels = np.where(combinations, level_of_attribute, 9).min(axis=1).astype(np.int64) if len(combinations) else None
    for level in sorted(taxonomy.levels):
        num = 0 if levels is None else int((levels == level).sum())
        if num < MIN_COMBINATIONS:
            raise LabelsError(
                f"level {level}: the labels have {number_of(num, 'combination')} of attributes whose most severe one "
                f"is of this level, and bands need {MIN_COMBINATIONS}; label more pictures"
            )
    assert levels is not None
    pictures = np.asarray(pictures, dtype=np.int64).reshape(-1)
    generator = np.random.default_rng(seed)
    fit = _edges(combinations, levels, pictures, generator)
    if fit.nearest < MIN_NEAREST:
        raise LabelsError(
            f"only {percent(fit.nearest, decimals=0)} of the pictures are nearest to the centre of their own level, "
            f"and bands need {percent(MIN_NEAREST, decimals=0)}; label more pictures"
        )
    _refuse_degenerate(fit.edges)
    draws = [
        _edges(combinations, levels, generator.choice(pictures, len(pictures)), generator).edges
        for _ in range(NUM_BOOTSTRAPS)
    ]
    deviations = np.std(draws, axis=0, ddof=1)
    _refuse_unstable(fit.edges, deviations)
    ends = [*fit.edges.tolist(), 0.0]
    return BandsFit(
        levels=tuple(
            LevelFit(
                level=level,
                weight=taxonomy.weights[number],
                num_pictures=int((levels[pictures] == level).sum()),
                num_combinations=int((levels == level).sum()),
                lower=ends[number],
                upper=ends[number - 1] if number else 1.0,
                lower_sd=float(deviations[number]) if number < len(deviations) else None,
            )
            for number, level in enumerate(sorted(taxonomy.levels))
        ),
        epsilon=fit.epsilon,
        nearest=fit.nearest,
        first_loss=fit.losses[0],
        last_loss=fit.losses[-1],
        num_empty=int(is_empty.sum()),
        num_unjudged=int((~is_judged).sum()),
    )


@dataclass(frozen=True)
class _Edges:
    edges: Numbers
    """Lower edges of all levels but the last, shape (levels − 1,); NaN for a level that no picture has."""

    epsilon: float
    nearest: float
    losses: list[float]


def _edges(
    combinations: npt.NDArray[np.bool_], levels: Integers, pictures: Integers, generator: np.random.Generator
) -> _Edges:
    """Fit the embedding and find the edges. pictures: shape (n,), the combination of each."""
    counts = np.bincount(pictures, minlength=len(combinations))
    is_there = counts > 0
    vectors, counts = combinations[is_there].astype(np.float64), counts[is_there]
    own = levels[is_there]
    places = np.cumsum(is_there) - 1
    weights, losses = _embedding(vectors, own, places[pictures], generator)
    embedded = _unit(vectors @ weights)
    severities, epsilon = _severities(embedded, own, counts)
    names = np.unique(own)
    centres = np.stack([np.average(embedded[own == name], axis=0, weights=counts[own == name]) for name in names])
    nearest = names[((centres**2).sum(axis=1) - 2 * embedded @ centres.T).argmin(axis=1)]
    edges = [
        np.percentile(np.repeat(severities[own == level], counts[own == level]), PERCENTILE)
        if (own == level).any()
        else np.nan
        for level in range(1, int(levels.max()))
    ]
    return _Edges(np.array(edges), epsilon, float(np.average(nearest == own, weights=counts)), losses)


def _embedding(
    vectors: Numbers, levels: Integers, pictures: Integers, generator: np.random.Generator
) -> tuple[Numbers, list[float]]:
    """Return the map, shape (attributes, 16), by the ordinal triplet loss, and the loss of each epoch."""
    weights = generator.normal(size=(vectors.shape[1], NUM_DIMENSIONS)) / np.sqrt(vectors.shape[1])
    mean, square, step = np.zeros_like(weights), np.zeros_like(weights), 0
    of_level = {level: pictures[levels[pictures] == level] for level in np.unique(levels).tolist()}
    of_others = {level: pictures[levels[pictures] != level] for level in of_level}
    losses = []
    for _ in range(max(NUM_EPOCHS, math.ceil(MIN_STEPS / math.ceil(len(pictures) / BATCH)))):
        total = 0.0
        order = generator.permutation(pictures)
        for first in range(0, len(order), BATCH):
            anchors = order[first : first + BATCH]
            positives, negatives = np.empty_like(anchors), np.empty_like(anchors)
            for level in of_level:
                members = levels[anchors] == level
                positives[members] = generator.choice(of_level[level], int(members.sum()))
                negatives[members] = generator.choice(of_others[level], int(members.sum()))
            margins = MARGIN + MARGIN_PER_LEVEL * np.abs(levels[anchors] - levels[negatives])
            loss, slopes = _loss(weights, vectors[anchors], vectors[positives], vectors[negatives], margins)
            total += loss * len(anchors)
            step += 1
            mean, square = 0.9 * mean + 0.1 * slopes, 0.999 * square + 0.001 * slopes**2
            moved = mean / (1 - 0.9**step) / (np.sqrt(square / (1 - 0.999**step)) + 1e-8)
            weights = weights * (1 - LEARNING_RATE * DECAY) - LEARNING_RATE * moved
        losses.append(total / len(order))
    return weights, losses


def _loss(
    weights: Numbers, anchors: Numbers, positives: Numbers, negatives: Numbers, margins: Numbers
) -> tuple[float, Numbers]:
    """Return the mean loss max(0, d(a, p) − d(a, n) + margin), d = 1 − cosine, and its slope by the weights."""
    a, p, n = (_unit(part @ weights) for part in (anchors, positives, negatives))
    losses = np.maximum(0, (a * n).sum(axis=1) - (a * p).sum(axis=1) + margins)
    counts = (losses > 0)[:, None] / len(losses)
    slopes = np.zeros_like(weights)
    for part, unit, slope in ((anchors, a, n - p), (positives, p, -a), (negatives, n, a)):
        lengths = np.linalg.norm(part @ weights, axis=1, keepdims=True)
        slopes += part.T @ (counts * (slope - unit * (unit * slope).sum(axis=1, keepdims=True)) / lengths)
    return float(losses.mean()), slopes


def _severities(embedded: Numbers, levels: Integers, counts: Integers) -> tuple[Numbers, float]:
    """Return the severity of each combination, shape (combinations,), and ε."""
    blocks = range(0, len(embedded), BLOCK)
    epsilon = float(np.median(np.concatenate([_distances(embedded, first).min(axis=1) for first in blocks])))
    values = (levels.max() - levels) / (levels.max() - 1)
    severities = []
    for first in blocks:
        near = counts / (_distances(embedded, first) + max(epsilon, 1e-12))
        severities.append(near @ values / near.sum(axis=1))
    return np.concatenate(severities), epsilon


def _distances(embedded: Numbers, first: int) -> Numbers:
    """Return squared distances of a block of combinations to all, shape (block, combinations); ∞ to itself."""
    block = embedded[first : first + BLOCK]
    distances = np.maximum(0, 2 - 2 * block @ embedded.T)  # of unit vectors
    distances[np.arange(len(block)), first + np.arange(len(block))] = np.inf
    return distances


def _unit(vectors: Numbers) -> Numbers:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(lengths, 1e-12), dtype=np.float64)


def _refuse_degenerate(edges: Numbers) -> None:
    shown = ", ".join(f"{edge:.3f}" for edge in edges)
    num = len(edges) + 1
    bare = np.array([(num - level) / (num - 1) for level in range(1, num)])
    if (np.diff([1.0, *edges, 0.0]) >= 0).any():
        raise LabelsError(
            f"the lower edges of the bands do not fall from level to level ({shown}); label more pictures"
        )
    if (np.abs(edges - bare) < COLLAPSED).all():
        raise LabelsError(
            f"the lower edges of the bands ({shown}) are the severities of the levels themselves, which follow from no "
            "data; label pictures with more different combinations of attributes"
        )


def _refuse_unstable(edges: Numbers, deviations: Numbers) -> None:
    widths = -np.diff([1.0, *edges, 0.0])
    narrower = np.minimum(widths[:-1], widths[1:])
    for number, is_unstable in enumerate(~(deviations <= MAX_WIDTH_SHARE * narrower)):
        if is_unstable:
            raise LabelsError(
                f"the lower edge of level {number + 1}, {edges[number]:.3f}, is unstable: over {NUM_BOOTSTRAPS} draws "
                f"of the pictures its standard deviation is {deviations[number]:.3f}, more than "
                f"{percent(MAX_WIDTH_SHARE, decimals=0)} of the narrower band next to it; label more pictures"
            )
