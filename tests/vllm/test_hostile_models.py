"""Models and adapters that are made to hang a scan, or to fill its memory."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingest.errors import EngineError
from scoring.assessment import EngineOptions, View
from scoring.engines import engine_module
from scoring.engines.vlm import chat_template
from tests.making import Patch
from tests.vllm.conftest import MAX_PIXELS, probabilities

BACKTRACKING = r"(([a-z_]+\.?)+)+!"
"""Takes longer than anyone waits for any name of a module."""


@pytest.fixture(autouse=True)
def short_limit(monkeypatch: Patch) -> None:
    monkeypatch.setattr(chat_template, "LIMITS", replace(chat_template.LIMITS, cpu_s=2))


LOOPS = "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}" + (
    "{% endfor %}{% endfor %}"
)


@pytest.mark.parametrize(
    ("template", "message"),
    [
        (LOOPS, "its chat template takes more than 2 s"),
        ("{{ 'a' * 3000000000 }}", "its chat template takes more than 512 MB of memory"),
        ("{% set n = namespace(x='a') %}{% for i in range(40) %}{% set n.x = n.x ~ n.x %}{% endfor %}", "512 MB"),
        ("{{ 'a' * 20000000 }}", "its chat template makes a text of 20,000,000 characters"),
    ],
)
def test_a_chat_template_that_loops_or_fills_the_memory_is_refused(
    checkpoint: Path, tmp_path: Path, template: str, message: str
) -> None:
    model = shutil.copytree(checkpoint, tmp_path / "model")
    (model / "chat_template.jinja").write_text(template)
    transformers, vllm = engine_module("transformers"), engine_module("vllm")
    for ask in (transformers.describe, transformers.preview, vllm.load):
        with pytest.raises(EngineError, match=r'^the model "model" cannot be asked: ') as refused:
            ask(EngineOptions(model=str(model), max_pixels=MAX_PIXELS))
        assert message in str(refused.value)


def test_a_chat_template_that_loops_only_over_answers_is_refused_too(checkpoint: Path) -> None:
    chat = [{"role": "user", "content": [{"type": "text", "text": "?"}]}]
    answered = [*chat, {"role": "assistant", "content": [{"type": "text", "text": "yes"}]}]
    template = "{% if messages[-1].role == 'assistant' %}" + LOOPS + "{% endif %}"
    chat_template.check_template("model", template, {}, [chat])
    with pytest.raises(EngineError, match="its chat template takes more than 2 s"):
        chat_template.check_template("model", template, {}, [chat, answered])


OF_MODULES = {"target_modules": BACKTRACKING, "exclude_modules": BACKTRACKING}
OF_LAYERS = {"target_modules": ["q_proj"], "layers_pattern": BACKTRACKING, "layers_to_transform": [0]}


@pytest.mark.parametrize(
    ("name", "settings"), [("transformers", OF_MODULES), ("transformers", OF_LAYERS), ("vllm", OF_LAYERS | OF_MODULES)]
)
def test_a_pattern_for_the_modules_of_an_adapter_is_not_run(
    engine: Callable[..., Any],
    checkpoint: Path,
    adapter: Path,
    tmp_path: Path,
    views: list[View],
    name: str,
    settings: dict[str, object],
) -> None:
    """The modules are those that the weights are of, so the answers are those of the honest adapter."""
    hostile = shutil.copytree(adapter, tmp_path / "hostile")
    config = json.loads((hostile / "adapter_config.json").read_text())
    (hostile / "adapter_config.json").write_text(json.dumps(config | settings))
    honest = engine("transformers", protocol="slots", adapter=str(adapter)).assess(views[:2])
    answered = engine(name, protocol="slots", adapter=str(hostile)).assess(views[:2])
    np.testing.assert_allclose(probabilities(answered), probabilities(honest), atol=1e-5)
