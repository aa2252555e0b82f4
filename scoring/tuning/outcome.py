"""Result of a tuning run: what the model has learnt, and whether the saved adapter answers the same."""

import gc
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from scoring.engines.vlm.adapter import Adapter
from scoring.engines.vlm.checkpoint import Checkpoint
from scoring.engines.vlm.transformers.engine import loaded
from scoring.tuning.examples import IGNORED, Examples
from scoring.tuning.trainer import CURVES, OWN_INPUTS, Tuner

NUM_COMPARED = 8
"""Number of pictures on which the saved adapter is compared with the model in memory."""

NUM_MEASURED = 1_000
"""Maximum number of pictures of a split that are evaluated after tuning."""


@dataclass(frozen=True)
class Trained:
    """Result of a tuning run."""

    num_steps: int
    num_parameters: int
    curves: tuple[dict[str, float], ...]
    """Logged points: step, with loss, learning_rate and grad_norm of the steps since the last point, or with eval_loss
    of the held-back pictures."""

    train_accuracy: float
    """Share of targets of the training pictures (at most `NUM_MEASURED`) that the tuned model predicts, 0–1."""

    validation_accuracy: float | None
    """The same for the held-back pictures; None if there are none."""

    share_of_commonest_answer: float
    """Share of the training pictures with the most frequent answer; 1 if the model always answers the same."""

    share_of_commonest_target: float
    """The same for the targets."""

    device: str
    precision: str
    """Precision of the model: float32 or bfloat16."""

    max_probability_difference: float = math.nan
    """Largest difference between the model in memory and the saved adapter, loaded again, over some pictures."""


def outcome(tuner: Tuner, train: Examples, validation: Examples) -> Trained:
    """Ask the tuned model about pictures of both splits."""
    right, answers, wanted = _answers(tuner, train)
    curves = tuple(
        {name: float(entry[name]) for name in ("step", *CURVES) if name in entry}
        for entry in tuner.state.log_history
        if "loss" in entry or "eval_loss" in entry
    )
    return Trained(
        num_steps=tuner.state.global_step,
        num_parameters=sum(p.numel() for p in tuner.model.parameters() if p.requires_grad),
        curves=curves,
        train_accuracy=right,
        validation_accuracy=_answers(tuner, validation)[0] if len(validation) else None,
        share_of_commonest_answer=answers,
        share_of_commonest_target=wanted,
        device=torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU",
        precision=_precision(tuner),
    )


def difference_when_loaded(tuner: Tuner, examples: Examples, checkpoint: Checkpoint, saved: Adapter) -> float:
    """Return the largest |P(in memory) - P(loaded again)| over the first pictures and all candidates at every target.

    The model in memory leaves the accelerator first: there may be no room for two.
    """
    batch = tuner.data_collator([examples[index] for index in _spread(len(examples), NUM_COMPARED)])
    before = _target_logits(tuner, tuner.model.eval(), batch)[0].softmax(dim=-1).cpu()
    precision = _precision(tuner)
    tuner.optimizer = None
    tuner.model.to("cpu")
    _free_memory()
    after = _target_logits(tuner, loaded(checkpoint, saved, precision), batch)[0].softmax(dim=-1).cpu()
    _free_memory()  # a script may tune again in the same process
    return float((before - after).abs().max())


def _free_memory() -> None:
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _precision(tuner: Tuner) -> str:
    return str(tuner.model.get_base_model().dtype).partition(".")[2]


def _target_logits(tuner: Tuner, model: Any, batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
    """Compute logits and targets. Pixels get the model's precision; Trainer's autocast does the same in training."""
    inputs = {
        name: value.to(model.dtype) if name not in OWN_INPUTS and value.is_floating_point() else value
        for name, value in batch.items()
    }
    with torch.inference_mode():
        return tuner.target_logits(model, {name: value.to(model.device) for name, value in inputs.items()})


def _answers(tuner: Tuner, examples: Examples) -> tuple[float, float, float]:
    """Return the shares of right answers, of the commonest predicted row, and of the commonest target row.

    Right answers are counted per attribute for `slots`, else per picture: a text is right if all of its tokens are.
    """
    predicted: Counter[tuple[int, ...]] = Counter()
    wanted: Counter[tuple[int, ...]] = Counter()
    num_right = num_known = 0
    for targets, chosen in _chosen(tuner, examples):
        known = targets != IGNORED
        is_right = (chosen == targets) | ~known
        num_right += int((is_right & known).sum() if tuner.candidate_ids else is_right.all(dim=1).sum())
        num_known += int(known.sum()) if tuner.candidate_ids else len(targets)
        predicted.update(map(tuple, chosen.masked_fill(~known, IGNORED).tolist()))
        wanted.update(map(tuple, targets.tolist()))
    return num_right / max(1, num_known), _share_of_commonest(predicted), _share_of_commonest(wanted)


def _chosen(tuner: Tuner, examples: Examples) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield for each batch targets and predictions, both of shape (batch, K)."""
    model = tuner.model.eval()
    asked, size = _spread(len(examples), NUM_MEASURED), tuner.args.per_device_eval_batch_size
    for start in range(0, len(asked), size):
        batch = tuner.data_collator([examples[index] for index in asked[start : start + size]])
        logits, targets = _target_logits(tuner, model, batch)
        yield targets.cpu(), logits.argmax(dim=-1).cpu()


def _spread(num: int, most: int) -> list[int]:
    """Return at most `most` positions spread over a split, whose pictures may be sorted by class."""
    num_taken = min(num, most)
    return [step * num // num_taken for step in range(num_taken)]


def _share_of_commonest(rows: Counter[tuple[int, ...]]) -> float:
    return max(rows.values(), default=0) / max(1, rows.total())
