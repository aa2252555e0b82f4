"""A picture that an engine cannot take costs its own row; what cannot work at all is refused before anything runs."""

import json
import multiprocessing
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import scoring.protocols
from ingest.errors import EngineError
from scoring.assessment import EngineOptions, Unscored, View
from scoring.engines import engine_module
from scoring.engines.canary import canary, difference, record
from tests.making import Folders, Patch
from tests.vllm import warm_start
from tests.vllm.conftest import picture, probabilities

ENGINES = ("transformers", "vllm")


def test_a_picture_that_the_processor_refuses_costs_its_row(engine: Callable[..., Any], views: list[View]) -> None:
    """A strip 900 times as long as wide, and a picture without pixels."""
    empty = View(np.zeros((0, 0, 3), np.uint8), frozenset(), "0" * 64)
    for name in ENGINES:
        running = engine(name, protocol="slots")
        outcomes = running.assess([views[0], picture(8, 2, 1800), views[1], empty, views[2]])
        assert [o.reason for o in outcomes if isinstance(o, Unscored)] == ["engine_error", "engine_error"]
        good = [outcomes[at] for at in (0, 2, 4)]
        np.testing.assert_allclose(probabilities(good), probabilities(running.assess(views[:3])), atol=1e-5)


def test_a_huge_picture_is_downscaled_before_the_engine(engine: Callable[..., Any]) -> None:
    huge = picture(9, 3000, 2500)
    for name in ENGINES:
        running = engine(name, protocol="slots")
        assert probabilities(running.assess([huge])).shape == (1, 22, 3)
        assert running.prompter.processed("<|image_pad|>", _shrunk(huge))["input_ids"].shape[1] <= 160 * 160 // 32**2


def _shrunk(view: View) -> Any:
    from scoring.engines.picture import prepared

    return prepared(view.pixels, 160 * 160)


def test_a_prompt_that_is_too_long_with_its_picture_costs_its_row(
    engine: Callable[..., Any], checkpoint: Path, tmp_path: Path
) -> None:
    """vLLM has a limit of tokens; here the words leave room for a square of 25 visual tokens, and a strip takes 39."""
    short = tmp_path / "short"
    shutil.copytree(checkpoint, short)
    running = engine("transformers", protocol="slots")
    words = len(running.prompter.tokens(running._protocol.prompt).token_ids)
    _change(short / "tokenizer_config.json", model_max_length=words + 30)
    limited = engine("vllm", protocol="slots", model=str(short))
    small, large = picture(1, 96, 128), picture(2, 1270, 20)
    outcomes = limited.assess([small, large, small])
    assert outcomes[1] == Unscored("engine_error", "vLLM refused or lost the request (VLLMValidationError)")
    np.testing.assert_allclose(probabilities([outcomes[0]]), probabilities(running.assess([small])), atol=1e-5)
    np.testing.assert_allclose(probabilities([outcomes[2]]), probabilities(running.assess([small])), atol=1e-5)


def test_actors_agree_on_the_canary(engine: Callable[..., Any], adapter: Path) -> None:
    plain_actor = record(engine("vllm", protocol="slots").assess([canary()])[0])
    same = record(engine("transformers", protocol="slots").assess([canary()])[0])
    tuned = record(engine("transformers", protocol="slots", adapter=str(adapter)).assess([canary()])[0])
    assert difference(plain_actor, same) is None
    assert "differ by 0." in (difference(plain_actor, tuned) or "")


def _change(file: Path, **entries: Any) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | entries))


def test_weights_without_one_of_the_models_tensors_are_refused(checkpoint: Path, tmp_path: Path) -> None:
    """Both would fill it with random numbers and say nothing."""
    from safetensors.torch import load_file, save_file

    folder = tmp_path / "model"
    shutil.copytree(checkpoint, folder)
    tensors = load_file(folder / "model.safetensors")
    del tensors["model.visual.blocks.1.attn.proj.weight"]
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    for name in ENGINES:
        with pytest.raises(EngineError, match=r"incomplete: its files have no model\.visual\.blocks\.1\.attn\.proj\."):
            engine_module(name).load(EngineOptions(model=str(folder)))


@pytest.mark.parametrize("name", ENGINES)
def test_an_adapter_of_other_shapes_is_refused_and_the_module_named(
    checkpoint: Path, adapter: Path, tmp_path: Path, name: str
) -> None:
    from tests.vllm.micro import make_adapter

    def described(folder: Path) -> None:
        engine_module(name).describe(EngineOptions(model=str(checkpoint), adapter=str(folder)))

    described(adapter)
    wide = "model.language_model.layers.0.mlp.gate_proj"
    with pytest.raises(EngineError, match=r"gate_proj is 128x64 in the model and 64x64 in the adapter"):
        described(make_adapter(tmp_path / "narrow", checkpoint, extra=(wide,)))


def test_another_model_or_wording_is_another_description(checkpoint: Path, adapter: Path, tmp_path: Path) -> None:
    def described(**options: Any) -> Any:
        chosen: dict[str, Any] = {"model": str(checkpoint)} | options
        return engine_module("vllm").describe(EngineOptions(**chosen))

    wording = tmp_path / "texts.yaml"
    texts = Path(scoring.protocols.__file__).parent / "texts" / "slots.yaml"
    wording.write_text(yaml.safe_dump({"system": yaml.safe_load(texts.read_text())["system"] + " Take your time."}))
    plain_one = described()
    assert described() == plain_one
    assert described(prompt_file=wording.read_bytes()).protocol != plain_one.protocol
    assert described(max_pixels=300 * 300).protocol != plain_one.protocol
    assert described(vllm_option=("quantization=fp8",)).protocol == f"{plain_one.protocol}, fp8"
    assert described(vllm_option=("max_num_seqs=8",)) == plain_one
    assert described(adapter=str(adapter)).weights.keys() - plain_one.weights.keys() == {"adapter tuned"}
    shutil.copytree(checkpoint, tmp_path / "other")
    _change(tmp_path / "other" / "config.json", note="changed")
    assert list(described(model=str(tmp_path / "other")).weights.values()) != list(plain_one.weights.values())


def test_an_engine_leaves_no_file_in_the_temporary_folder(
    checkpoint: Path, tmp_path_factory: Folders, monkeypatch: Patch
) -> None:
    """vLLM leaves seven sockets there. Its processes are started as for users."""
    folder = tmp_path_factory.mktemp("t")  # short, as the paths of sockets must be
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    monkeypatch.delenv("VLLM_RPC_BASE_PATH")
    monkeypatch.setattr(multiprocessing, "get_context", warm_start._get_context)
    running: Any = engine_module("vllm").load(EngineOptions(model=str(checkpoint)))
    assert [path for path in folder.rglob("*") if path.is_socket()]
    running.close()
    assert not [path for path in folder.rglob("*") if path.is_socket()]
