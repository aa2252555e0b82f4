"""Which families of models are scored, and that models with code of their own are refused."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingest.errors import EngineError
from scoring.assessment import Assessment, EngineOptions
from scoring.engines import engine_module
from scoring.protocols import protocol
from scoring.protocols.interface import Generate, Image, Message, Prompt, Text
from tests.vllm.conftest import MAX_PIXELS, picture, probabilities

VIEWS = [picture(1, 96, 128), picture(2, 150, 100), picture(4, 300, 200)]


def made(folder: Path, name: str = "internvl") -> Path:
    from tests.vllm import families

    getattr(families, f"make_{name}")(folder / name)
    return folder / name


@pytest.mark.parametrize("name", ["llava", "internvl", "mllama"])
def test_families_other_than_qwen_are_scored(name: str, tmp_path: Path) -> None:
    """With pictures of several shapes, of which some families make several tiles; one by one and together."""
    chosen = EngineOptions(model=str(made(tmp_path, name)), protocol="slots", max_pixels=MAX_PIXELS)
    assert engine_module("transformers").describe(chosen).name == "transformers"
    running: Any = engine_module("transformers").load(chosen)
    together = probabilities(running.assess(VIEWS))
    np.testing.assert_allclose([probabilities(running.assess([view]))[0] for view in VIEWS], together, atol=1e-5)
    assert np.ptp(together, axis=0).max() > 0, "the answers must depend on the picture"
    for outcome in running.assess_with(protocol("binary:first"), VIEWS):
        assert isinstance(outcome, Assessment)
        assert outcome.prob_private is not None


def test_vllm_reads_probabilities_with_the_head_of_the_model_also_where_it_does_not_load_it(
    tmp_path: Path, engine: Callable[..., Any]
) -> None:
    folder = str(made(tmp_path))
    ours, theirs = (probabilities(engine(each, model=folder).assess(VIEWS)) for each in ("transformers", "vllm"))
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    assert np.ptp(theirs, axis=0).max() > 1e-4, "the answers must depend on the picture"


def test_a_head_that_the_files_hold_twice_is_refused(tmp_path: Path) -> None:
    """Such as that of a draft model beside it: which one is meant?"""
    from safetensors.torch import load_file, save_file

    folder = made(tmp_path)
    weights = load_file(folder / "model.safetensors")
    head = next(name for name in weights if name.endswith("embed_tokens.weight"))
    more = {f"draft.{head}": weights[head].clone(), "draft.lm_head.weight": weights[head].clone()}
    save_file(weights | more, folder / "model.safetensors", {"format": "pt"})
    with pytest.raises(EngineError, match=r"its files do not hold the matrix \S+ once"):
        engine_module("vllm").load(EngineOptions(model=str(folder), protocol="slots", max_pixels=MAX_PIXELS))


def test_probabilities_that_a_model_changes_behind_its_head_are_refused(tmp_path: Path) -> None:
    folder = made(tmp_path)
    config = json.loads((folder / "config.json").read_text())
    config["text_config"]["final_logit_softcapping"] = 30.0
    (folder / "config.json").write_text(json.dumps(config))
    for name in ("transformers", "vllm"):
        for asked in ("slots", "binary:first"):
            chosen = EngineOptions(model=str(folder), protocol=asked, max_pixels=MAX_PIXELS)
            with pytest.raises(EngineError, match=r"changes them behind its head \(final_logit_softcapping\)"):
                engine_module(name).load(chosen)


@pytest.mark.parametrize("model_type", ["internvl_chat", "tinyllava"])
@pytest.mark.parametrize("name", ["transformers", "vllm"])
def test_a_model_with_code_of_its_own_is_refused_and_none_of_it_runs(
    name: str, model_type: str, tmp_path: Path
) -> None:
    from tests.vllm.families import make_with_code_of_its_own

    make_with_code_of_its_own(tmp_path / "model", model_type)
    asks: list[Callable[[EngineOptions], object]] = [engine_module(name).describe, engine_module(name).load]
    for ask in asks:
        with pytest.raises(EngineError, match="models that need code of their own are not loaded") as refused:
            ask(EngineOptions(model=str(tmp_path / "model")))
        assert "\n" not in str(refused.value)


def test_a_picture_that_is_seen_by_cross_attention_gives_the_text_of_transformers(tmp_path: Path) -> None:
    """Llama 3.2-Vision: the mask of the picture's tiles is passed on to every token that is generated."""
    import torch

    from scoring.engines.picture import prepared

    chosen = EngineOptions(model=str(made(tmp_path, "mllama")), protocol="json", max_pixels=MAX_PIXELS)
    running: Any = engine_module("transformers").load(chosen)
    prompt = Prompt((Message("user", (Text("What is it?"), Image())),), Generate(8))
    texts = running._ask(VIEWS, dict.fromkeys(range(len(VIEWS)), prompt))
    tokens = running.prompter.tokens(prompt)
    for number, view in enumerate(VIEWS):
        inputs = running.prompter.processed(tokens.text, prepared(view.pixels, MAX_PIXELS))
        with torch.inference_mode():
            written = running.model.generate(**inputs, max_new_tokens=8, do_sample=False, pad_token_id=0)
        ids = written[0][inputs["input_ids"].shape[1] :]
        assert texts[number].text == running.prompter.tokenizer.decode(ids, skip_special_tokens=True)
