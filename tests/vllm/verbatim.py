"""What both engines say, word for word."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from scoring.assessment import Assessment, Outcome, View, not_assessed
from scoring.protocols.interface import Answer, Prompt, Protocol, TextAnswer


class Verbatim:
    """Asks what another protocol asks; the evidence of its outcome is the number under which `said` has the answers
    and `outcomes` what they amount to."""

    def __init__(self, asked: Protocol):
        self.asked = asked
        self.prompt = asked.prompt
        self.said: dict[str, list[TextAnswer]] = {}
        self.outcomes: dict[str, Outcome] = {}

    def parse(self, answers: Sequence[Answer]) -> Outcome | Prompt:
        result = self.asked.parse(answers)
        if isinstance(result, Prompt):
            return result
        number = str(len(self.said))
        self.said[number] = [a for a in answers if isinstance(a, TextAnswer)]
        self.outcomes[number] = result
        return Assessment(not_assessed(), (number,))


Said = tuple[list[TextAnswer], Outcome]
"""What a model said about one picture, pass by pass, and what the protocol made of it."""


def same_words(engine: Callable[..., Any], views: list[View], asked: Protocol, tuned: str | None = None) -> list[Said]:
    """What both engines said."""
    sides: dict[str, list[Said]] = {}
    for name in ("transformers", "vllm"):
        verbatim = Verbatim(asked)
        numbers = [o.evidence[0] for o in engine(name, protocol="json", adapter=tuned).assess_with(verbatim, views)]
        sides[name] = [(verbatim.said[number], verbatim.outcomes[number]) for number in numbers]
    for (ours, outcome), (theirs, other_outcome) in zip(sides["transformers"], sides["vllm"], strict=True):
        assert [a.text for a in ours] == [a.text for a in theirs]
        assert [a.is_cut_off for a in ours] == [a.is_cut_off for a in theirs]
        for one, other in zip(ours, theirs, strict=True):
            assert [t.text for t in one.tokens] == [t.text for t in other.tokens]
            for mine, its in zip(one.tokens, other.tokens, strict=True):
                assert mine.probabilities == pytest.approx(its.probabilities, abs=1e-5)
        if isinstance(outcome, Assessment) and isinstance(other_outcome, Assessment):
            np.testing.assert_array_equal(outcome.values, other_outcome.values)
        else:
            assert outcome == other_outcome
    found = sides["vllm"]
    spreads = [tuple(token.probabilities for token in result[0].tokens) for result, _ in found if result[0].tokens]
    assert len(set(spreads)) == len(spreads), "the answers must depend on the picture"
    return found
