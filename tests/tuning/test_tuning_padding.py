"""A batch has the loss of its pictures one by one, though they have to be padded: for three families of models."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import AutoModelForImageTextToText

from scoring.engines.vlm.prompting import Prompter
from scoring.protocols import protocol
from scoring.tuning.examples import Collator, Encoder, Examples
from scoring.tuning.targets import Target
from scoring.tuning.trainer import Tuner
from scoring.tuning.training import tuned_modules
from scoring.tuning.training_set import Item
from tests.making import Folders, Request
from tests.vllm import families
from tests.vllm.micro import make_checkpoint

MAX_PIXELS = 160 * 160
SIZES = ((96, 128), (150, 40), (20, 30), (160, 160))
"""Height and width: another number of visual tokens each, or of tiles."""


@pytest.fixture(scope="module", params=["qwen", "llava", "internvl"])
def model_folder(request: Request, tmp_path_factory: Folders) -> Path:
    folder = tmp_path_factory.mktemp("families") / str(request.param)
    if request.param == "qwen":
        return make_checkpoint(folder)
    getattr(families, f"make_{request.param}")(folder)
    return folder


def items(folder: Path, targets: list[Target]) -> list[Item]:
    made = []
    for number, ((height, width), target) in enumerate(zip(SIZES, targets, strict=True)):
        file = folder / f"{number}.png"
        pixels = np.random.default_rng(number).integers(0, 256, (height, width, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(file)
        made.append(Item(file, 0, file.stat().st_size, file.name, None, target))
    return made


TARGETS = {
    "binary": [Target(answer="Yes"), Target(answer="No"), Target(answer="No"), Target(answer="Yes")],
    "severity": [Target(answer="0.5"), Target(answer="1"), Target(answer="0.25"), Target(answer="0.125")],
    "slots": [
        Target(slots=(0, 1, 2, None) * 5 + (0, 0)),
        Target(slots=(None,) * 21 + (2,)),
        Target(slots=(2,) * 22),
        Target(slots=(0,) * 22),
    ],
}
"""Answers of several lengths; slots of which not all are known."""


@pytest.mark.parametrize("asked", TARGETS)
def test_a_batch_has_the_loss_of_its_pictures_one_by_one(asked: str, model_folder: Path, tmp_path: Path) -> None:
    prompter = Prompter(model_folder, MAX_PIXELS)
    encoder = Encoder(prompter, protocol(asked).prompt)
    examples = Examples(items(tmp_path, TARGETS[asked]), encoder, MAX_PIXELS)
    collate = Collator(prompter.tokenizer.pad_token_id)
    made = [examples[at] for at in range(len(examples))]
    if asked != "slots" or "llava" not in model_folder.name:
        assert len({len(one.per_token["input_ids"]) for one in made}) > 1, "nothing would have to be padded"
    model = AutoModelForImageTextToText.from_pretrained(model_folder)
    loss = _loss_of(encoder)
    alone = [loss(model, collate([one])) for one in made]
    together = loss(model, collate(made))
    assert together == pytest.approx(np.mean(alone), abs=1e-5)
    assert np.ptp(alone) > 0.001, "the loss must depend on the picture and its target"


def _loss_of(encoder: Encoder) -> Any:
    """The loss of the trainer, without its own training."""
    tuner = Tuner.__new__(Tuner)
    tuner.candidate_ids = list(encoder.candidate_ids)
    tuner.state = SimpleNamespace(global_step=0)

    def loss(model: Any, batch: dict[str, torch.Tensor]) -> float:
        with torch.inference_mode():
            return float(tuner.compute_loss(model, batch))

    return loss


def test_only_linear_layers_of_the_language_model_are_tuned_unless_vision_is_asked_for(model_folder: Path) -> None:
    model = AutoModelForImageTextToText.from_pretrained(model_folder)
    names = tuned_modules(model, vision=False)
    assert len(names) == 2 * 7  # two layers: q, k, v, o, gate, up, down
    assert all(".language_model.layers." in name for name in names)
    with_vision = tuned_modules(model, vision=True)
    assert set(names) < set(with_vision)
    assert not any("lm_head" in name for name in with_vision)
