"""vLLM and transformers answer alike, token by token, with and without an adapter that also tunes the vision tower."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scoring.assessment import Assessment, View
from scoring.protocols import protocol
from scoring.protocols.interface import Generate
from scoring.protocols.two_pass import MAX_TOKENS_FIRST, TwoPassProtocol
from tests.vllm.verbatim import same_words

GENERATING = ("json", "severity", "severity:taxonomy", "binary:ours-1", "binary:ours-3,classes,reason")


@pytest.mark.parametrize("is_tuned", [False, True])
def test_slots(engine: Callable[..., Any], views: list[View], adapter: Path, is_tuned: bool) -> None:
    tuned = str(adapter) if is_tuned else None
    ours = engine("transformers", protocol="slots", adapter=tuned).assess(views)
    theirs = engine("vllm", protocol="slots", adapter=tuned).assess(views)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one.probabilities, other.probabilities, atol=1e-5)
        np.testing.assert_array_equal(one.values, other.values)
    spread = np.ptp([o.probabilities for o in theirs], axis=0)
    assert spread.max() > 0.01, "the answers must depend on the picture"


def test_an_adapter_is_merged_as_its_own_package_does(checkpoint: Path, adapter: Path, tmp_path: Path) -> None:
    """Also with another alpha for some modules, and where alpha is divided by the root of the rank."""
    from peft import PeftModel
    from transformers import Qwen3VLForConditionalGeneration

    from scoring.engines.vlm.merging import AdapterDeltas
    from tests.vllm.micro import TEXT_MODULES, VISION_MODULES

    settings = json.loads((adapter / "adapter_config.json").read_text())
    for number, other in enumerate(({}, {"use_rslora": True})):
        folder = shutil.copytree(adapter, tmp_path / str(number))
        (folder / "adapter_config.json").write_text(json.dumps(settings | other))
        plain = Qwen3VLForConditionalGeneration.from_pretrained(checkpoint)
        before = {name: weight.detach().clone() for name, weight in plain.named_parameters()}
        ours = dict(AdapterDeltas(folder).merged(before.items()))
        theirs = PeftModel.from_pretrained(plain, folder).merge_and_unload()
        for name, weight in theirs.named_parameters():
            np.testing.assert_allclose(ours[name], weight.detach(), atol=1e-6)
        assert (
            sum(ours[name] is not weight for name, weight in before.items()) == len(TEXT_MODULES + VISION_MODULES) * 2
        )


@pytest.mark.parametrize("name", GENERATING)
def test_generating_protocols(engine: Callable[..., Any], views: list[View], name: str) -> None:
    same_words(engine, views[:3], protocol(name))


def test_json_with_an_adapter(engine: Callable[..., Any], views: list[View], adapter: Path) -> None:
    same_words(engine, views[:3], protocol("json"), str(adapter))


def test_two_passes(engine: Callable[..., Any], views: list[View]) -> None:
    """The protocol as it ships, but for a grammar that holds the first answer to its form: a random model talks
    nonsense for 1,536 tokens otherwise, and never gets to the second pass."""
    shipped = protocol("two-pass")
    assert isinstance(shipped, TwoPassProtocol)
    notes = "".join(rf"Level {level}: [a-z]{{3,9}}( [a-z]{{3,9}}){{0,2}}\n" for level in (1, 2, 3, 4))
    first = replace(shipped.prompt, wanted=Generate(MAX_TOKENS_FIRST, regex=notes))
    found = same_words(engine, views[:3], replace(shipped, prompt=first))
    for result, outcome in found:
        assert len(result) == 2
        assert isinstance(outcome, Assessment)
        assert set(outcome.values.tolist()) <= {0, 0.5, 1}
    assert len({result[0].text for result, _ in found}) == 3, "the notes must depend on the picture"


def test_the_adapter_counts_in_the_language_model_and_in_the_vision_tower(
    engine: Callable[..., Any], views: list[View], adapter: Path, checkpoint: Path, tmp_path: Path
) -> None:
    from tests.vllm.micro import make_adapter

    only_language = make_adapter(tmp_path / "language", checkpoint, vision=False)
    found = [
        np.array([o.probabilities for o in engine("transformers", protocol="slots", adapter=each).assess(views)])
        for each in (None, str(only_language), str(adapter))
    ]
    assert np.abs(found[0] - found[1]).max() > 0.01
    assert np.abs(found[1] - found[2]).max() > 0.01
