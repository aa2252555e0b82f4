"""Slices: every sample in exactly one, names that are known beforehand, and what counts as finished."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.sample import Slice
from scoring.runs.ledger import finished, has_result, ledger_of, only_shards, result_name, result_names

SHARDS = st.text(min_size=1, max_size=80)


@pytest.mark.slow
@given(shards=st.lists(SHARDS, min_size=1, max_size=6, unique=True), num_slices=st.integers(1, 4))
def test_result_names_tell_shard_and_number_apart(shards: list[str], num_slices: int) -> None:
    names = [result_name(s, n, n == num_slices - 1) for s in shards for n in range(num_slices)]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z0-9._=-]{1,120}", name) and not name.startswith(".") for name in names)
    ledger = ledger_of(names)
    for shard in shards:
        assert finished(shard, ledger)
        assert result_names(shard, ledger) == [result_name(shard, n, n == num_slices - 1) for n in range(num_slices)]
        assert sum(name in result_names(shard, ledger) for name in names) == num_slices


@pytest.mark.parametrize(
    ("there", "is_finished"),
    [
        ([], False),
        ([(0, True)], True),
        ([(0, False)], False),
        ([(0, False), (1, True)], True),
        ([(1, True)], False),
        ([(0, False), (2, True)], False),
        ([(0, False), (1, False), (1, True)], False),
        ([(0, True), (1, True)], False),
        ([(0, False), (1, True), (2, True)], False),
        ([(0, False), (1, True), (2, False)], False),
        ([(n, n == 11) for n in range(12)], True),
    ],
)
def test_a_shard_is_finished_when_all_its_slices_are_there(there: list[tuple[int, bool]], is_finished: bool) -> None:
    others = [result_name("b", 0, True), "run.json", f"{result_name('a', 0, True)}.part"]
    names = [result_name("a", number, is_last) for number, is_last in there]
    for order in (names, names[::-1]):
        assert finished("a", ledger_of([*others, *order])) is is_finished


def test_an_undecodable_shard_name_survives_json() -> None:
    slice_ = Slice("caf\udce9", 0, True, [{"index": 0, "name": "\udcff\n"}])
    assert slice_.to_json().isascii()
    assert Slice.from_json(slice_.to_json()) == slice_
    assert result_name(slice_.shard, 0, True).isascii()


SHARD = "a/00000.tar"


def test_a_slice_has_its_result_only_as_what_it_is() -> None:
    ledger = ledger_of(result_name(SHARD, n, n == 2) for n in range(3))
    assert [has_result(SHARD, n, False, ledger) for n in range(4)] == [True, True, False, False]
    assert has_result(SHARD, 2, True, ledger)
    assert not has_result(SHARD, 1, True, ledger)
    assert not has_result("b.tar", 0, False, ledger)


def test_other_files_are_passed_over() -> None:
    shard_id = result_name(SHARD, 0, False).removesuffix(".00000.parquet")
    ends = ["", ".0000", f".{'9' * 30}", ".00000-first", ".-last"]
    others = ["run.json", ".00000.parquet", "00000.parquet", f"{shard_id}.00000.parquet.1a2b3c4d.part"]
    assert len(ledger_of([*others, *(f"{shard_id}{end}.parquet" for end in ends)])) == 0


def test_a_worker_is_given_its_shards_only() -> None:
    shards = [f"{n:05d}.tar" for n in range(10)]
    ledger = ledger_of(result_name(shard, 0, True) for shard in shards)
    some = only_shards([shards[3], "no.tar"], ledger)
    assert len(some) == 1
    assert finished(shards[3], some)
    assert not finished(shards[4], some)
