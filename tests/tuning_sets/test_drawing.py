"""Which pictures are drawn, and on which side of the split they are."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.errors import LabelsError
from scoring.tuning.targets import Candidate, Draw, Target, drawn, splits
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


DRAWS = [
    Draw(seed=3),
    Draw(seed=3, per_class=4),
    Draw(seed=3, num_pictures=17),
    Draw(seed=3, equal_levels=True),
    Draw(seed=3, leave_out=("card",)),
    Draw(seed=3, per_class=6, num_pictures=9, leave_out=("face",)),
]


@pytest.mark.parametrize("draw", DRAWS, ids=str)
def test_a_draw_depends_neither_on_the_order_of_the_corpus_nor_on_where_its_pictures_lie(draw: Draw) -> None:
    found = candidates(face=9, card=12, public=30)
    mixed = found[:]
    random.Random(0).shuffle(mixed)
    moved = [replace(c, shard="other", index=99 - c.index, key="x") for c in mixed]
    hashes = [c.sha256 for c in drawn(found, draw)]
    assert hashes == [c.sha256 for c in drawn(mixed, draw)] == [c.sha256 for c in drawn(moved, draw)]
    other = Draw(seed=4, leave_out=draw.leave_out)
    assert [c.sha256 for c in drawn(found, other)] != [
        c.sha256 for c in drawn(found, Draw(3, leave_out=draw.leave_out))
    ]


def test_per_class_takes_as_many_public_pictures_as_private_ones() -> None:
    assert names(drawn(candidates(face=9, card=12, public=30), Draw(per_class=5))) == {
        "face": 5,
        "card": 5,
        "public": 10,
    }


def test_per_class_names_every_class_with_too_few() -> None:
    with pytest.raises(LabelsError, match=r"--per-class: too few pictures: face 9 of 10, public 15 of 20; lower it"):
        drawn(candidates(face=9, card=12, public=15), Draw(per_class=10))


def test_equal_levels_take_as_many_as_the_rarest_has() -> None:
    found = drawn(candidates(face=3, card=12, public=30), Draw(equal_levels=True))
    assert Counter(one.level for one in found) == {1: 3, 2: 3, 4: 3}


def test_equal_levels_need_the_level_of_each_picture() -> None:
    found = candidates(face=3, public=3)
    found[0] = replace(found[0], level=None)
    with pytest.raises(LabelsError, match="--levels equal: 1 pictures have no level"):
        drawn(found, Draw(equal_levels=True))


def test_a_class_is_left_out_by_its_exact_name() -> None:
    found = candidates(face=3, card=3, public=6)
    assert names(drawn(found, Draw(leave_out=("card", "public")))) == {"face": 3}
    with pytest.raises(
        LabelsError, match=r'no picture has the class "fase" \(did you mean "face"\?\); there are: card'
    ):
        drawn(found, Draw(leave_out=("fase",)))


@given(st.lists(st.integers(1, 40), min_size=1, max_size=6), st.data())
def test_n_takes_each_class_in_proportion_and_a_larger_draw_holds_the_smaller(
    sizes: list[int], data: st.DataObject
) -> None:
    found = candidates(**{f"class{at}": size for at, size in enumerate(sizes)})
    if len(found) < 3:
        return
    num = data.draw(st.integers(2, len(found) - 1))
    small, large = (drawn(found, Draw(num_pictures=n)) for n in (num, num + 1))
    assert len(small) == num
    assert {c.sha256 for c in small} < {c.sha256 for c in large}
    for name, count in names(found).items():
        assert abs(names(small)[name] - num * count / len(found)) < 1.5


def test_n_of_two_classes_rounds_to_the_nearest() -> None:
    found = candidates(face=10, public=30)
    assert [names(drawn(found, Draw(num_pictures=n)))["face"] for n in (4, 5, 7, 10, 40)] == [1, 1, 2, 3, 10]


def test_n_is_refused_if_there_are_fewer() -> None:
    with pytest.raises(LabelsError, match="--n 9: there are 8 pictures; give that or less"):
        drawn(candidates(face=4, public=4), Draw(num_pictures=9))


def test_a_smaller_draw_per_class_is_contained_in_a_larger_one() -> None:
    found = candidates(face=20, card=25, public=60)
    held: set[str] = set()
    for num in (1, 5, 10, 20):
        now = {c.sha256 for c in drawn(found, Draw(per_class=num))}
        assert held < now
        held = now


def test_a_private_class_of_the_name_public_is_not_public() -> None:
    one = Candidate("s", 0, "k", sha256(b""), "jpg", "public", True, None, Target())
    assert one.stratum == "private"


def test_near_duplicates_are_on_one_side_and_stay_there_in_larger_draws() -> None:
    found = candidates(group_size=4, face=80, public=120)
    side: dict[str, str] = {}
    for num in (20, 100, 200):
        draw = Draw(num_pictures=num, validation_share=0.3)
        for split, chosen in splits(drawn(found, draw), draw).items():
            for one in chosen:
                assert side.setdefault(one.group, split) == split
    assert len(side) == 50
    assert 5 <= list(side.values()).count("validation") <= 25


def test_without_a_share_nothing_is_held_back() -> None:
    found = candidates(face=30)
    assert splits(found, Draw(validation_share=0))["validation"] == []
