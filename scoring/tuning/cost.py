"""What tuning costs elsewhere: how far a tuned model's next word is from that of the untuned one, on any pictures.

It says that a model has changed, not that it has become worse: a task with right answers says that.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from ingest.images.pixels import Pixels
from scoring.engines.picture import prepared
from scoring.engines.vlm.adapter import Adapter
from scoring.engines.vlm.checkpoint import Checkpoint
from scoring.engines.vlm.prompting import Prompter
from scoring.engines.vlm.transformers.engine import loaded_with
from scoring.protocols.interface import Generate, Image, Message, Prompt, Text

QUESTIONS = ("Describe this picture.", "What is the main thing in this picture?", "Which colours are in this picture?")


@dataclass(frozen=True)
class Cost:
    """Differences over all pictures and questions."""

    num_pictures: int
    num_undecodable: int
    """Number of drawn pictures that could not be decoded."""

    num_questions: int
    mean_kl: float
    """Mean Kullback-Leibler divergence of the tuned model's next-token distribution from the untuned one's, in nats."""

    p95_kl: float
    """95th percentile of the same."""

    same_first_token: float
    """Share of questions whose most probable first token is the same, 0–1."""


def cost(checkpoint: Checkpoint, adapter: Adapter, pictures: Iterator[Pixels | None], max_pixels: int) -> Cost:
    """Measure the cost. EngineError if the model or the adapter cannot be loaded.

    pictures: None for one that cannot be decoded; at least one can.
    """
    prompter = Prompter(checkpoint.folder, max_pixels)
    texts = [
        prompter.tokens(Prompt((Message("user", (Text(question), Image())),), Generate(1))).text
        for question in QUESTIONS
    ]
    models = [loaded_with(checkpoint, None, None), loaded_with(checkpoint, adapter, None)]
    divergences: list[float] = []
    num_same = num_pictures = num_undecodable = 0
    for pixels in pictures:
        if pixels is None:
            num_undecodable += 1
            continue
        num_pictures += 1
        for text in texts:
            inputs = prompter.processed(text, prepared(pixels, max_pixels))
            before, after = (_log_probabilities(model, inputs) for model in models)
            divergences.append(float((before.exp() * (before - after)).sum()))
            num_same += int(before.argmax() == after.argmax())
    return Cost(
        num_pictures,
        num_undecodable,
        len(divergences),
        float(np.mean(divergences)),
        float(np.quantile(divergences, 0.95)),
        num_same / len(divergences),
    )


def _log_probabilities(model: Any, inputs: Any) -> torch.Tensor:
    with torch.inference_mode():
        logits = model(**inputs.to(model.device), logits_to_keep=1).logits[0, -1]
    return logits.float().log_softmax(dim=-1)
