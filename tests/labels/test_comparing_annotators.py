"""What `labels agreement` says beside kappa: agreement by class and category, and who finds an attribute too often."""

from collections.abc import Sequence
from typing import Any

import pytest

from reports.labels.agreement import agreement_table
from scoring.labels.judgements import judgements
from scoring.labels.table import to_labels

CLEARLY, PRIVATE, PUBLIC, OPEN = "clearly private", "private", "public", "clearly public"


def _votes(category: Sequence[str | None], *people: Sequence[str | None]) -> dict[tuple[object, object], Any]:
    keys = [str(number) for number in range(len(category))]
    columns: dict[str, Sequence[object]] = {"key": keys, "class": category}
    tables = [
        (name, to_labels({**columns, "annotator": [name] * len(keys), "vote": list(votes)}, len(keys)))
        for name, votes in zip("abcde", people, strict=False)
    ]
    return {(g.category, g.majority): g for g in agreement_table(judgements(tables)).pairwise.groups}


def test_pairwise_agreement_is_shown_by_class_and_category() -> None:
    found = _votes(
        ["nudity", "nudity", "religion", None],
        [CLEARLY, PRIVATE, OPEN, CLEARLY],
        [CLEARLY, PRIVATE, OPEN, OPEN],
        [PRIVATE, PRIVATE, PUBLIC, None],
    )
    # One against two votes a step apart: pairs 1, .75, .75. The last picture ties, so it has no class.
    assert found["nudity", None].mean == pytest.approx((2.5 / 3 + 1) / 2)
    assert found["nudity", CLEARLY].mean == pytest.approx(2.5 / 3)
    assert (found["nudity", PRIVATE].mean, found["nudity", PRIVATE].band) == (1, "high")
    assert found[None, OPEN].num_items == found["religion", OPEN].num_items == 1
    assert (None, None) not in found
    assert (None, PUBLIC) not in found
    tied = _votes(["x"], [CLEARLY], [OPEN])
    assert {name: (g.num_items, g.mean, g.band) for name, g in tied.items()} == {("x", None): (1, 0, "none")}
