"""What every engine says of itself before it is loaded; nothing outside of its folder needs to know it by name."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from ingest.errors import EngineError
from scoring.assessment import EngineOptions, RemoteEngineModule
from scoring.engine_facts import Requirements
from scoring.engines import DEFAULT, ENGINES, engine_module

ROOT = Path(__file__).parent.parent.parent
NONE = EngineOptions()
WITH_MODEL = {"transformers", "vllm"}


def test_the_default_is_one_of_them() -> None:
    assert DEFAULT in ENGINES


@pytest.mark.parametrize("name", ENGINES)
def test_an_engine_says_what_it_requires_without_any_option(name: str) -> None:
    module = engine_module(name)
    assert isinstance(module.requirements(NONE), Requirements)
    assert (module.requirements(NONE).local_model is not None) == (name in WITH_MODEL)
    assert isinstance(module, RemoteEngineModule) == (name == "openai")


@pytest.mark.parametrize("name", ENGINES)
def test_what_an_engine_requires_is_installed_by_an_extra_of_its_name(name: str) -> None:
    """`package_versions` names it by the engine."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    wanted = engine_module(name).requirements(NONE).extra
    assert wanted is None or {wanted, name} <= extras.keys()


@pytest.mark.parametrize("name", sorted(WITH_MODEL))
def test_what_a_model_takes_follows_its_files(name: str, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"x" * 1000)
    (tmp_path / "gone.safetensors").symlink_to(tmp_path / "nowhere")
    needed = engine_module(name).requirements(EngineOptions(model=str(tmp_path))).local_model
    assert needed is not None
    assert (needed.num_gpus, needed.weight_bytes) == (1, 1000)
    assert needed.cpu_memory_bytes == (1200 if name == "transformers" else 0)


def test_gpus_that_share_a_model() -> None:
    needed = engine_module("vllm").requirements(EngineOptions(tensor_parallel_size=4)).local_model
    assert needed is not None
    assert needed.num_gpus == 4


@pytest.mark.parametrize("name", sorted(WITH_MODEL))
def test_what_is_wrong_on_every_machine_is_refused_without_a_file(name: str) -> None:
    with pytest.raises(EngineError, match='unknown protocol "slot"'):
        engine_module(name).refuse_wrong(EngineOptions(model="owner/name", protocol="slot"))


def test_an_engine_that_is_asked_in_words_shows_its_prompt() -> None:
    options = EngineOptions(endpoint="http://127.0.0.1:9/v1", model="some", max_pixels=1000)
    preview = engine_module("openai").preview(options)
    assert preview.protocol is not None
    assert preview.protocol.startswith("json, version json-1 ")
    assert [part.heading for part in preview.parts] == ["system", "user", "assistant: a JSON form, at most 1024 tokens"]
    assert preview.num_text_tokens is None
    assert preview.describe_picture(np.zeros((100, 40, 3), dtype=np.uint8)).startswith("sent at 20x50, ")


@pytest.mark.parametrize("name", ["detectors", "canned"])
def test_an_engine_without_a_prompt_says_so(name: str) -> None:
    preview = engine_module(name).preview(NONE)
    assert (preview.protocol, preview.parts) == (None, ())
    assert preview.describe_picture(np.zeros((10, 20, 3), dtype=np.uint8)) == "seen at 20x10"


@dataclass(frozen=True)
class _NewOptions(EngineOptions):
    region: str | None = None


@pytest.mark.parametrize("engine", ENGINES)
def test_an_option_that_is_new_for_one_engine_is_refused_by_the_others(engine: str) -> None:
    module = engine_module(engine)
    for asked in (module.refuse_wrong, module.describe):
        with pytest.raises(
            EngineError, match=f"^the {engine} engine takes no --region; leave it out or choose another"
        ):
            asked(_NewOptions(region="eu"))
