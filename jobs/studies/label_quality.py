"""How right the labels of a data set are, by what people say of a balanced sample (Samson et al., label quality).

The first command draws the pictures and writes them without their labels, in a random order. People then label them,
after they have read the data set's own definition of private. The second command compares.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import numpy.typing as npt

from ingest.errors import LabelsError, number_of
from ingest.storage.place import place
from jobs.console.requests import Count, Option, Seed, Url, Urls, checked_request
from jobs.labelling.labels import labels_of
from reports.labels.agreement import agreement
from reports.statistics.intervals import Draws, Interval, of_share
from reports.words import percent
from scoring.labels.judgements import Judgements, judgements
from scoring.labels.picture_index import PictureIndex
from scoring.labels.table import LabelsOrigin, attribute_values, read_labels, to_labels, write_labels
from scoring.privacy import private_of_labels
from scoring.table import numbers_of

NAMES = ("sha256", "key")
TO_LABEL = "to label"
"""Annotator of the drawn pictures, whose labels are withheld."""

MIN_ANSWERS = 3
"""People who must say the same of a picture, and be more than half of those who judged it."""


@checked_request
class LabelQualityRequest:
    """Which labels people check."""

    labels: Annotated[Url, Option(argument="LABELS")]
    """Labels file of the data set."""

    out: Url
    """File of the drawn pictures without labels: .parquet, or .csv. Written by the first command."""

    answers: Annotated[Urls, Option(metavar="LABELS|RUN")] = ()
    """What people say of the drawn pictures: labels files, or the reviews of a run; repeatable."""

    num_per_side: Annotated[Count, Option("--n")] = 25
    """Private pictures that are drawn, and as many public ones."""

    seed: Seed = 0
    """Seed of the draw."""


@dataclass(frozen=True)
class LabelQualityResult:
    """Figures are None until people have answered."""

    num_drawn: int
    """Pictures that were drawn, half of them private by their labels."""

    reviewers: tuple[str, ...] = ()
    num_judged: int = 0
    """Drawn pictures of which at least three people, and more than half, say the same."""

    num_right: int = 0
    """Judged pictures whose label is what people say."""

    accuracy: float | None = None
    accuracy_interval: Interval | None = None
    """95 %."""

    num_private_wrong: int = 0
    """Judged pictures that are labelled private, and that people call public."""

    num_public_wrong: int = 0
    """Judged pictures that are labelled public, and that people call private."""

    fleiss: float | None = None
    """Fleiss' κ of the people; None if not defined."""

    fleiss_interval: Interval | None = None


def run_label_quality(request: LabelQualityRequest) -> LabelQualityResult:
    """Draw the sample if `out` does not exist; else compare it with the answers. LabelsError in one line."""
    labels = read_labels(request.labels)
    private = private_of_labels(numbers_of(labels, "private"), attribute_values(labels))
    if not place(request.out).exists():
        if request.answers:
            raise LabelsError(f"{request.out} is not there yet; draw first, without --answers")
        PictureIndex(request.labels).add_labels(labels)  # refuses several labels of one picture
        drawn = _draw(private, request)
        # Pictures by name only: label and class would give the answer away.
        columns: dict[str, Sequence[object]] = {name: labels[name].take(drawn).to_pylist() for name in NAMES}
        withheld = to_labels({**columns, "annotator": [TO_LABEL] * len(drawn)}, len(drawn))
        write_labels(withheld, request.out, LabelsOrigin(TO_LABEL))
        return LabelQualityResult(len(drawn))
    if not request.answers:
        raise LabelsError(
            f"{request.out} is drawn already; label its pictures and give --answers, or name another --out"
        )
    drawn_labels = read_labels(request.out)
    truth = to_labels(
        {**{name: labels[name].to_pylist() for name in NAMES}, "annotator": ["labels"] * labels.num_rows}
        | {"private": [None if np.isnan(value) else int(value) for value in private]},
        labels.num_rows,
    )
    tables = [("the labels", truth), ("the draw", drawn_labels), *((url, labels_of(url)) for url in request.answers)]
    return _compared(judgements(tables), drawn_labels.num_rows)


def _draw(private: npt.NDArray[np.float64], request: LabelQualityRequest) -> list[int]:
    """Return the rows of the drawn pictures, in a random order."""
    random = np.random.default_rng(request.seed)
    drawn: list[int] = []
    for side, name in ((1.0, "private"), (0.0, "public")):
        rows = np.flatnonzero(private == side)
        if len(rows) < request.num_per_side:
            raise LabelsError(
                f"{request.labels}: has {number_of(len(rows), f'{name} picture')}; the study draws "
                f"{request.num_per_side} of each side: give a smaller --n"
            )
        drawn += random.choice(rows, request.num_per_side, replace=False).tolist()
    return [int(row) for row in random.permutation(drawn)]


def _compared(judged: Judgements, num_drawn: int) -> LabelQualityResult:
    is_drawn = judged.is_listed[1]
    truth, answers = judged.private[0, is_drawn], judged.private[2:, is_drawn]
    is_known = ~np.isnan(answers)
    if not is_known.any():
        raise LabelsError("the answers judge none of the drawn pictures; pictures are joined by sha256, else by key")
    num_yes, num_answers = (answers == 1).sum(axis=0), is_known.sum(axis=0)
    most = np.maximum(num_yes, num_answers - num_yes)
    is_judged = (most >= MIN_ANSWERS) & (2 * most > num_answers) & ~np.isnan(truth)
    says_private = (2 * num_yes > num_answers)[is_judged]
    labelled = truth[is_judged] == 1
    is_right = says_private == labelled
    num_judged = int(is_judged.sum())
    table = agreement("private", answers)
    return LabelQualityResult(
        num_drawn,
        judged.annotators[2:],
        num_judged,
        int(is_right.sum()),
        float(is_right.mean()) if num_judged else None,
        of_share(is_right, Draws(np.arange(num_judged), 0, 0)),
        int((labelled & ~says_private).sum()),
        int((~labelled & says_private).sum()),
        table.fleiss,
        table.intervals.get("fleiss"),
    )


def label_quality_finding(result: LabelQualityResult) -> str:
    """Return a sentence on how often people confirm the label."""
    if not result.reviewers:
        return f"{number_of(result.num_drawn, 'picture')} drawn, half of them private, without their labels."
    if result.accuracy is None:
        return f"Of no drawn picture do {MIN_ANSWERS} people say the same."
    ends = result.accuracy_interval
    interval = "" if ends is None else f" (95 %: {percent(ends.low)} to {percent(ends.high)})"
    confirmed = f"{result.num_right} of {result.num_judged} pictures"
    return f"People confirm the label of {confirmed}, {percent(result.accuracy)}{interval}."
