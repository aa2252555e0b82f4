"""transformers' Trainer with the loss of privacy-tuning, and a stop at the first bad number.

The loss is cross-entropy at the target positions alone: for `slots` over the three classes, else over the whole
vocabulary. Every picture of a step weighs the same, and so does every known target of a picture.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from transformers import PrinterCallback, Trainer, TrainerCallback

from scoring.tuning.examples import IGNORED

OWN_INPUTS = ("positions", "targets", "weight")
"""Fields of a batch that the model itself does not take."""

CURVES = ("loss", "grad_norm", "learning_rate", "eval_loss")


class NotANumberError(Exception):
    """The loss, the gradient or the weights of a step are not finite."""

    def __init__(self, step: int):
        super().__init__(step)
        self.step = step
        """Number of the step, from 1."""


class Tuner(Trainer):  # type: ignore[misc]  # of an untyped package
    """The trainer. candidate_ids: as in `Encoder`; the other arguments are those of Trainer."""

    def __init__(self, candidate_ids: Sequence[int], on_step: Callable[[int, int], None], **arguments: Any):
        super().__init__(**arguments)
        self.candidate_ids = list(candidate_ids)
        self.remove_callback(PrinterCallback)
        self.add_callback(_Steps(on_step))
        # Else Trainer leaves the division by the accumulated micro-batches to the model, whose loss is not used.
        self.model_accepts_loss_kwargs = False

    def get_batch_samples(self, epoch_iterator: Iterator[Any], num_batches: int, device: Any) -> tuple[list[Any], Any]:
        """Return the micro-batches of one step; the last of an epoch can be smaller, and its pictures weigh the
        same."""
        batches, num_items = super().get_batch_samples(epoch_iterator, num_batches, device)
        num_pictures = sum(len(batch["targets"]) for batch in batches)
        for batch in batches:
            batch["weight"] = len(batch["targets"]) * len(batches) / num_pictures
        return batches, num_items

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        logits, targets = self.target_logits(model, inputs)
        losses = torch.nn.functional.cross_entropy(
            logits.transpose(1, 2), targets, ignore_index=IGNORED, reduction="none"
        )
        num_known = (targets != IGNORED).sum(dim=1).clamp(min=1)
        loss = (losses.sum(dim=1) / num_known).mean()
        if not torch.isfinite(loss):
            raise NotANumberError(self.state.global_step + 1)
        loss = loss * inputs.get("weight", 1.0)
        return (loss, {"logits": logits}) if return_outputs else loss

    def target_logits(self, model: Any, inputs: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
        """Return logits of the candidates at the target positions, shape (batch, K, candidates), and targets (batch,
        K)."""
        model_inputs = {name: value for name, value in inputs.items() if name not in OWN_INPUTS}
        logits = model(**model_inputs, logits_to_keep=inputs["positions"], use_cache=False).logits
        if self.candidate_ids:
            logits = logits[..., self.candidate_ids]
        return logits.float(), inputs["targets"]


class _Steps(TrainerCallback):  # type: ignore[misc]  # of an untyped package
    """Reports progress. Before a checkpoint can be written, it stops a run whose weights are spoilt."""

    def __init__(self, on_step: Callable[[int, int], None]):
        self._on_step = on_step

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **others: Any) -> None:
        weights = [p.detach() for p in model.parameters() if p.requires_grad]
        # One number per step leaves the device. A sum of squares is finite only if all are.
        if not torch.isfinite(torch.stack(torch._foreach_norm(weights)).sum()):
            raise NotANumberError(state.global_step)
        self._on_step(state.global_step, state.max_steps)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **others: Any) -> None:
        for name in CURVES:
            if logs and not math.isfinite(logs.get(name, 0.0)):
                raise NotANumberError(state.global_step)
