"""Slices: every sample in exactly one, names that are known beforehand, and what counts as finished."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.sample import MAX_BYTES, MAX_SAMPLES, Slice, cut
from scoring.runs.ledger import finished, ledger_of, result_name, result_names

SIZES = st.lists(st.one_of(st.integers(0, 1000), st.integers(0, 2 * MAX_BYTES)), max_size=60)
SHARDS = st.text(min_size=1, max_size=80)


@pytest.mark.slow
@given(sizes=SIZES, many=st.sampled_from([0, MAX_SAMPLES - 1, MAX_SAMPLES, 2 * MAX_SAMPLES + 1]))
def test_every_sample_is_in_exactly_one_slice(sizes: list[int], many: int) -> None:
    sizes = sizes + [1] * many
    samples = [({"index": index}, size) for index, size in enumerate(sizes)]
    found = list(cut("a", iter(samples)))
    assert found == list(cut("a", iter(samples)))
    assert [at["index"] for slice_ in found for at in slice_.locators] == list(range(len(sizes)))
    assert [slice_.number for slice_ in found] == list(range(len(found)))
    assert [slice_.is_last for slice_ in found] == [False] * (len(found) - 1) + [True]
    for slice_ in found:
        num_bytes = sum(sizes[at["index"]] for at in slice_.locators)
        assert len(slice_.locators) <= MAX_SAMPLES
        assert num_bytes <= MAX_BYTES or len(slice_.locators) == 1
        assert slice_.locators or len(found) == 1
        assert Slice.from_json(slice_.to_json()) == slice_


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
    ],
)
def test_a_shard_is_finished_when_all_its_slices_are_there(there: list[tuple[int, bool]], is_finished: bool) -> None:
    others = [result_name("b", 0, True), "run.json", f"{result_name('a', 0, True)}.part"]
    ledger = ledger_of([*others, *(result_name("a", number, is_last) for number, is_last in there)])
    assert finished("a", ledger) is is_finished


def test_an_undecodable_shard_name_survives_json() -> None:
    slice_ = Slice("caf\udce9", 0, True, [{"index": 0, "name": "\udcff\n"}])
    assert slice_.to_json().isascii()
    assert Slice.from_json(slice_.to_json()) == slice_
    assert result_name(slice_.shard, 0, True).isascii()
