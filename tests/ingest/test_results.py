"""The names of results say which slices are done, in whatever order they come."""

import random

import pytest

from scoring.runs.ledger import finished, has_result, ledger_of, only_shards, result_name, result_names

SHARD = "a/00000.tar"


def _names(*numbers: int, last: int) -> list[str]:
    return [result_name(SHARD, n, n == last) for n in numbers]


def test_a_shard_is_finished_when_all_slices_up_to_the_last_are_there() -> None:
    names = _names(*range(12), last=11)
    random.Random(0).shuffle(names)
    ledger = ledger_of(names)
    assert finished(SHARD, ledger)
    assert len(ledger) == 1
    assert result_names(SHARD, ledger) == _names(*range(12), last=11)
    assert not finished("b/00000.tar", ledger)
    assert result_names("b/00000.tar", ledger) == []


@pytest.mark.parametrize(
    "names",
    [
        [],
        _names(0, 1, 2, last=9),
        _names(1, 2, last=2),
        _names(0, 2, last=2),
        _names(0, 1, last=1) + _names(1, last=9),
        _names(1, last=9) + _names(0, 1, last=1),
        _names(0, 1, last=1) + _names(2, last=2),
        _names(0, 1, 2, last=1),
        _names(0, last=0) + _names(1, last=1) + _names(1, last=9),
    ],
)
def test_gaps_and_contradictions_are_not_finished(names: list[str]) -> None:
    for order in (names, names[::-1]):
        assert not finished(SHARD, ledger_of(order))


def test_a_slice_has_its_result_only_as_what_it_is() -> None:
    ledger = ledger_of(_names(0, 1, 2, last=2))
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
