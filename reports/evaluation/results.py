"""Everything that an evaluation says, as frozen data. Text, JSON and HTML are only ways to show it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from reports.evaluation.metrics import AttributeMetrics, AttributeSummary, ScoreMetrics
from reports.labels.joining import JoinCounts
from reports.statistics.binary import BinaryMetrics, Classwise, PrivateClass
from reports.statistics.intervals import Interval
from reports.statistics.paired import Difference, McNemar


@dataclass(frozen=True)
class PrivateResult(BinaryMetrics):
    """Private or public. The metrics count a picture without an answer as answered wrong, as Samson et al. do."""

    num_rejected: int
    """Labelled pictures without an answer: quarantined, or unknown to the run (`scoring.privacy`)."""

    num_unlabelled: int
    """Joined pictures of which the labels do not say whether they are private; in no figure."""

    answered: BinaryMetrics
    """The same metrics without the pictures that have no answer."""

    intervals: Mapping[str, Interval]
    """95 % interval of each metric that is defined, with pictures without an answer as wrong."""

    classwise: Classwise | None
    """Precision, recall and F1 of both sides, and weighted by support; None where labels are one-sided."""

    per_class: tuple[PrivateClass, ...]
    """Each class of private pictures against all public ones."""


@dataclass(frozen=True)
class ScoreResult(ScoreMetrics):
    column: str
    """Column of the run: holistic_score (the model's own), or score (from the attributes, by formula)."""

    num_not_scored: int
    """Labelled pictures without a predicted score; in no figure."""

    num_unlabelled: int
    """Joined pictures without a true score; in no figure."""

    intervals: Mapping[str, Interval]
    """95 % interval of each metric that is defined; none of pairwise accuracy."""


@dataclass(frozen=True)
class GroupResult:
    """The pictures of one group; "(none)" for pictures without."""

    group: str
    num_rejected: int
    """How many of them have no answer; they count as wrong in `private`."""

    private: BinaryMetrics | None
    """None if the run does not say what is private, or no label of the group does."""

    mae: float | None
    """Mean absolute error of the score; None without one."""

    intervals: Mapping[str, Interval] = field(default_factory=dict)
    """95 % interval of each share in `private` that is defined."""


@dataclass(frozen=True)
class Comparison:
    """The evaluated run against one before it, on the same pictures. Differences are after − before."""

    run: str
    """The run before, of --compare."""

    num_pictures: int
    """Labelled pictures that both runs hold, each once."""

    mcnemar: McNemar | None
    """On private, with pictures without an answer as wrong; None if one of the runs does not answer that."""

    private: Mapping[str, Difference]
    """Metric -> its difference, with pictures without an answer as wrong."""


@dataclass(frozen=True)
class Evaluation:
    """How good the answers of a run are, judged by labels."""

    run: str
    engine: str
    """Name, model and protocol."""

    cautions: tuple[str, ...]
    """Why the figures do not describe the whole source or run, or any picture at all."""

    annotators: tuple[str, ...]
    join: JoinCounts
    private: PrivateResult | None
    """None if the run does not say what is private, or the labels do not."""

    score: ScoreResult | None
    """None if the run or the labels have no score. The model's own score if there is one, else the formula's."""

    formula_score: ScoreResult | None
    """The formula's score of a run that has both."""

    attributes: Mapping[str, AttributeMetrics]
    """By key; those without labels are left out."""

    attribute_summary: AttributeSummary | None
    """None if no attribute has labels, or the engine judges none."""

    by: str | None
    """What `groups` are: the name of their file; None without groups."""

    groups: tuple[GroupResult, ...]
    notes: tuple[str, ...]
    """What a reader must know, one sentence each."""

    comparison: Comparison | None = None


def as_json(evaluation: Evaluation) -> dict[str, Any]:
    """Return the evaluation as plain data for JSON: undefined values are null. Adds the sign of the differences in
    words."""
    plain = asdict(evaluation)
    if plain["comparison"] is not None:
        plain["comparison"]["difference_is"] = "after − before: the evaluated run minus the run of --compare"
    return plain
