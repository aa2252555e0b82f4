"""Draws which pictures each of several people is asked about, once for all of them.

Every person gets the same number of pictures. Every picture goes to nearly as many people: numbers differ by one at
most. Both hold within each level too.
"""

import hashlib
from collections.abc import Sequence

import numpy as np

from ingest.errors import LabelsError, number_of
from ingest.storage.place import place
from jobs.review.request import checked_name
from scoring.labels.source_files import csv_rows


def people_of(url: str) -> tuple[str, ...]:
    """Read the column `name` of a CSV file. LabelsError in one line that names no person."""
    rows = csv_rows(place(url), url)
    where, head = next(rows, (url, []))
    if [cell.strip().lower() for cell in head] != ["name"]:
        raise LabelsError(f"{where}: the first line must be the one column name; a person a line follows")
    people: list[str] = []
    for where, row in rows:
        if len(row) != 1 or (name := checked_name(row[0])) in people:
            raise LabelsError(f"{where}: gives more than a name, or a name that an earlier line has; keep one a line")
        people.append(name)
    if not people:
        raise LabelsError(f"{url}: names no person")
    return tuple(people)


def assignment(
    people: Sequence[str], hashes: Sequence[str], levels: Sequence[int | None], per_person: int, seed: int
) -> dict[str, frozenset[str]]:
    """Return the sha256 of each person's pictures. hashes, levels: of the pictures, the same number of each.

    LabelsError if a person would get a picture twice, or a picture would have no person. The same arguments give the
    same result, whatever the order of the pictures.
    """
    num_answers, num_pictures = len(people) * per_person, len(hashes)
    if per_person > num_pictures:
        raise LabelsError(
            f"--per-person {per_person} is more than the {number_of(num_pictures, 'picture')} of the queue"
        )
    if num_answers < num_pictures:
        raise LabelsError(
            f"--per-person {per_person} times {len(people):,} of --assign makes {number_of(num_answers, 'answer')}, "
            f"fewer than the {num_pictures:,} pictures of the queue; give a smaller --n, or a larger --per-person"
        )
    mark = {sha256: hashlib.sha256(f"{seed}/{sha256}".encode()).digest() for sha256 in hashes}
    level_of = dict(zip(hashes, levels, strict=True))
    by_level = sorted(hashes, key=lambda sha256: (str(level_of[sha256]), mark[sha256]))
    # Dealt in the order of levels: a round gives one picture to each person, so each gets every level evenly.
    ends = [(number + 1) * num_answers // num_pictures for number in range(num_pictures)]
    random = np.random.default_rng(seed)
    given: dict[str, set[str]] = {name: set() for name in people}
    left: list[str] = []
    dealt = 0
    for sha256, end in zip(by_level, ends, strict=True):
        for _ in range(dealt, end):
            left = left or [people[index] for index in random.permutation(len(people))]
            # A picture of two rounds has at most as many turns as there are people, so another person is always left.
            name = next(name for name in left if sha256 not in given[name])
            left.remove(name)
            given[name].add(sha256)
        dealt = end
    return {name: frozenset(pictures) for name, pictures in given.items()}
