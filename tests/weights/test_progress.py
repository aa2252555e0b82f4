"""What the user sees while weights are fetched."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from jobs.runtime.progress import Feedback, Meter
from jobs.runtime.weights import fetch_weights
from tests.recorded import RecordedMeter
from tests.weights.served import PIECE, Served, large_model


def test_bytes_rate_and_time_left_are_shown(served: Served) -> None:
    large_model(served, "large", 3 * PIECE)
    meters = list[RecordedMeter]()

    @contextmanager
    def meter(label: str, num_images: int | None) -> Iterator[Meter]:
        meters.append(RecordedMeter(label, num_images))
        yield meters[-1]

    fetch_weights(served.url("large"), Feedback(meter, lambda line: None))
    (shown,) = meters
    texts = [text for text, _ in shown.phases]
    assert shown.label == "weights"
    assert texts[0] == "fetching large, 100.8 MB"
    assert [is_logged for _, is_logged in shown.phases].count(True) == 1  # a log has a line a minute, not one a piece
    in_the_middle = re.compile(r"fetching large: [\d.]+ MB of 100.8 MB, [\d.,]+ [kMG]B/s, \d+ s left")
    assert any(in_the_middle.fullmatch(text) for text in texts)
    assert texts[-1].startswith("fetching large: 100.8 MB of 100.8 MB, ")


def test_nothing_is_shown_where_nothing_is_fetched(served: Served) -> None:
    fetch_weights(served.url("micro"))

    def meter(label: str, num_images: int | None) -> None:
        pytest.fail("a meter was opened")

    fetch_weights(served.url("micro"), Feedback(meter, lambda line: None))  # type: ignore[arg-type]
