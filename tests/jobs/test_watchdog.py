"""The driver says so where no worker gives a result for long."""

import threading
from collections.abc import Iterator

from jobs.scanning.watchdog import noticing_silence


def test_silence_is_reported_and_the_items_come_all_the_same() -> None:
    was_heard = threading.Event()

    def items() -> Iterator[int]:
        yield 1
        assert was_heard.wait(60)
        yield 2

    assert list(noticing_silence(items(), 0.05, was_heard.set)) == [1, 2]


def test_nothing_is_printed_if_items_come_in_time() -> None:
    assert list(noticing_silence([1, 2, 3], 60, lambda: 1 / 0)) == [1, 2, 3]
