"""What a labels file says, in counts: people, sides, votes, levels and attributes, as papers describe their labels."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from ingest.sample import printable
from reports.words import Cell, Document, Table, percent, shortened, table
from scoring.labels.consensus import most_common
from scoring.labels.judgements import Floats, Judgements
from scoring.labels.label_files import VOTES
from scoring.taxonomy import KEYS

MAX_SHOWN = 20
"""Limit on the people and classes of a table; JSON has them all."""


@dataclass(frozen=True)
class Sides:
    """How many are private, public, and neither."""

    num_private: int
    num_public: int
    num_open: int
    """Not said; of pictures also where as many people say private as public."""


@dataclass(frozen=True)
class LabelDescription:
    num_pictures: int
    num_with_sha256: int

    people_per_picture: Mapping[int, int]
    """Number of people who have a row of a picture -> pictures."""

    pictures: Sides
    """By the majority of people."""

    people: Mapping[str, Sides]
    """Annotator -> sides of the pictures of which there is a row."""

    votes: Mapping[str, int]
    """Vote -> rows; empty if nobody votes."""

    levels: Mapping[int, int]
    """Level of what is present, 0–4 -> rows; rows without it are in none."""

    attributes: Mapping[str, Mapping[str, int]]
    """Attribute that anybody judged -> rows that say 1, 0.5 and 0."""

    classes: Mapping[str, int]
    """Class -> rows, the most common first."""


def description(judged: Judgements) -> LabelDescription:
    people = Counter(judged.is_listed.sum(axis=0).tolist())
    levels = Counter(judged.levels()[~np.isnan(judged.levels())].astype(int).tolist())
    votes = {name: int((judged.vote == np.float32(step)).sum()) for name, step in VOTES.items()}
    counts = {
        key: {f"{step:g}": int((judged.values[:, :, index] == step).sum()) for step in (1, 0.5, 0)}
        for index, key in enumerate(KEYS)
    }
    return LabelDescription(
        num_pictures=len(judged.sha256),
        num_with_sha256=sum(sha256 is not None for sha256 in judged.sha256),
        people_per_picture=dict(sorted(people.items())),
        pictures=_sides(most_common(judged.private)),
        people={
            name: _sides(private[listed])
            for name, private, listed in zip(judged.annotators, judged.private, judged.is_listed, strict=True)
        },
        votes=votes if any(votes.values()) else {},
        levels=dict(sorted(levels.items())),
        attributes={key: of_key for key, of_key in counts.items() if any(of_key.values())},
        classes=dict(Counter(name for name in judged.texts["class"].ravel() if name is not None).most_common()),
    )


def _sides(private: Floats) -> Sides:
    return Sides(int((private == 1).sum()), int((private == 0).sum()), int(np.isnan(private).sum()))


def document(found: LabelDescription) -> Document:
    sides = found.pictures
    times = ", ".join(f"{num:,} by {people}" for people, num in found.people_per_picture.items())
    return Document(
        [
            f"pictures  {found.num_pictures:,}, {found.num_with_sha256:,} with sha256",
            f"people    {len(found.people):,}; pictures labelled {times}",
            f"private   {sides.num_private:,} private, {sides.num_public:,} public, {sides.num_open:,} open, by the "
            "majority",
        ],
        list(_tables(found)),
        [],
    )


def _tables(found: LabelDescription) -> Iterator[Table]:
    people: list[list[Cell]] = [
        [shortened(printable(name)), sides.num_private, sides.num_public, sides.num_open]
        for name, sides in found.people.items()
    ]
    yield table("By person" + _cut(people), ["", "private", "public", "open"], people[:MAX_SHOWN])
    for title, counts in (
        ("Votes", found.votes),
        (
            "Level of what is present, of the rows where it is known",
            {str(level): num for level, num in found.levels.items()},
        ),
        ("Classes", found.classes),
    ):
        rows: list[list[Cell]] = [
            [shortened(printable(name)), num, percent(num / sum(counts.values()))] for name, num in counts.items()
        ]
        if rows:
            yield table(title + _cut(rows), ["", "rows", "share"], rows[:MAX_SHOWN])
    attributes: list[list[Cell]] = [
        [key, *counts.values(), percent(counts["1"] / sum(counts.values()))] for key, counts in found.attributes.items()
    ]
    if attributes:
        heads = ["attribute", "present", "unclear", "absent", "share present"]
        yield table("Attributes, of the rows that judge them", heads, attributes)


def _cut(rows: list[list[Cell]]) -> str:
    return f"; the first {MAX_SHOWN} of {len(rows):,}, --format json gives all" if len(rows) > MAX_SHOWN else ""
