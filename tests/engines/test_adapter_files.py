"""Files of models and adapters that are made to hang or to crash who reads them."""

import json
from pathlib import Path

import pytest

from ingest.errors import EngineError
from scoring.engines.vlm.adapter import adapter
from scoring.engines.vlm.checkpoint import safetensors_shapes

TENSORS = {
    "base_model.model.layers.0.q_proj.lora_A.weight": {"dtype": "F32", "shape": [2, 4], "data_offsets": [0, 32]},
    "base_model.model.layers.0.q_proj.lora_B.weight": {"dtype": "F32", "shape": [4, 2], "data_offsets": [32, 64]},
}


def _safetensors(file: Path, header: str, num_bytes: int = 64) -> Path:
    file.write_bytes(len(header).to_bytes(8, "little") + header.encode() + bytes(num_bytes))
    return file


def _adapter(folder: Path, **settings: object) -> Path:
    _safetensors(folder / "adapter_model.safetensors", json.dumps(TENSORS))
    (folder / "adapter_config.json").write_text(json.dumps({"peft_type": "LORA", "r": 2, **settings}))
    return folder


@pytest.mark.parametrize(
    "entry",
    [
        '{"dtype": "F32", "shape": [1e999, 2], "data_offsets": [0, 8]}',
        '{"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 1e999]}',
        '{"dtype": "F32", "shape": [1, 2], "data_offsets": [0, -Infinity]}',
        '{"dtype": "F32", "shape": [NaN, 2], "data_offsets": [0, 8]}',
    ],
)
def test_infinite_numbers_in_a_header_are_damage(entry: str, tmp_path: Path) -> None:
    file = _safetensors(tmp_path / "model.safetensors", f'{{"a": {entry}}}')
    with pytest.raises(EngineError, match=r"its safetensors header cannot be read; fetch it again$"):
        safetensors_shapes(file)


def test_a_header_of_gigabytes_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    with file.open("wb") as stream:
        stream.write((2**31).to_bytes(8, "little"))
        stream.truncate(2**32)
    with pytest.raises(EngineError, match=r"it has no safetensors header"):
        safetensors_shapes(file)


@pytest.mark.parametrize(
    "pattern",
    [
        {r"(([a-z_]+\.?)+)+!": 4},
        {"(a|aa)+$": 4},
        {"q_proj": "4"},
        {"q_proj": True},
        {f"layers.{number}": 4 for number in range(1_000)},
        ["q_proj"],
        "q_proj",
    ],
)
def test_patterns_of_an_adapter_must_be_names_of_modules(pattern: object, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r": alpha_pattern in its adapter_config.json (has|is not a mapping)"):
        adapter(str(_adapter(tmp_path, alpha_pattern=pattern)))


@pytest.mark.parametrize("pattern", [{}, None, {"q_proj": 4, r"^layers\.0.q_proj": 2, "self_attn.v-proj": 0.5}])
def test_patterns_of_names_are_taken(pattern: object, tmp_path: Path) -> None:
    found = adapter(str(_adapter(tmp_path, alpha_pattern=pattern)))
    assert found.modules == ("base_model.model.layers.0.q_proj",)
