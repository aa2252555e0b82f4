"""Which pictures are drawn, and on which side of the split they are."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.errors import LabelsError
from scoring.tuning.targets import Candidate, Target, drawn, splits
from tests.tuning_sets.made import sha256


def candidates(group_size: int = 1, **counts: int) -> list[Candidate]:
    """`face=3`: three private pictures of the class face; `public` and `unknown` as they are called."""
    made: list[Candidate] = []
    for name, count in counts.items():
        for number in range(count):
            hash_, group = sha256(f"{name} {number}".encode()), sha256(f"{name} {number // group_size}".encode())
            private = {"public": False, "unknown": None}.get(name, True)
            class_name = None if name in ("public", "private", "unknown") else name
            level = {"public": 4, "face": 1}.get(name, 2)
            made.append(
                Candidate("s", len(made), f"{name}{number}", hash_, "jpg", class_name, private, level, Target(), group)
            )
    return made


def names(chosen: Sequence[Candidate]) -> Counter[str]:
    return Counter(one.stratum for one in chosen)


@pytest.mark.parametrize("num_pictures", [None, 17])
def test_a_draw_depends_neither_on_the_order_of_the_corpus_nor_on_where_its_pictures_lie(
    num_pictures: int | None,
) -> None:
    found = candidates(face=9, card=12, public=30)
    mixed = found[:]
    random.Random(0).shuffle(mixed)
    moved = [replace(c, shard="other", index=99 - c.index, key="x") for c in mixed]
    hashes = [c.sha256 for c in drawn(found, num_pictures, 3)]
    assert hashes == [c.sha256 for c in drawn(mixed, num_pictures, 3)]
    assert hashes == [c.sha256 for c in drawn(moved, num_pictures, 3)]
    assert hashes != [c.sha256 for c in drawn(found, num_pictures, 4)]


@given(st.lists(st.integers(1, 40), min_size=1, max_size=6), st.data())
def test_n_takes_each_class_in_proportion_and_a_larger_draw_holds_the_smaller(
    sizes: list[int], data: st.DataObject
) -> None:
    found = candidates(**{f"class{at}": size for at, size in enumerate(sizes)})
    if len(found) < 3:
        return
    num = data.draw(st.integers(2, len(found) - 1))
    small, large = (drawn(found, n, 0) for n in (num, num + 1))
    assert len(small) == num
    assert {c.sha256 for c in small} < {c.sha256 for c in large}
    for name, count in names(found).items():
        assert abs(names(small)[name] - num * count / len(found)) < 1.5


def test_n_of_two_classes_rounds_to_the_nearest() -> None:
    found = candidates(face=10, public=30)
    assert [names(drawn(found, n, 0))["face"] for n in (4, 5, 7, 10, 40)] == [1, 1, 2, 3, 10]


def test_n_is_refused_if_there_are_fewer() -> None:
    with pytest.raises(LabelsError, match="--n 9: there are 8 pictures; give that or less"):
        drawn(candidates(face=4, public=4), 9, 0)


def test_a_private_class_of_the_name_public_is_not_public() -> None:
    one = Candidate("s", 0, "k", sha256(b""), "jpg", "public", True, None, Target())
    assert one.stratum == "private"


def test_near_duplicates_are_on_one_side_and_stay_there_in_larger_draws() -> None:
    found = candidates(group_size=4, face=80, public=120)
    side: dict[str, str] = {}
    for num in (20, 100, 200):
        for split, chosen in splits(drawn(found, num, 0), 0.3, 0).items():
            for one in chosen:
                assert side.setdefault(one.group, split) == split
    assert len(side) == 50
    assert 5 <= list(side.values()).count("validation") <= 25


def test_without_a_share_nothing_is_held_back() -> None:
    found = candidates(face=30)
    assert splits(found, 0, 0)["validation"] == []
