"""Models and adapters that cannot work are told before anything is loaded: one line, whatever is wrong with them."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ingest.errors import EngineError
from scoring.assessment import EngineOptions
from scoring.engines import engine_module
from tests.vllm.conftest import MAX_PIXELS

INDEX = "model.safetensors.index.json"


@pytest.fixture
def model(checkpoint: Path, tmp_path: Path) -> Path:
    """A copy to be damaged."""
    return shutil.copytree(checkpoint, tmp_path / "damaged")


def _cut(name: str, left_out: int = 1) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        (folder / name).write_bytes((folder / name).read_bytes()[:-left_out])

    return damage


def _holding(name: str, content: bytes) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        (folder / name).write_bytes(content)

    return damage


def _config(*place: str, to: object) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        whole = config = json.loads((folder / "config.json").read_text())
        for key in place[:-1]:
            config = config[key]
        config[place[-1]] = to
        (folder / "config.json").write_text(json.dumps(whole))

    return damage


def _header(content: bytes) -> bytes:
    return len(content).to_bytes(8, "little") + content


def _indexed(weight_map: object) -> Callable[[Path], None]:
    return _holding(INDEX, json.dumps({"weight_map": weight_map}).encode())


def _refusal(engine: str, **said: object) -> str:
    """What `describe` says, as `scan`, `scan --dry-run` and `doctor` ask it."""
    with pytest.raises(EngineError) as refused:
        engine_module(engine).describe(EngineOptions(max_pixels=MAX_PIXELS, **said))  # type: ignore[arg-type]
    assert "\n" not in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (_cut("model.safetensors"), '"model.safetensors" in "{folder}" is damaged or cut: '),
        (_holding("model.safetensors", b""), "it has no safetensors header"),
        (_holding("model.safetensors", _header(b"{not json")), "its safetensors header cannot be read"),
        (_holding("model.safetensors", _header(b"[1, 2]")), "its safetensors header cannot be read"),
        (_holding("model.safetensors", _header(b'{"a": {"shape": [1]}}')), "its safetensors header cannot be read"),
        (_indexed([]), f"its {INDEX} names no weight files"),
        (_indexed({}), f"its {INDEX} names no weight files"),
        (_indexed(["a", "b"]), f"its {INDEX} names no weight files"),
        (_indexed({"a": "gone.safetensors"}), "has no gone.safetensors"),
        (_config("vision_config", to=None), "is not a vision-language model (model_type qwen3_vl"),
        (_config("text_config", to=[1]), "text_config in its config.json is no JSON object"),
        (
            _config("text_config", "max_position_embeddings", to="many"),
            'max_position_embeddings in its config.json is "many", which is no number of tokens',
        ),
    ],
)
def test_a_model_that_cannot_work_is_refused_before_it_is_loaded(
    model: Path, damage: Callable[[Path], None], told: str
) -> None:
    damage(model)
    for engine in ("transformers", "vllm"):
        assert told.format(folder=model) in _refusal(engine, model=str(model))


def test_a_cut_file_tells_both_sizes(model: Path) -> None:
    size = (model / "model.safetensors").stat().st_size
    _cut("model.safetensors", 1000)(model)
    assert f"{size - 1000:,} bytes, of {size:,} by its header" in _refusal("transformers", model=str(model))


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (_cut("adapter_model.safetensors"), '"adapter_model.safetensors" in "{folder}" is damaged or cut: '),
        (_holding("adapter_model.safetensors", _header(b"{not json")), "its safetensors header cannot be read"),
        (_holding("adapter_config.json", b"{not json"), "its adapter_config.json is no valid JSON"),
    ],
)
def test_a_damaged_adapter_is_refused_before_it_is_loaded(
    checkpoint: Path, adapter: Path, tmp_path: Path, damage: Callable[[Path], None], told: str
) -> None:
    damaged = shutil.copytree(adapter, tmp_path / "damaged")
    damage(damaged)
    for engine in ("transformers", "vllm"):
        said = _refusal(engine, model=str(checkpoint), adapter=str(damaged))
        assert told.format(folder=damaged) in said


def test_an_unreadable_header_of_the_model_is_told_beside_an_adapter_too(model: Path, adapter: Path) -> None:
    _holding("model.safetensors", _header(b"{not json"))(model)
    said = _refusal("transformers", model=str(model), adapter=str(adapter))
    assert '"model.safetensors"' in said
    assert "its safetensors header cannot be read" in said
