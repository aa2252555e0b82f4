"""Everything that `diff` says, as frozen data. Text, JSON and HTML are only ways to show it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from reports.statistics.intervals import Interval

LEVEL_STATES = ("1", "2", "3", "4", "0", "unknown", "quarantined", "screened")
"""The level of a picture, the most severe first; unknown: scored, but no attribute was assessed."""

PRIVATE_STATES = ("private", "public", "unknown", "quarantined", "screened")


@dataclass(frozen=True)
class Side:
    """One of the two runs. num_rows = num_pairs + num_copies + num_only_here + num_ambiguous."""

    run: str
    source: str
    engine: str
    cautions: tuple[str, ...]
    """Why its figures do not describe the whole source, or any picture at all."""

    private_from: str
    """What decides whether a picture is private, in words."""

    num_rows: int

    num_quarantined: int
    """How many of `num_rows` are quarantined."""

    num_copies: int
    """Rows with the hash of an earlier row of the same run; of each picture one row is compared."""

    num_differing_copies: int
    """Pictures whose copies have different answers in this run."""

    num_only_here: int
    num_ambiguous: int
    """Rows without a hash whose name several rows have; they are compared with none."""

    num_private: int
    num_known: int
    """Rows for which it is known whether they are private."""

    @property
    def num_pictures(self) -> int:
        """Return the number of different pictures, compared by their bytes."""
        return self.num_rows - self.num_copies

    @property
    def share_private(self) -> float | None:
        """Return the share of private rows among those of which it is known; None if it is known of none."""
        return self.num_private / self.num_known if self.num_known else None


@dataclass(frozen=True)
class PairedRate:
    """How many pictures are private in each run, of those of which both runs know it. change: rate_b − rate_a."""

    num_pictures: int
    num_private_a: int
    num_private_b: int

    num_only_a: int
    num_only_b: int
    rate_a: float | None
    """0–1; None without such pictures, as are `rate_b` and `change`."""

    rate_b: float | None
    change: float | None
    num_private_a_open_b: int
    """Private in the first run and unknown in the second, though scored, and the reverse; not in `num_pictures`."""

    num_private_b_open_a: int
    seldom_denied_in: tuple[str, ...]
    """The runs ("a", "b") that leave more pictures unknown than they call public. Then nothing is tested, since whether
    a picture is known depends on the answer."""

    p_value: float | None
    """P-value of McNemar's exact test (`reports.statistics.paired`); None without a test, or if no picture changed."""


@dataclass(frozen=True)
class GroupChange(PairedRate):
    group: str
    """As the first run has it; "(none)" for pictures without."""

    num_pairs: int
    """Pictures of both runs, known or not."""

    p_holm: float | None
    """Adjusted by Holm's method for all groups that have a p_value."""


@dataclass(frozen=True)
class AttributeChange:
    """One attribute over the pictures of both runs. Appeared: present in the second run only."""

    level: int

    num_assessed: int
    """Pictures in which both runs assessed it."""

    num_only_a: int
    """Assessed by the first run only."""

    num_only_b: int
    num_present_a: int
    """Present (1) in the first run, of `num_assessed`."""

    num_present_b: int
    num_appeared: int
    num_vanished: int
    num_doubt_changed: int
    """Present in neither, but ambiguous (0.5) in one of them only."""

    num_present_a_open_b: int
    """Present in the first run and without an answer in the second, though scored, and the reverse; not in
    `num_assessed`."""

    num_present_b_open_a: int
    seldom_denied_in: tuple[str, ...]
    """The runs ("a", "b") that have no answer in more pictures than they answer with 0, or that declare that they never
    answer with 0. Then nothing is tested, since whether a picture has an answer depends on the answer."""

    kappa: float | None
    """Cohen's κ of present or not, −1…1; None if nothing was assessed by both, all answers are the same, or a run
    seldom denies it."""

    p_value: float | None
    """P-value of McNemar's exact test (`reports.statistics.paired`); None without a test, or if no picture changed."""

    p_holm: float | None
    """Adjusted by Holm's method for all attributes that have a p_value."""


@dataclass(frozen=True)
class ScoreChange:
    """A severity score over the pictures that have one in both runs. change: mean of b − a."""

    num_pictures: int
    mean_a: float
    mean_b: float
    change: float
    interval: Interval | None
    """95 % interval of `change`, for independent pictures; few if fewer than `NUM_FEW` of them changed their score.
    None if shards were drawn (`RunDifference.shards_drawn_in`)."""

    column: str
    """holistic_score: the model's own; score: by the formula from the attributes."""

    spearman: float | None
    """Rank correlation of the two runs, −1…1; None if one of them is constant."""


@dataclass(frozen=True)
class ChangedPicture:
    key: str
    group: str
    level_a: int
    level_b: int


@dataclass(frozen=True)
class RunDifference:
    """Two runs. Pairs are pictures of both."""

    a: Side
    b: Side

    settings: tuple[str, ...]
    """Those that differ, in words: of the first run, and of the second."""

    by: str
    shards_drawn_in: tuple[str, ...]
    """The runs ("a", "b") that are of random shards. Pictures of one shard are alike, so that there are no tests and no
    intervals, which take pictures as independent."""

    num_pairs: int
    num_by_name: int
    """How many of these are joined by name, since one of the rows has no hash."""

    num_moved: int
    """Number of pairs that are in another group in the second run."""

    levels: tuple[tuple[int, ...], ...]
    """Pictures by `LEVEL_STATES` of the first run (rows) and the second (columns)."""

    private_states: tuple[tuple[int, ...], ...]
    """Pictures by `PRIVATE_STATES` of the first run (rows) and the second (columns)."""

    private: PairedRate
    private_kappa: float | None
    """Cohen's κ of the private decision; None if a run seldom calls a picture public."""

    attributes: Mapping[str, AttributeChange]
    scores: tuple[ScoreChange, ...]
    groups: tuple[GroupChange, ...]
    """Smallest adjusted p-value first, then largest change."""

    pictures: tuple[ChangedPicture, ...]
    """Some pictures whose level changed most."""

    num_unnamed: int
    """How many of these were left out: on the operator's hash list, or not to be compared with it."""


def as_json(difference: RunDifference) -> dict[str, Any]:
    """Return the comparison as plain data for JSON, with the names of the rows and columns of the tables."""
    return asdict(difference) | {"level_states": LEVEL_STATES, "private_states_named": PRIVATE_STATES}
