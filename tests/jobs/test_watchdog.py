"""The driver says so where no worker gives a result for long."""

import threading
from collections.abc import Iterator

from jobs.watchdog import heard


def test_silence_is_told_once_and_the_items_come_all_the_same() -> None:
    told = threading.Event()
    calls: list[int] = []

    def tell() -> None:
        calls.append(1)
        told.set()

    def items() -> Iterator[int]:
        yield 1
        assert told.wait(60)
        yield 2

    found = heard(items(), 0.05, tell)
    assert next(found) == 1
    calls.clear()
    told.clear()
    assert list(found) == [2]
    assert calls == [1]


def test_nothing_is_said_where_items_come_in_time() -> None:
    assert list(heard([1, 2, 3], 60, lambda: 1 / 0)) == [1, 2, 3]
