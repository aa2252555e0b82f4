"""Weights from Python: nothing is printed."""

from pathlib import Path

import pytest

import privsieve
from scoring.engines.vlm.checkpoint import checkpoint
from tests.making import Capture
from tests.weights.served import BASE, Served


def test_weights_are_fetched_and_listed(served: Served, cache: Path, capfd: Capture) -> None:
    found = privsieve.fetch_weights(served.url("micro"))
    assert found.sha256 == checkpoint(str(BASE), with_weights=True).digest()
    assert (found.name, found.asked) == ("micro", served.url("micro"))
    (listed,) = privsieve.cached_weights()
    assert (listed.folder, listed.num_bytes, listed.is_whole) == (found.folder, found.num_bytes, True)
    assert capfd.readouterr() == ("", "")


def test_what_is_nowhere_is_one_line(served: Served) -> None:
    with pytest.raises(
        privsieve.EngineError, match=r"/absent holds no file of a model, or does not exist; give the URL"
    ):
        privsieve.fetch_weights(served.url("absent"))
