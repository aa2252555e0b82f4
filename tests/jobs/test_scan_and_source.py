"""A run and its source: where the run may lie, and what a source that changed since means for it."""

import json
from pathlib import Path

from ingest.storage.place import place
from jobs.scanning.chosen import draw, first
from scoring.runs.attempts import Attempts


def test_the_first_samples_skip_nothing() -> None:
    assert first(["a", "b", "c", "d"], [0, 3, 0, 5], 4) == {"a": [], "b": [0, 1, 2], "c": [], "d": [0]}
    assert draw(["a", "b"], [0, 2], 2, seed=0) == {"b": [0, 1]}


def test_an_interruption_is_not_held_against_a_slice(tmp_path: Path) -> None:
    """What was begun once is forgotten; what killed workers before keeps those deaths; what was given up stays so."""
    attempts = Attempts(place(str(tmp_path)))
    attempts.begin("under way")
    for _ in range(3):
        attempts.begin("killed twice")
    attempts.fail("given up", "the store is gone")
    attempts.discount_interrupted()
    assert {a.name: (a.deaths, a.failure) for a in attempts.all()} == {
        "killed twice": (2, None),
        "given up": (0, "the store is gone"),
    }


def test_what_ended_a_worker_is_known_by_its_type_only(tmp_path: Path) -> None:
    attempts = Attempts(place(str(tmp_path)))
    attempts.begin("slice")
    attempts.record_crash("slice", "ZeroDivisionError")
    before = attempts.begin("slice")
    assert (before.deaths, before.cause) == (1, "ZeroDivisionError")
    stored = json.loads((tmp_path / "slice.json").read_text())
    assert stored == {"deaths": 2, "failure": None, "cause": "ZeroDivisionError"}
