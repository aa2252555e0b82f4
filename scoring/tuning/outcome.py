"""Result of a tuning run: what the model has learnt."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from scoring.tuning.examples import IGNORED, Examples
from scoring.tuning.trainer import CURVES, OWN_INPUTS, Tuner

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

    device: str
    precision: str
    """Precision of the model: float32 or bfloat16."""


def outcome(tuner: Tuner, train: Examples, validation: Examples) -> Trained:
    """Ask the tuned model about pictures of both splits."""
    curves = tuple(
        {name: float(entry[name]) for name in ("step", *CURVES) if name in entry}
        for entry in tuner.state.log_history
        if "loss" in entry or "eval_loss" in entry
    )
    return Trained(
        num_steps=tuner.state.global_step,
        num_parameters=sum(p.numel() for p in tuner.model.parameters() if p.requires_grad),
        curves=curves,
        train_accuracy=_accuracy(tuner, train),
        validation_accuracy=_accuracy(tuner, validation) if len(validation) else None,
        device=torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU",
        precision=str(tuner.model.get_base_model().dtype).partition(".")[2],
    )


def _accuracy(tuner: Tuner, examples: Examples) -> float:
    """Return the share of right answers, 0–1: per attribute for `slots`, else per picture, of whose text every token
    must be right."""
    num_right = num_known = 0
    for targets, chosen in _chosen(tuner, examples):
        known = targets != IGNORED
        is_right = (chosen == targets) | ~known
        num_right += int((is_right & known).sum() if tuner.candidate_ids else is_right.all(dim=1).sum())
        num_known += int(known.sum()) if tuner.candidate_ids else len(targets)
    return num_right / max(1, num_known)


def _chosen(tuner: Tuner, examples: Examples) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield for each batch targets and predictions, shape (batch, K). Pixels get the model's precision; Trainer's
    autocast does the same in training."""
    model = tuner.model.eval()
    num_asked, size = min(len(examples), NUM_MEASURED), tuner.args.per_device_eval_batch_size
    asked = [step * len(examples) // num_asked for step in range(num_asked)]  # spread: they may be sorted by class
    for start in range(0, num_asked, size):
        batch = tuner.data_collator([examples[index] for index in asked[start : start + size]])
        inputs = {
            name: value.to(model.dtype) if name not in OWN_INPUTS and value.is_floating_point() else value
            for name, value in batch.items()
        }
        with torch.inference_mode():
            inputs = {name: value.to(model.device) for name, value in inputs.items()}
            logits, targets = tuner.target_logits(model, inputs)
        yield targets.cpu(), logits.argmax(dim=-1).cpu()
