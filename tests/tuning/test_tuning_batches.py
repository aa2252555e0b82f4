"""How a step is divided into micro-batches, and what is said where one does not fit."""

import pytest
import torch

from ingest.errors import EngineError
from scoring.tuning import training
from scoring.tuning.recipe import recipe
from scoring.tuning.training import Batches, batches


@pytest.mark.parametrize(
    ("micro", "wanted"),
    [
        (8, Batches(micro=8, accumulated=16, num_steps=80)),
        (6, Batches(micro=4, accumulated=32, num_steps=80)),
        (500, Batches(micro=128, accumulated=1, num_steps=80)),
    ],
)
def test_a_step_has_exactly_the_recipes_pictures(micro: int, wanted: Batches) -> None:
    """2,048 pictures, 128 at a time, five times: 80 steps, as in the paper of the recipe cprt."""
    assert batches(recipe("cprt"), 2048, micro) == wanted


def test_the_last_step_of_an_epoch_may_have_fewer_pictures() -> None:
    assert batches(recipe("cprt"), 2049, 8).num_steps == 85


def test_a_gpu_without_room_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no GPU here that could run out of memory."""

    def out_of_memory(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

    monkeypatch.setattr(training, "_trained", out_of_memory)
    with pytest.raises(EngineError, match=r"^tuning takes more memory than the GPU has; lower --micro-batch-size"):
        training.train(None, lambda step, steps: None)  # type: ignore[arg-type]
