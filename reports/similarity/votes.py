"""What people recognised in a study, set by set: the majority of the votes for each pair.

Source: Sun et al., "Privacy Assessment on Reconstructed Images", 2023: five votes for each picture.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from scoring.labels.reviews import SKIP

VOTES_COLUMNS = ("set", "key", "annotator", "recognised")
"""Columns of the votes, as `similarity rank --labels` reads them."""


@dataclass(frozen=True)
class SetVotes:
    """The pairs of one set. Each is recognised, not recognised, tied, short of votes, or without any vote."""

    name: str
    num_recognised: int
    num_not: int

    num_tied: int
    """Pairs with as many votes for as against."""

    num_few: int
    """Pairs with a vote, but fewer than are needed."""

    num_without: int
    """Pairs without any vote."""

    @property
    def num_pairs(self) -> int:
        return self.num_recognised + self.num_not + self.num_tied + self.num_few + self.num_without

    @property
    def recognised(self) -> float | None:
        """Share of the pairs with a majority that were recognised; None if there is none."""
        decided = self.num_recognised + self.num_not
        return self.num_recognised / decided if decided else None


@dataclass(frozen=True)
class PersonVotes:
    name: str
    num_votes: int
    """Answers about pairs; decoys and skipped ones are none."""

    num_skipped: int
    num_decoys: int
    num_decoys_right: int
    is_left_out: bool
    """Whether the person was right on too few decoys, so that no vote counts."""


@dataclass(frozen=True)
class StudyVotes:
    """Result of `similarity votes`."""

    asked: str
    min_votes: int
    sets: tuple[SetVotes, ...]
    people: tuple[PersonVotes, ...]


def votes_of(
    questions: pa.Table, answers: pa.Table, min_votes: int, min_attention: float | None
) -> tuple[StudyVotes, pa.Table]:
    """Count the votes. Return the result, and the votes that count: `VOTES_COLUMNS`, of pairs with enough of them.

    questions, answers: with the schemas of `scoring.labels.recognition`; the last answer of each person to each
    question. min_attention: share of decoys on which a person must be right.
    """
    people = _people(answers, min_attention)
    left_out = {person.name for person in people if person.is_left_out}
    votes: Mapping[tuple[str, str], list[tuple[str, int]]] = defaultdict(list)
    columns = (answers[name].to_pylist() for name in ("set", "key", "annotator", "recognised"))
    for set_name, key, name, recognised in zip(*columns, strict=True):
        if recognised is not None and name not in left_out:
            votes[set_name, key].append((name, recognised))
    counts: dict[str, list[int]] = {}
    rows = list[tuple[str, str, str, int]]()
    columns = (questions[name].to_pylist() for name in ("set", "key", "is_decoy"))
    for set_name, key, is_decoy in sorted(zip(*columns, strict=True)):
        if is_decoy:
            continue
        given = votes.get((set_name, key), [])
        of_set = counts.setdefault(set_name, [0] * 5)
        of_set[_outcome([recognised for _, recognised in given], min_votes)] += 1
        if len(given) >= min_votes:
            rows += [(set_name, key, name, recognised) for name, recognised in sorted(given)]
    sets = tuple(SetVotes(name, *of_set) for name, of_set in counts.items())
    asked = questions["asked"][0].as_py()
    arrays = [pa.array([row[n] for row in rows], pa.string() if n < 3 else pa.int8()) for n in range(4)]
    return StudyVotes(asked, min_votes, sets, people), pa.table(arrays, names=VOTES_COLUMNS)


def _outcome(votes: list[int], min_votes: int) -> int:
    """Return the place of the outcome among the counts of `SetVotes`."""
    if not votes:
        return 4
    if len(votes) < min_votes:
        return 3
    if 2 * sum(votes) == len(votes):
        return 2
    return 0 if 2 * sum(votes) > len(votes) else 1


def _people(answers: pa.Table, min_attention: float | None) -> tuple[PersonVotes, ...]:
    people = []
    by_name = defaultdict[str, list[tuple[str, str | None, bool]]](list)
    columns = (answers[name].to_pylist() for name in ("annotator", "answer", "chosen", "is_decoy"))
    for name, answer, chosen, is_decoy in zip(*columns, strict=True):
        by_name[name].append((answer, chosen, is_decoy))
    for name, given in sorted(by_name.items()):
        judged = [(chosen, is_decoy) for answer, chosen, is_decoy in given if answer != SKIP]
        decoys = [chosen for chosen, is_decoy in judged if is_decoy]
        num_right = sum(chosen is None for chosen in decoys)
        is_left_out = min_attention is not None and bool(decoys) and num_right < min_attention * len(decoys)
        num_votes = len(judged) - len(decoys)
        people.append(PersonVotes(name, num_votes, len(given) - len(judged), len(decoys), num_right, is_left_out))
    return tuple(people)
