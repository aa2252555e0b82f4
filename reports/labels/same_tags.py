"""Pictures with the same tags: how often they are labelled differently, and which of them to leave out of a data set.

Source: Zhao et al., "PrivacyAlert: A Dataset for Image Privacy Prediction". Its pictures with the same tags were mostly
uploaded together. The paper does not say when a set looks alike, nor what makes two tag lists the same; the rules here
are our own.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ingest.errors import number_of
from reports.statistics.binary import Numbers
from reports.words import Document, percent

Tags = tuple[int, ...]

NUM_NEAR = 10
"""Number of neighbours among which the other pictures of a set are looked for."""

NUM_NEAREST, MOST = 5, 3
"""A picture fits its neighbours if more than `MOST` of the `NUM_NEAREST` have its label."""

ROWS_AT_ONCE = 512


@dataclass(frozen=True)
class SameTags:
    """Counts; "different" is: one picture private, another public."""

    num_pictures: int
    num_tagged: int
    num_sharing: int
    """Pictures whose tags another picture has."""

    num_sets: int
    """Sets of pictures with the same tags."""

    num_different: int
    """Sets that are labelled differently."""

    num_met_again: int
    """Pairs of a person and a set of which the person judged several pictures."""

    num_consistent: int
    """How many of them give all these pictures the same label."""

    num_alike: int | None
    """Sets labelled differently that look alike: one of their pictures has another, with the other label, among its
    `NUM_NEAR` nearest pictures. None with too few pictures."""

    num_decided: int
    """Pictures that people call private or public."""

    num_fitting: int | None
    """How many of these fit their neighbours; None as `num_alike`."""

    num_left_out: int
    """Pictures that are left out, so that of each set one is left."""


def sets_of(tags: Sequence[Tags | None]) -> list[list[int]]:
    """Return the sets of several pictures with the same tags. None: a picture without tags."""
    members = dict[Tags, list[int]]()
    for number, each in enumerate(tags):
        if each:
            members.setdefault(each, []).append(number)
    return [numbers for numbers in members.values() if len(numbers) > 1]


def left_out(sets: Iterable[Sequence[int]], sha256: Sequence[str]) -> set[int]:
    """Return all pictures of the sets but the one with the smallest hash of each, which is as good as drawn by lot."""
    return {number for numbers in sets for number in numbers} - {
        min(numbers, key=lambda number: sha256[number]) for numbers in sets
    }


def same_tags(
    tags: Sequence[Tags | None],
    sha256: Sequence[str],
    private: Numbers,
    answers: Iterable[tuple[str, int, float]],
    vectors: npt.NDArray[np.float32],
) -> SameTags:
    """Compare the labels of pictures with the same tags.

    private: shape (n,), 1, 0, or NaN where people are undecided. answers: person, number of the picture, 1, 0 or NaN.
    vectors: shape (n, d), by which neighbours are found.
    """
    sets = sets_of(tags)
    set_of = {number: place for place, numbers in enumerate(sets) for number in numbers}
    judged = dict[tuple[str, int], list[float]]()
    for person, number, answer in answers:
        if number in set_of and not np.isnan(answer):
            judged.setdefault((person, set_of[number]), []).append(answer)
    again = [given for given in judged.values() if len(given) > 1]
    different = [numbers for numbers in sets if {0.0, 1.0} <= set(private[numbers].tolist())]
    decided = np.flatnonzero(~np.isnan(private))
    num_alike, num_fitting = None, None
    if len(decided) > NUM_NEAR:
        near, labels = _nearest(vectors[decided]), private[decided]
        num_alike = sum(_looks_alike(numbers, private, decided, near) for numbers in different)
        num_fitting = int(((labels[near[:, :NUM_NEAREST]] == labels[:, None]).sum(axis=1) > MOST).sum())
    return SameTags(
        num_pictures=len(tags),
        num_tagged=sum(bool(each) for each in tags),
        num_sharing=len(set_of),
        num_sets=len(sets),
        num_different=len(different),
        num_met_again=len(again),
        num_consistent=sum(len(set(given)) == 1 for given in again),
        num_alike=num_alike,
        num_decided=len(decided),
        num_fitting=num_fitting,
        num_left_out=len(left_out(sets, sha256)),
    )


def _nearest(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
    """Return the places of the `NUM_NEAR` nearest others by cosine, the nearest first. Shape (n, NUM_NEAR)."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    units = vectors / np.where(lengths == 0, 1, lengths)
    near = np.empty((len(units), NUM_NEAR), np.int64)
    for first in range(0, len(units), ROWS_AT_ONCE):
        part = units[first : first + ROWS_AT_ONCE]
        likeness = part @ units.T
        likeness[np.arange(len(part)), first + np.arange(len(part))] = -np.inf
        near[first : first + len(part)] = np.argsort(-likeness, axis=1, kind="stable")[:, :NUM_NEAR]
    return near


def _looks_alike(
    numbers: Sequence[int], private: Numbers, decided: npt.NDArray[np.int64], near: npt.NDArray[np.int64]
) -> bool:
    places = np.flatnonzero(np.isin(decided, numbers))
    return any(
        other in near[place] and private[decided[other]] != private[decided[place]]
        for place in places
        for other in places
    )


def document(found: SameTags, out: str | None) -> Document:
    """Return the output of `labels same-tags`. out: where the labels were written, without those left out."""

    def share(number: int, of: int) -> str:
        return f"{number:,} of {of:,} ({percent(number / of)})"

    lines = [
        f"tags     {number_of(found.num_pictures, 'labelled picture')}, {found.num_tagged:,} with tags; "
        f"{found.num_sharing:,} share them, in {number_of(found.num_sets, 'set')}"
    ]
    if found.num_sets:
        lines.append(f"labels   sets with different labels: {share(found.num_different, found.num_sets)}")
    if found.num_met_again:
        times = share(found.num_consistent, found.num_met_again)
        lines.append(f"people   where a person judged several pictures of a set, the labels were the same: {times}")
    if found.num_alike is not None and found.num_different:
        lines.append(
            f"look     sets with different labels that look alike: {share(found.num_alike, found.num_different)}; one "
            f"of the {NUM_NEAR} nearest pictures is of the set and has the other label"
        )
    if found.num_fitting is not None and found.num_decided:
        fitting = share(found.num_fitting, found.num_decided)
        lines.append(f"fit      pictures with the label of more than {MOST} of their {NUM_NEAREST} nearest: {fitting}")
    return Document(lines, [], [] if out is None else [f"{number_of(found.num_left_out, 'picture')} left out of {out}"])
