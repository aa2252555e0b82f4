"""The estimate of GPU memory, by figures that were worked out by hand, and how a step is shared out."""

import pytest
import torch
from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

from benchmarks.gpu.throughput import random_checkpoint
from ingest.errors import LabelsError
from scoring.engines.vlm.checkpoint import weight_shapes
from scoring.tuning.recipe import recipe
from scoring.tuning.training import RESERVE_BYTES, Batches, batches, estimated_bytes, num_tuned_weights
from tests.tuning.made import BASE

Shapes = dict[str, tuple[int, ...]]


@pytest.fixture(scope="module")
def shapes_8b(tmp_path_factory: pytest.TempPathFactory) -> Shapes:
    """Of Qwen3-VL-8B: shapes alone, without numbers."""
    folder = random_checkpoint(tmp_path_factory.mktemp("8b"), "8b", None)
    config = Qwen3VLConfig.from_pretrained(folder)
    config.text_config.vocab_size = 151_936  # the real tokenizer's, not that of the tests
    with torch.device("meta"):
        model = Qwen3VLForConditionalGeneration(config)
    return {name: tuple(weight.shape) for name, weight in model.state_dict().items()}


def test_an_adapter_of_rank_64_on_qwen3_vl_8b(shapes_8b: Shapes) -> None:
    """36 layers; q, k, v, o, gate, up, down have 4096 + 4096, twice 4096 + 1024, 8192, three times 16384."""
    per_layer = 8192 + 2 * 5120 + 8192 + 3 * 16384
    assert per_layer == 75_776
    assert num_tuned_weights(shapes_8b, 64, vision=False) == 36 * per_layer * 64 == 174_587_904
    assert num_tuned_weights(shapes_8b, 64, vision=True) > 174_587_904


def test_memory_for_qwen3_vl_8b(shapes_8b: Shapes) -> None:
    """17.5 GB of weights, 2.8 GB of adapter with its optimizer; per token 295 kB of inputs of layers and 360 kB in one
    layer."""
    how = {"num_layers": 36, "hidden_size": 4096}
    fixed = estimated_bytes(shapes_8b, 64, vision=False, num_tokens=0, **how) - RESERVE_BYTES
    assert fixed == pytest.approx(17.5e9 + 2.8e9, rel=0.01)
    with_tokens = estimated_bytes(shapes_8b, 64, vision=False, num_tokens=1000, **how) - RESERVE_BYTES
    assert with_tokens - fixed == 1000 * (2 * 36 * 4096 + 40 * 4096 + 16 * 12288)


def test_memory_for_the_micro_model() -> None:
    """Two layers, 64 wide: q 64x128, k and v 64x64, o 128x64, gate, up and down 64x128."""
    shapes = weight_shapes(BASE)
    tuned = 2 * 16 * (192 + 2 * 128 + 192 + 3 * 192)
    assert num_tuned_weights(shapes, 16, vision=False) == tuned == 38_912
    num_weights = (BASE / "model.safetensors").stat().st_size // 4  # float32; the header is small beside them
    found = estimated_bytes(shapes, 16, vision=False, num_layers=2, hidden_size=64, num_tokens=100)
    expected = 2 * num_weights + 16 * tuned + 100 * (2 * 2 * 64 + 40 * 64 + 16 * 128) + RESERVE_BYTES
    assert found == pytest.approx(expected, abs=2 * 20_000)


@pytest.mark.parametrize(
    ("micro", "processes", "wanted"),
    [
        (8, 1, Batches(micro=8, accumulated=16, num_processes=1, num_steps=80)),
        (6, 1, Batches(micro=4, accumulated=32, num_processes=1, num_steps=80)),
        (500, 1, Batches(micro=128, accumulated=1, num_processes=1, num_steps=80)),
        (8, 4, Batches(micro=8, accumulated=4, num_processes=4, num_steps=80)),
    ],
)
def test_a_step_has_exactly_the_recipes_pictures(micro: int, processes: int, wanted: Batches) -> None:
    """2,048 pictures, 128 at a time, five times: 80 steps, as in the paper of the recipe cprt."""
    assert batches(recipe("cprt"), 2048, micro, processes) == wanted


def test_the_last_step_of_an_epoch_may_have_fewer_pictures() -> None:
    assert batches(recipe("cprt"), 2049, 8, 1).num_steps == 85


def test_processes_that_cannot_share_a_batch_are_refused() -> None:
    with pytest.raises(LabelsError, match="5 processes cannot share the recipe's batch_size of 128 evenly"):
        batches(recipe("cprt"), 2048, 8, 5)
