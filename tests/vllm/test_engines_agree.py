"""vLLM and transformers answer alike, token by token, with and without an adapter that also tunes the vision tower."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scoring.assessment import Assessment, Outcome, View, not_assessed
from scoring.protocols import protocol
from scoring.protocols.interface import (
    Answer,
    Generate,
    Image,
    Message,
    Prompt,
    Protocol,
    ProtocolOptions,
    Text,
    TextAnswer,
)

GENERATING = ("json", "severity", "severity:taxonomy", "binary:p1", "binary:p3,classes,reason")


class Verbatim:
    """Asks what another protocol asks; the evidence of its outcome is the number under which `said` has the answers."""

    def __init__(self, asked: Protocol):
        self.asked = asked
        self.prompt = asked.prompt
        self.said: dict[str, list[TextAnswer]] = {}

    def parse(self, answers: Sequence[Answer]) -> Outcome | Prompt:
        result = self.asked.parse(answers)
        if isinstance(result, Prompt):
            return result
        number = str(len(self.said))
        self.said[number] = [a for a in answers if isinstance(a, TextAnswer)]
        return Assessment(not_assessed(), (number,))


class TwoRounds:
    """A short stand-in for `two-pass`, whose answers are 1,536 tokens long with a model that talks nonsense: 12 free
    tokens about the picture, then a form filled without it."""

    def __init__(self) -> None:
        self.prompt = Prompt((Message("user", (Text("What is shown?"), Image())),), Generate(12))

    def parse(self, answers: Sequence[Answer]) -> Outcome | Prompt:
        first = answers[0]
        assert isinstance(first, TextAnswer)
        if len(answers) == 2:
            return Assessment(not_assessed())
        wanted = Generate(40, {"type": "object", "properties": {"age": {"enum": [0, 0.5, 1]}}, "required": ["age"]})
        return Prompt((Message("user", (Text(f"Judge: {first.text!r}"),)),), wanted)


def _same_words(engine: Callable[..., Any], views: list[View], asked: Any, tuned: str | None) -> None:
    sides = {}
    for name in ("transformers", "vllm"):
        verbatim = Verbatim(asked)
        outcomes = engine(name, protocol="json", adapter=tuned).assess_with(verbatim, views)
        sides[name] = [verbatim.said[o.evidence[0]] for o in outcomes]
    for ours, theirs in zip(sides["transformers"], sides["vllm"], strict=True):
        assert [a.text for a in ours] == [a.text for a in theirs]
        assert [a.is_cut_off for a in ours] == [a.is_cut_off for a in theirs]
        for one, other in zip(ours, theirs, strict=True):
            assert [t.text for t in one.tokens] == [t.text for t in other.tokens]
            for mine, its in zip(one.tokens, other.tokens, strict=True):
                assert mine.probabilities == pytest.approx(its.probabilities, abs=1e-5)
    spreads = [tuple(token.probabilities for token in said[0].tokens) for said in sides["vllm"] if said[0].tokens]
    assert len(set(spreads)) == len(spreads), "the answers must depend on the picture"


@pytest.mark.parametrize("is_tuned", [False, True], ids=["plain", "adapter"])
def test_slots(engine: Callable[..., Any], views: list[View], adapter: Path, is_tuned: bool) -> None:
    tuned = str(adapter) if is_tuned else None
    ours = engine("transformers", protocol="slots", adapter=tuned).assess(views)
    theirs = engine("vllm", protocol="slots", adapter=tuned).assess(views)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one.probabilities, other.probabilities, atol=1e-5)
        np.testing.assert_array_equal(one.values, other.values)
    spread = np.ptp([o.probabilities for o in theirs], axis=0)
    assert spread.max() > 0.01, "the answers must depend on the picture"


@pytest.mark.parametrize("is_tuned", [False, True], ids=["plain", "adapter"])
@pytest.mark.parametrize("name", GENERATING)
def test_generating_protocols(
    engine: Callable[..., Any], views: list[View], adapter: Path, name: str, is_tuned: bool
) -> None:
    _same_words(engine, views[:3], protocol(name, ProtocolOptions()), str(adapter) if is_tuned else None)


@pytest.mark.parametrize("is_tuned", [False, True], ids=["plain", "adapter"])
def test_two_passes(engine: Callable[..., Any], views: list[View], adapter: Path, is_tuned: bool) -> None:
    _same_words(engine, views[:3], TwoRounds(), str(adapter) if is_tuned else None)


def test_the_adapter_counts_in_the_language_model_and_in_the_vision_tower(
    engine: Callable[..., Any], views: list[View], adapter: Path, checkpoint: Path, tmp_path: Path
) -> None:
    from tests.vllm.micro import make_adapter

    only_language = make_adapter(tmp_path / "language", checkpoint, vision=False)
    found = [
        np.array([o.probabilities for o in engine("transformers", protocol="slots", adapter=tuned).assess(views)])
        for tuned in (None, str(only_language), str(adapter))
    ]
    assert np.abs(found[0] - found[1]).max() > 0.01
    assert np.abs(found[1] - found[2]).max() > 0.01
