"""Finds labels that are probably wrong: those with the smallest area under the margin.

The margin of a picture is the logit of its label minus the largest other logit. The area is its mean over the epochs of
a fit, taken each time before the model learns from the picture. A wrong label contradicts what the other pictures
teach, so its margin stays small until the model learns it by heart, which a large weight decay prevents. As a measure,
a third of the pictures gets a class of its own that means nothing: the areas of wrong labels may be like those of these
pictures. Three runs take the thirds in turn, so that every label is judged twice.

A label is suspicious below some percentile of these areas, which is learnt from labels that are turned over on purpose.
The paper's 99th percentile takes away half of a planted set (docs/measured/labels.md).

Source: Pleiss et al., "Identifying Mislabeled Data using the Area Under the Margin Ranking", as Zhao et al. use it
("PrivacyAlert"), who fine-tune whole networks. Here it is one hidden layer over the features of a screen.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ingest.errors import LabelsError, number_of
from reports.screening.pictures import MIN_TO_LEARN, LabelledFeatures, first_views
from reports.statistics.binary import Flags, Numbers
from reports.words import percent
from scoring.screen.heads import scaling
from scoring.screen.modalities import Features
from scoring.screen.record import ModalityName

NUM_CLASSES = 3
"""Private, public, and the class that means nothing; also the number of runs."""

NUM_UNITS = 64
BATCH = 64
NUM_STEPS = 600
"""Number of batches of a fit, if these are no fewer epochs than `MIN_EPOCHS`."""

BLOCK = 64
"""Number of features that are multiplied at once. Products this small run on one thread; several threads would wait for
each other much longer than they compute."""

MIN_EPOCHS, MAX_EPOCHS = 4, 100
LEARNING_RATE, MOMENTUM, DECAY = 0.05, 0.9, 1e-2
"""Stochastic gradient descent; chosen on planted sets (tests/benchmarks/wrong_labels.py)."""

INPUT_LENGTH = 8.0
"""Length of a usual input vector: the learning rate does not depend on the number of features."""

NUM_CAPTION_PLACES = 512
"""Words of captions are hashed into this number of features."""

PLANTED_SHARE = 0.03
"""Share of the labels of each class that the self-test turns over. PrivacyAlert's authors removed as many."""

NUM_PLANTINGS = 3
"""How often the self-test does so."""

PERCENTILES = (1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 50.0, 70.0, 90.0, 99.0)
"""Percentiles that are tried; the last is the paper's."""

MIN_PRECISION = 0.5
"""At the chosen percentile, at least this share of what is found in the self-test was planted."""

MIN_GAIN = 3.0
"""The ranking must find planted labels this many times as often as chance."""

Labels = npt.NDArray[np.int64]
Inputs = npt.NDArray[np.float32]


@dataclass(frozen=True)
class PercentileTest:
    """What a percentile finds in the self-test; means over the plantings."""

    percentile: float
    share: float
    """Share of the labels that it calls suspicious."""

    precision: float | None
    """Share of these that was planted; None if there is none. Labels that were wrong before count as right ones here,
    so it is rather too low."""

    recall: float
    """Share of the planted labels that it finds."""


@dataclass(frozen=True)
class SelfTest:
    """How well planted wrong labels are found in the user's own pictures."""

    num_planted: int
    """Labels that were turned over in each planting."""

    precision: float
    """Share of planted ones among as many labels with the smallest areas."""

    chance: float
    """The same share among all labels."""

    percentiles: tuple[PercentileTest, ...]


@dataclass(frozen=True)
class RankedLabel:
    sha256: str
    private: bool
    """The label."""

    area: float
    """Area under the margin, in logits; below 0 the other label fits better."""


@dataclass(frozen=True)
class SuspiciousLabels:
    test: SelfTest
    percentile: float
    num_below: int
    """Labels below the percentile; fewer are suspicious if the largest share allows fewer."""

    num_suspicious: int
    """The first of `ranking`."""

    ranking: tuple[RankedLabel, ...]
    """Every label, the most suspicious first."""

    num_undecided: int
    """Pictures on whose label people do not agree; they are not judged."""

    @property
    def suspicious(self) -> tuple[RankedLabel, ...]:
        return self.ranking[: self.num_suspicious]


def suspicious_labels(
    pictures: LabelledFeatures,
    lengths: Mapping[ModalityName, int],
    max_share: float,
    percentile: float | None,
    seed: int,
) -> SuspiciousLabels:
    """Rank the labels by their areas, and find those that are suspicious.

    lengths: of the vectors of each modality. percentile: None for the largest with enough precision in the test.
    LabelsError if there are too few labels, if planted wrong labels are not found, or if `percentile` finds more than
    `max_share` of all labels.
    """
    is_judged = ~pictures.is_undecided
    labels = pictures.is_private[is_judged].astype(np.int64)
    for side, name in ((1, "private"), (0, "public")):
        if (num := int((labels == side).sum())) < MIN_TO_LEARN:
            raise LabelsError(
                f"there {'is' if num == 1 else 'are'} {number_of(num, f'{name} picture')} with a label; to find wrong "
                f"ones takes {MIN_TO_LEARN} of each side"
            )
    inputs = inputs_of(pictures, is_judged, lengths)
    test = self_test(inputs, labels, seed)
    if test.precision < MIN_GAIN * test.chance:
        raise LabelsError(
            f"of as many labels as were turned over on purpose, only {percent(test.precision)} of those with the "
            f"smallest margins were such ones ({percent(test.chance)} by chance): what the model sees says too "
            "little of what is private; give another --modality or an --encoder"
        )
    final, fakes = areas(inputs, labels, np.random.default_rng(seed))
    used = chosen_percentile(test) if percentile is None else percentile
    num_below = int((final < np.percentile(fakes, used)).sum())
    most = int(max_share * len(labels))
    if percentile is not None and num_below > most:
        raise LabelsError(
            f"--percentile {percentile:g} calls {num_below:,} of {len(labels):,} labels suspicious "
            f"({percent(num_below / len(labels))}), more than --max-share {max_share:g}; leave it out, and the "
            f"self-test chooses ({chosen_percentile(test):g})"
        )
    names = [name for name, judged in zip(pictures.sha256, is_judged.tolist(), strict=True) if judged]
    order = sorted(range(len(names)), key=lambda number: (final[number], names[number]))
    ranking = tuple(RankedLabel(names[i], bool(labels[i]), float(final[i])) for i in order)
    num_undecided = int(pictures.is_undecided.sum())
    return SuspiciousLabels(test, used, num_below, min(num_below, most), ranking, num_undecided)


def inputs_of(pictures: LabelledFeatures, members: Flags, lengths: Mapping[ModalityName, int]) -> Inputs:
    """Return what the model sees of the first view of each member. Shape (members, d).

    A missing modality is 0, which is the mean where vectors are given in full.
    """
    views = first_views(pictures.views, members)
    blocks = []
    for name, length in lengths.items():
        vectors = [view.get(name) for view in views]
        known = [vector for vector in vectors if vector is not None]
        if not known:
            continue
        if known[0].places is not None:
            blocks.append(np.stack([_hashed(vector) for vector in vectors]))
            continue
        mean, scale = scaling(np.stack([vector.values for vector in known]).astype(np.float64))
        blocks.append(np.stack([np.zeros(length) if v is None else (v.values - mean) / scale for v in vectors]))
    if not blocks:
        raise LabelsError("no labelled picture has what these modalities see, such as a caption")
    inputs = np.hstack(blocks)
    usual = max(1e-6, float(np.sqrt((inputs**2).sum(axis=1).mean())))
    return np.asarray(inputs * (INPUT_LENGTH / usual), dtype=np.float32)


def _hashed(vector: Features | None) -> Numbers:
    """Return the vector hashed into fewer places, shape (NUM_CAPTION_PLACES,)."""
    hashed = np.zeros(NUM_CAPTION_PLACES)
    if vector is not None and vector.places is not None:
        signs = 1.0 - 2.0 * (vector.places // NUM_CAPTION_PLACES % 2)
        np.add.at(hashed, vector.places % NUM_CAPTION_PLACES, signs * vector.values)
    return hashed


def self_test(inputs: Inputs, labels: Labels, seed: int) -> SelfTest:
    """Turn over some labels on purpose, and measure how many of them are found."""
    plantings = list[tuple[Flags, Numbers, Numbers]]()
    for planting in range(NUM_PLANTINGS):
        generator = np.random.default_rng((seed, planting))
        is_planted = np.zeros(len(labels), dtype=np.bool_)
        for side in (0, 1):
            members = np.flatnonzero(labels == side)
            is_planted[generator.choice(members, max(1, round(PLANTED_SHARE * len(members))), replace=False)] = True
        plantings.append((is_planted, *areas(inputs, np.where(is_planted, 1 - labels, labels), generator)))
    num_planted = int(plantings[0][0].sum())
    precision = float(np.mean([precision_at_planted(is_planted, area) for is_planted, area, _ in plantings]))
    tests = []
    for percentile in PERCENTILES:
        num_right = num_below = 0
        for is_planted, area, of_fakes in plantings:
            is_below = area < np.percentile(of_fakes, percentile)
            num_right, num_below = num_right + int((is_below & is_planted).sum()), num_below + int(is_below.sum())
        tests.append(
            PercentileTest(
                percentile,
                num_below / NUM_PLANTINGS / len(labels),
                num_right / num_below if num_below else None,
                num_right / NUM_PLANTINGS / num_planted,
            )
        )
    return SelfTest(num_planted, precision, num_planted / len(labels), tuple(tests))


def areas(inputs: Inputs, labels: Labels, generator: np.random.Generator) -> tuple[Numbers, Numbers]:
    """Return the areas of the pictures, and of the same pictures while they had the class that means nothing.

    inputs: shape (n, d). labels: shape (n,), 0 or 1. Each of shape (n,).
    """
    part = generator.permutation(len(labels)) % NUM_CLASSES
    of_pictures, of_fakes = np.zeros((2, len(labels)))
    for run in range(NUM_CLASSES):
        is_fake = part == run
        area = _areas_of_run(inputs, np.where(is_fake, 2, labels), generator)
        of_pictures[~is_fake] += area[~is_fake] / (NUM_CLASSES - 1)
        of_fakes[is_fake] = area[is_fake]
    return of_pictures, of_fakes


def precision_at_planted(is_planted: Flags, area: Numbers) -> float:
    """Return the share of planted labels among as many with the smallest areas."""
    return float(is_planted[np.argsort(area, kind="stable")[: int(is_planted.sum())]].mean())


def chosen_percentile(test: SelfTest) -> float:
    """Return the largest percentile with enough precision; the smallest if none has."""
    good = [t.percentile for t in test.percentiles if t.precision is not None and t.precision >= MIN_PRECISION]
    return max(good, default=PERCENTILES[0])


def _areas_of_run(inputs: Inputs, labels: Labels, generator: np.random.Generator) -> Numbers:
    """Return the area of each label, 0–2. Shape (n,)."""
    num, length = inputs.shape
    num_blocks = math.ceil(length / BLOCK)
    blocks = np.zeros((num_blocks, num, BLOCK), dtype=np.float32)
    for block in range(num_blocks):
        part = inputs[:, block * BLOCK : (block + 1) * BLOCK]
        blocks[block, :, : part.shape[1]] = part
    hidden = (generator.normal(size=(num_blocks, BLOCK, NUM_UNITS)) / INPUT_LENGTH).astype(np.float32)
    output = (generator.normal(size=(NUM_UNITS + 1, NUM_CLASSES)) / 10).astype(np.float32)
    moved_hidden, moved_output = np.zeros_like(hidden), np.zeros_like(output)
    is_label = np.eye(NUM_CLASSES, dtype=np.float32)[labels]
    num_epochs = int(np.clip(round(NUM_STEPS * BATCH / num), MIN_EPOCHS, MAX_EPOCHS))
    total = np.zeros(num)
    for _ in range(num_epochs):
        order = generator.permutation(num)
        for first in range(0, num, BATCH):
            batch = order[first : first + BATCH]
            seen, is_theirs = blocks[:, batch], is_label[batch]
            units = np.maximum((seen @ hidden).sum(axis=0), 0)
            with_bias = np.hstack([units, np.ones((len(batch), 1), np.float32)])
            logits = with_bias @ output
            others = np.where(is_theirs == 1, -np.inf, logits).max(axis=1)
            total[batch] += (logits * is_theirs).sum(axis=1) - others
            shares = np.exp(logits - logits.max(axis=1, keepdims=True))
            slopes = (shares / shares.sum(axis=1, keepdims=True) - is_theirs) / len(batch)
            of_hidden = seen.transpose(0, 2, 1) @ ((slopes @ output[:-1].T) * (units > 0)) + DECAY * hidden
            of_output = with_bias.T @ slopes + DECAY * output
            moved_hidden = MOMENTUM * moved_hidden - LEARNING_RATE * of_hidden
            moved_output = MOMENTUM * moved_output - LEARNING_RATE * of_output
            hidden, output = hidden + moved_hidden, output + moved_output
    return total / num_epochs
