"""The parts of a report, each a frozen row of figures. Shares and rates are 0–1, None where they are not defined."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """A share of images, and what a reader must know of it. `reports.report.words.says` says it."""

    rate: float | None
    """None where the choice of the images allows no rate of them all."""

    low: float | None
    high: float | None
    """95 % interval; equal to the rate where all images were scanned, None where there is none."""

    population: str
    """Images that it is a share of, in the plural."""

    basis: str
    """What it is counted or estimated from."""

    caveat: str = ""
    """What it does not say."""

    is_of_source: bool = False
    """The rate is an estimate for the source, of which the run is a sample."""

    is_corrected: bool = False
    """Corrected by labels of people, else as the engine answers."""

    assumption: str = ""
    """Condition under which the interval holds."""


@dataclass(frozen=True)
class Rate:
    """One group of images, or all of them."""

    group: str
    num_scored: int
    """N: without quarantined images."""

    num_private: int

    num_unknown: int
    """Scored images for which the condition is null."""

    privacy_rate: float | None
    """num_private / (num_scored - num_unknown)."""

    rate_low: float | None
    """95 % Wilson interval of the rate, as if the images were drawn at random from many more; if shards were drawn, of
    the rate in the source."""

    rate_high: float | None
    num_quarantined: int

    nums_by_level: tuple[int, ...] = (0,) * 5
    """Scored images of levels 1, 2, 3, 4 and 0 of the column `severity_level`, in that order."""

    num_screened: int = 0
    """Images that the screen of the scan left out: neither scored nor quarantined."""

    num_guarded: int = 0
    """Scored and judged images that the screen would have left out, but its guard sent to the engine."""

    num_missed: int = 0
    """How many of these are private."""

    share_if_none_private: float | None = None
    """Share of all images if no unknown, quarantined or screened image is private. None if shards
    are damaged, so that the number of images is not known."""

    share_if_all_private: float | None = None
    """The same if all of them are."""

    source_low: float | None = None
    """95 % interval of the rate over all images of the group in the source, from how the images were chosen. Equal to
    the rate if all were scanned; None if they were not chosen at random."""

    source_high: float | None = None
    is_small: bool = False
    """Fewer than `SMALL_GROUP` images were judged."""

    rank: int | None = None
    """1 for the group with the highest lower end of its interval."""

    rank_low: int | None = None
    """The joint 95 % interval of the rank: see `reports.statistics.shares`."""

    rank_high: int | None = None

    effective_size: float | None = None
    """If shards were drawn: judged images that would say as much, drawn from all shards alike
    (`reports.run.drawn_shards`). None without an interval, and of other runs."""

    degrees: int | None = None
    """If shards were drawn: degrees of freedom of the interval."""

    num_shards: int | None = None
    """If shards were drawn: those with judged images of the group."""

    @property
    def is_never_denied(self) -> bool:
        """Return whether the engine finds private images and calls none public: its rate is a lower bound then."""
        return self.num_private == self.num_judged < self.num_scored

    @property
    def share_found(self) -> float | None:
        """Return the share of private images: of the judged ones, or of the scored ones if none is called public."""
        return self.num_private / self.num_scored if self.is_never_denied else self.privacy_rate

    @property
    def num_images(self) -> int:
        """Return the number of images of the group in the run."""
        return self.num_scored + self.num_without_score

    @property
    def num_without_score(self) -> int:
        """Return the number of images of the group that have no score."""
        return self.num_quarantined + self.num_screened

    @property
    def num_left_out(self) -> int:
        """Return the number of images of which it is not known whether they are private: those without a score, and
        those for which the condition is null."""
        return self.num_without_score + self.num_unknown

    @property
    def num_judged(self) -> int:
        """Return the number of scored images for which the condition is known."""
        return self.num_scored - self.num_unknown


@dataclass(frozen=True)
class Edge:
    """The share of the images whose score is at least the lower edge of a level's band."""

    level: int
    score: float
    num_images: int
    figure: Figure


@dataclass(frozen=True)
class Scores:
    """The score that the model itself gave the images: how severe, or how probably private."""

    column: str
    num_images: int
    """Images with such a score; without any there are no mean and no histogram to show."""

    mean: float | None
    low: float | None
    high: float | None
    """95 % interval of the mean in the source, of a random sample; else None."""

    histogram: tuple[int, ...]
    """Images in each of equal parts of 0–1."""

    edges: tuple[Edge, ...]
    """Most severe first; empty for a score without bands."""


@dataclass(frozen=True)
class Prevalence:
    """share: present among the images where it was assessed, 0–1; None where it never was.

    is_lower_bound: the engine affirms the attribute but never denies it; then the share is of all scored images, and
    None if it was found in none.
    """

    attribute: str
    title: str
    level: int
    num_present: int
    num_ambiguous: int
    num_absent: int
    num_not_assessed: int
    share: float | None
    is_lower_bound: bool

    @property
    def is_never_found(self) -> bool:
        """Return whether it was looked for and found in no image, and the engine cannot rule it out."""
        return self.is_lower_bound and self.share is None


@dataclass(frozen=True)
class SevereImage:
    """One of the most severe images, in words: no picture and no found text."""

    shard: str
    index: int
    key: str
    sha256: str
    category: str | None
    level: int | None
    """None if the protocol gives no severity."""

    score: float
    """The severity score, or the probability that the image is private."""

    attributes: tuple[str, ...]
    """Keys of those at 1, most severe first."""

    rationale: str
    """Kinds of evidence."""

    boxes: tuple[str, ...]
    """Where they are, such as "face, top left"."""


@dataclass(frozen=True)
class EvidenceCount:
    """How often a kind of evidence occurs in the rationales of a group's private images."""

    group: str
    kind: str
    num_images: int
    num_private: int
    """Private images of the group."""


@dataclass(frozen=True)
class LawCount:
    """Scored images that show an attribute to which a rule of law refers.

    They are the most that can fall under the rule, as far as the engine judges it: whether they do depends on the use.
    """

    law: str
    article: str
    about: str
    attributes: tuple[str, ...]
    together_with: tuple[str, ...] = ()
    """Only images that also show one of these are counted; empty: no such condition."""

    num_images: int = 0
    share: float | None = None
    """Share of all scored images."""

    is_lower_bound: bool = False
    """Some of the attributes were not judged in some images, or in none. Then more can fall under the rule."""


@dataclass(frozen=True)
class LeftOut:
    """What is in no figure of a report. Reasons and kinds -> images, the most frequent first."""

    quarantined: dict[str, int]
    rejections: dict[str, int]
    """The quarantined images of this reason by their kind."""

    damaged_parts: dict[str, int]
    """Parts of shards: each holds an unknown number of images that were not seen."""

    unseen: dict[str, int]
    """Kinds of content that may not have been scanned -> scored images that hold it."""

    num_unseen: int
    """Images with any of these."""


@dataclass(frozen=True)
class CorrectedRate:
    """A rate corrected by labels of people, as `audit apply` wrote it; see `reports.report.results`."""

    subject: str
    category: str | None

    population: str
    """Images that the rates are shares of, in the plural."""

    raw_rate: float | None
    corrected_rate: float | None
    low: float | None
    high: float | None
    method: str
    num_labels: int
    note: str | None

    sensitivity: float | None = None
    """Share of the private images that the engine finds, and its 95 % interval; unknown with few labels."""

    sensitivity_low: float | None = None
    sensitivity_high: float | None = None

    specificity: float | None = None
    """Share of the other images that the engine does not call private, and its 95 % interval; only of the whole run."""

    specificity_low: float | None = None
    specificity_high: float | None = None
