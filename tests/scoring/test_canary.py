"""Two actors of one run are compared by their answers to one made picture."""

from typing import Any

import numpy as np
import pytest

from scoring.assessment import Assessment, not_assessed
from scoring.engines.canary import canary, difference, record

OF_THE_CANARY = "of the canary picture"


def answered(present: float = 0.2, **more: Any) -> bytes:
    probabilities = np.tile(np.array([0.8 - present, 0.2, present], dtype=np.float32), (22, 1))
    return record(Assessment(not_assessed(), probabilities=probabilities, **more))


def answer_of(num_present: int) -> bytes:
    values = np.zeros(22, dtype=np.float32)
    values[:num_present] = 1
    return record(Assessment(values))


def judged(**answer: Any) -> bytes:
    return record(Assessment(not_assessed(), **answer))


@pytest.mark.parametrize(
    ("one", "other", "why"),
    [
        (answered(0.2), answered(0.21), None),
        (answered(0.2), answered(0.5), f"probabilities {OF_THE_CANARY} differ by 0.300"),
        (answer_of(3), answer_of(5), None),
        (answer_of(3), answer_of(6), f"values {OF_THE_CANARY} differ"),
        (judged(holistic_score=0.62), judged(holistic_score=0.63), None),
        (judged(holistic_score=0.2), judged(holistic_score=0.9), f"holistic_score {OF_THE_CANARY} differs"),
        (judged(private=True, prob_private=0.51), judged(private=False, prob_private=0.499), None),
        (judged(prob_private=0.9), judged(prob_private=0.2), f"prob_private {OF_THE_CANARY} differ by 0.700"),
        (judged(private=True), judged(private=False), f"private {OF_THE_CANARY} differs"),
        (judged(holistic_score=0.2), judged(private=True), f"holistic_score {OF_THE_CANARY} differs"),
    ],
)
def test_answers_of_two_actors(one: bytes, other: bytes, why: str | None) -> None:
    for found in (difference(one, other), difference(other, one)):
        assert found == why


@pytest.mark.parametrize(("num_lacking", "are_alike"), [(0, True), (2, True), (3, False), (22, False)])
def test_an_actor_without_probabilities_that_another_has(num_lacking: int, are_alike: bool) -> None:
    lacking = np.tile(np.array([0.6, 0.2, 0.2], dtype=np.float32), (22, 1))
    lacking[:num_lacking] = np.nan
    other = record(Assessment(not_assessed(), probabilities=lacking))
    assert (difference(answered(), other) is None) == are_alike
    assert (difference(other, answered()) is None) == are_alike


def test_the_picture_is_the_same_in_every_process() -> None:
    assert canary().sha256 == "69354216f2f532cc7520e585b0f14a86f269596ca15cf9412a1ca8c522938452"
