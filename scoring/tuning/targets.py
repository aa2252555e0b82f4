"""Expected answers of a tuned model about a labelled picture.

    slots     one of three classes for each attribute; those that were not judged are left out of the loss
    severity  the score with two decimals
    binary    Yes or No
    dialogue  a conversation about the picture that the user supplies

0.5 counts as 0 (S1, section 5), unless ambiguous values are to be kept. Unjudged attributes are never taken for 0: a
label that leaves the answer open gives no target.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from scoring.assessment import Values
from scoring.privacy import private_of_labels
from scoring.protocols.binary import BinaryProtocol
from scoring.protocols.holistic import SeverityProtocol
from scoring.protocols.interface import Protocol
from scoring.severity import levels_with_gaps, scores_with_gaps
from scoring.taxonomy import KEYS

WITHOUT = {
    "slots": "whose label judges no attribute",
    "severity": f"whose label has neither a score nor all {len(KEYS)} attributes",
    "binary": "whose label does not say private or public",
    "dialogue": "without a conversation, or whose label does not say private or public",
}
"""Kind of target -> description of labelled pictures without one, for messages after their number."""

PROTOCOLS = {"slots": "slots", "severity": "severity", "binary": "binary", "dialogue": "binary"}
"""Target -> default protocol of the tuned model."""

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
    """Per attribute 0 absent, 1 ambiguous, 2 present; None is left out of the loss."""

    answer: str | None = None
    """The assistant's turn, without the token that ends it."""

    turns: Turns | None = None
    """A whole conversation, in which the model learns the assistant's turns."""


def is_private(label: Label) -> bool | None:
    """Return the label's own decision; else whether an attribute of level 1 or 2 is present. None if unknown."""
    given = np.nan if label.private is None else float(label.private)
    private = float(private_of_labels(np.array([given]), label.values[None])[0])
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


def target_of(label: Label, asked: Protocol, *, keep_ambiguous: bool) -> Target | None:
    """Return the answer to this protocol, `slots`, `severity` or `binary`; None if the label does not say it."""
    if isinstance(asked, SeverityProtocol):
        score = score_of(label)
        return None if score is None else Target(answer=asked.answer(score))
    if isinstance(asked, BinaryProtocol):
        private = is_private(label)
        spellings = asked.answers.yes if private else asked.answers.no
        return None if private is None else Target(answer=spellings[0])
    return _slots(label.values, keep_ambiguous)


def differ(targets: Iterable[Target]) -> bool:
    """Return whether two targets have different answers. Unjudged values differ from none."""
    distinct = set(targets)
    texts = {(target.answer, target.turns) for target in distinct if target.slots is None}
    slots = [target.slots for target in distinct if target.slots is not None]
    return len(texts) > 1 or any(len(set(classes) - {None}) > 1 for classes in zip(*slots, strict=True))


def _slots(values: Values, keep_ambiguous: bool) -> Target | None:
    classes = {0.0: 0, 0.5: 1 if keep_ambiguous else 0, 1.0: 2}
    slots = tuple(None if value != value else classes[value] for value in values.tolist())  # NaN differs from itself
    return None if all(slot is None for slot in slots) else Target(slots=slots)
