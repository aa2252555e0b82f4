"""Expected answers of a tuned model about a labelled picture, and the choice of pictures for the training set.

    slots     one of three classes for each attribute; those that were not judged are left out of the loss
    severity  the score with two decimals
    binary    Yes or No
    dialogue  a conversation about the picture that the user supplies

0.5 counts as 0 (S1, section 5). Unjudged attributes are never taken for 0: a
label that leaves the answer open gives no target.

Pictures are drawn for the training set, and some are held back for validation. Every draw follows a rank that depends
on the seed and the picture's hash alone. So it does not depend on the order of the corpus, and a smaller draw of the
same seed is contained in a larger one. A group of near duplicates is on the same side of the split in every draw.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ingest.errors import LabelsError
from scoring.assessment import Values
from scoring.protocols.binary import BinaryProtocol
from scoring.protocols.holistic import SeverityProtocol
from scoring.protocols.interface import Protocol
from scoring.severity import levels_with_gaps, scores_with_gaps
from scoring.taxonomy import KEYS

TargetKind = Literal["slots", "severity", "binary", "dialogue"]

WITHOUT: dict[TargetKind, str] = {
    "slots": "whose label judges no attribute",
    "severity": f"whose label has neither a score nor all {len(KEYS)} attributes",
    "binary": "whose label does not say private or public",
    "dialogue": "without a conversation, or whose label does not say private or public",
}
"""Kind of target -> description of labelled pictures without one, for messages after their number."""

LEAST_SCORE = 0.01
"""Target of `severity` for a picture that shows only what scores 0, such as one element of level 4: the texts of the
protocol demand more than 0.00 for any element, as the paper does, and its own formula gives exactly 0."""

PROTOCOLS: dict[TargetKind, str] = {"slots": "slots", "severity": "severity", "binary": "binary", "dialogue": "binary"}
"""Target -> default protocol of the tuned model."""

RECIPES: dict[TargetKind, str] = {"slots": "cprt", "severity": "cprt", "binary": "privtune", "dialogue": "privtune"}
"""Target -> recipe of the paper whose model answers that."""

Turns = tuple[tuple[str, str], ...]
"""Role ("user" or "assistant") and text of each turn of a conversation."""


@dataclass(frozen=True, slots=True)
class Label:
    """One row of the labels table."""

    values: Values
    """Values of shape (attributes,); NaN if not judged."""

    private: bool | None = None
    score: float | None = None
    class_name: str | None = None


@dataclass(frozen=True, slots=True)
class Target:
    """The expected answer: slot classes, a text, or turns of a conversation."""

    slots: tuple[int | None, ...] | None = None
    """Per attribute 0 absent, 1 ambiguous (which no label gives), 2 present; None is left out of the loss."""

    answer: str | None = None
    """The assistant's turn, without the token that ends it."""

    turns: Turns | None = None
    """A whole conversation, in which the model learns the assistant's turns."""


def is_private(label: Label) -> bool | None:
    """Return the label's own decision; else whether an attribute of level 1 or 2 is present. None if unknown."""
    from scoring.privacy import private_of_labels  # brings DuckDB, which a machine that only trains can lack

    stated = np.nan if label.private is None else float(label.private)
    private = float(private_of_labels(np.array([stated]), label.values[None])[0])
    return None if np.isnan(private) else bool(private)


def level_of(label: Label) -> int | None:
    """Return 1–4, or 0 if no attribute is present; None if a more severe one was not judged."""
    level = float(levels_with_gaps(label.values[None])[0])
    return None if np.isnan(level) else int(level)


def score_of(label: Label) -> float | None:
    """Return the label's own score; else that of its values. None if an attribute was not judged."""
    if label.score is not None:
        return label.score
    score = float(scores_with_gaps(label.values[None])[0])
    return None if np.isnan(score) else score


def target_of(label: Label, protocol: Protocol) -> Target | None:
    """Return the answer to this protocol, `slots`, `severity` or `binary`; None if the label does not say it."""
    if isinstance(protocol, SeverityProtocol):
        score = score_of(label)
        if score is not None and label.score is None and (label.values == 1).any():
            score = max(score, LEAST_SCORE)
        return None if score is None else Target(answer=protocol.answer(score))
    if isinstance(protocol, BinaryProtocol):
        private = is_private(label)
        spellings = protocol.answers.yes if private else protocol.answers.no
        return None if private is None else Target(answer=spellings[0])
    classes = {0.0: 0, 0.5: 0, 1.0: 2}
    slots = tuple(None if value != value else classes[value] for value in label.values.tolist())  # NaN
    return None if all(slot is None for slot in slots) else Target(slots=slots)


def differ(targets: Iterable[Target]) -> bool:
    """Return whether two targets have different answers. Unjudged values differ from none."""
    distinct = set(targets)
    texts = {(target.answer, target.turns) for target in distinct if target.slots is None}
    slots = [target.slots for target in distinct if target.slots is not None]
    return len(texts) > 1 or any(len(set(classes) - {None}) > 1 for classes in zip(*slots, strict=True))


PUBLIC = "public"
"""Class of pictures that are not private."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A labelled picture of the corpus. There can be millions of them."""

    shard: str
    index: int
    """Position in the shard."""

    key: str
    sha256: str
    extension: str
    """Extension of the file's format, without a dot."""

    class_name: str | None
    is_private: bool | None
    """Whether it is private; None if the label does not say it."""

    level: int | None
    """Level 0–4, None if the label does not say it."""

    target: Target
    group: str = ""
    """Group of near duplicates: the smallest sha256 among them. Pictures of one group share a split."""

    @property
    def stratum(self) -> str:
        """Stratum of a draw: the class if the label has one, else private, public or unknown."""
        if self.is_private is False:
            return PUBLIC
        if self.class_name not in (None, PUBLIC):
            return str(self.class_name)
        return "private" if self.is_private else "unknown"


def drawn(candidates: Sequence[Candidate], num_pictures: int | None, seed: int) -> list[Candidate]:
    """Draw pictures, each class in proportion, in rank order. LabelsError if there are too few.

    candidates: each sha256 once. num_pictures: None for all.
    """
    ranked = sorted(candidates, key=lambda c: _rank(seed, c.sha256))
    return ranked if num_pictures is None else _in_proportion(ranked, num_pictures)


def splits(chosen: Sequence[Candidate], validation_share: float, seed: int) -> dict[str, list[Candidate]]:
    """Split into train and validation, by groups of near duplicates; either may be empty."""
    by_split: dict[str, list[Candidate]] = {"train": [], "validation": []}
    for candidate in chosen:
        share = int(_rank(seed, f"split {candidate.group}")[:12], 16) / 16**12  # uniform in [0, 1)
        by_split["validation" if share < validation_share else "train"].append(candidate)
    return by_split


def _in_proportion(ranked: Sequence[Candidate], num: int) -> list[Candidate]:
    """Take each class in proportion, by the method of Sainte-Laguë (Webster): the i-th picture of a class of m comes at
    (i - 1/2) / m. Largest remainders would sometimes take fewer of a class for a larger number."""
    if num > len(ranked):
        raise LabelsError(f"--n {num}: there are {len(ranked)} pictures; give that or less")
    by_class: dict[str, list[Candidate]] = defaultdict(list)
    for candidate in ranked:
        by_class[candidate.stratum].append(candidate)
    turn = {
        candidate.sha256: ((2 * position + 1) / len(members), name)
        for name, members in by_class.items()
        for position, candidate in enumerate(members)
    }
    earliest = {candidate.sha256 for candidate in sorted(ranked, key=lambda c: turn[c.sha256])[:num]}
    return [c for c in ranked if c.sha256 in earliest]


def _rank(seed: int, sha256: str) -> str:
    return hashlib.sha256(f"{seed} {sha256}".encode()).hexdigest()
