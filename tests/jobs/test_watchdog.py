"""Who waits for workers that may be stopped says so."""

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


def test_who_hears_in_time_is_told_nothing() -> None:
    assert list(heard([1, 2, 3], 60, lambda: 1 / 0)) == [1, 2, 3]
