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
    with pytest.raises(EngineError, match=r"is damaged or cut: its safetensors header does not fit; fetch it again$"):
        safetensors_shapes(file)


def test_a_header_of_gigabytes_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    with file.open("wb") as stream:
        stream.write((2**31).to_bytes(8, "little"))
        stream.truncate(2**32)
    with pytest.raises(EngineError, match=r"its safetensors header does not fit"):
        safetensors_shapes(file)


@pytest.mark.parametrize("setting", ["alpha_pattern", "modules_to_save", "layer_replication"])
def test_an_adapter_that_is_more_than_two_matrices_is_refused(setting: str, tmp_path: Path) -> None:
    assert adapter(str(_adapter(tmp_path))).modules == ("base_model.model.layers.0.q_proj",)
    with pytest.raises(EngineError, match=f"uses {setting}, which is not loaded; merge it into the model instead"):
        adapter(str(_adapter(tmp_path, **{setting: {"q_proj": 4}})))
