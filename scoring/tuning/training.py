"""LoRA tuning with transformers' Trainer and peft: one process, or one of several that share the work.

The loss is cross-entropy at the target positions alone: for `slots` over the three classes, else over the whole
vocabulary. Every picture weighs the same. A killed run continues from its last whole checkpoint and ends with the same
weights: on the CPU bit by bit.
"""

import json
import math
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments, set_seed

from ingest.errors import IncompleteError, LabelsError
from scoring.engines.vlm.adapter import adapter
from scoring.engines.vlm.checkpoint import Checkpoint
from scoring.engines.vlm.loading import model_of
from scoring.engines.vlm.prompting import Prompter
from scoring.engines.vlm.transformers.engine import loaded_with
from scoring.protocols.interface import Protocol
from scoring.tuning.examples import IGNORED, Collator, Encoder, Examples
from scoring.tuning.recipe import Recipe
from scoring.tuning.training_set import TrainingSet

CHECKPOINTS = "checkpoints"
TENSORBOARD = "tensorboard"
TRAINER_STATE = "trainer_state.json"
"""Written last into a checkpoint: without it the checkpoint is not whole."""

NUM_COMPARED = 8
"""Pictures on which the saved adapter is compared with the model in memory."""

LANGUAGE_HEAD = "lm_head"
VISION_PARTS = ("visual", "vision_tower", "vision_model", "multi_modal_projector", "connector", "vision_embed_tokens")
"""Parts of module names that belong to the picture's side of a model, over the families that are supported."""


@dataclass(frozen=True)
class TrainingRequest:
    """One tuning run."""

    training_set: TrainingSet
    protocol: Protocol
    checkpoint: Checkpoint
    recipe: Recipe
    folder: Path
    """Gets the adapter, and while it trains the checkpoints."""

    max_pixels: int
    seed: int
    micro_batch_size: int
    """Pictures at once on one device; the recipe's batch size is reached over several."""

    steps_per_checkpoint: int


@dataclass(frozen=True)
class Curve:
    """One logged point of a training run."""

    step: int
    values: dict[str, float]
    """loss, learning_rate, grad_norm, or of the held-back pictures eval_loss and eval_accuracy."""


@dataclass(frozen=True)
class Trained:
    """What came of a tuning run."""

    num_steps: int
    num_pictures: int
    num_parameters: int
    """Of the adapter."""

    curves: tuple[Curve, ...]
    train_accuracy: float
    """Share of targets of the training pictures that the tuned model predicts, 0–1."""

    validation_accuracy: float | None
    """The same for the held-back pictures; None if there are none."""

    share_of_commonest_answer: float
    """Share of the training pictures that get the answer that is given most often; 1 if the model says one thing."""

    share_of_commonest_target: float
    """The same of what the pictures should get."""

    device: str
    """Name of what it was computed on."""

    max_probability_difference: float = math.nan
    """Between the model in memory and the saved adapter, loaded again, over some pictures."""


def train(request: TrainingRequest, on_step: Callable[[int, int], None], num_processes: int = 1) -> Trained:
    """Tunes, or continues where a killed run of the same request stopped, and saves the adapter into the folder.

    on_step: takes the steps done and all steps. num_processes: of this run; each of them calls this function.
    IncompleteError if the loss is not a number, which keeps the last checkpoint; LabelsError or EngineError as the set,
    the model or its prompt demand.
    """
    set_seed(request.seed)
    prompter = Prompter(request.checkpoint.folder, request.max_pixels)
    prompter.check(request.protocol)
    encoder = Encoder(prompter, request.protocol.prompt)
    parts = {
        split: Examples(request.training_set.items(split), encoder, request.max_pixels)
        for split in ("train", "validation")
    }
    model = _adapted(request)
    arguments = _arguments(request, num_processes)
    trainer = _Trainer(
        encoder.candidate_ids,
        model=model,
        args=arguments,
        data_collator=Collator(prompter.tokenizer.pad_token_id or 0),
        train_dataset=parts["train"],
        eval_dataset=parts["validation"] if len(parts["validation"]) else None,
        callbacks=[_Steps(on_step)],
    )
    trainer.remove_callback(PrinterCallback)
    # Else Trainer leaves the division by the accumulated micro-batches to the model, whose loss is not used.
    trainer.model_accepts_loss_kwargs = False
    last = last_checkpoint(request.folder)
    try:
        trainer.train(resume_from_checkpoint=None if last is None else str(last))
    except _NotANumberError as error:
        kept = last_checkpoint(request.folder)
        left = (
            f"the checkpoint of step {kept.name.rpartition('-')[2]} is kept" if kept else "there is no checkpoint yet"
        )
        raise IncompleteError(
            f"the loss of step {error.step + 1} is not a finite number, so tuning stopped; {left} in "
            f"{request.folder / CHECKPOINTS}: lower the recipe's learning_rate and name another --out"
        ) from None
    result = _result(trainer, request, parts)
    if trainer.is_world_process_zero():
        model.save_pretrained(request.folder)
        (request.folder / "README.md").unlink(missing_ok=True)  # peft's, which says nothing yet
        difference = _difference(trainer, request, parts["train"])
        result = replace(result, max_probability_difference=difference)
    return result


def last_checkpoint(folder: Path) -> Path | None:
    """The last whole checkpoint; half-written ones of a killed run are removed."""
    found: list[Path] = []
    for checkpoint in (folder / CHECKPOINTS).glob("checkpoint-*"):
        try:
            json.loads((checkpoint / TRAINER_STATE).read_bytes())
            found.append(checkpoint)
        except (OSError, ValueError):
            shutil.rmtree(checkpoint, ignore_errors=True)
    return max(found, key=lambda checkpoint: int(checkpoint.name.rpartition("-")[2]), default=None)


def tuned_modules(model: Any, *, vision: bool) -> list[str]:
    """Names of all linear modules of the language model, and with `vision` of the picture's side too."""
    names = []
    for name, module in model.named_modules():
        is_vision = any(part in name.split(".") for part in VISION_PARTS)
        if isinstance(module, torch.nn.Linear) and LANGUAGE_HEAD not in name and (vision or not is_vision):
            names.append(name)
    return names


def _adapted(request: TrainingRequest) -> PeftModel:
    dtype = "bfloat16" if torch.cuda.is_available() else "float32"
    model = model_of(request.checkpoint, dtype)
    # The names on disk are those of the class that is loaded; peft wants them as `named_modules` gives them.
    names = tuned_modules(model, vision=request.recipe.vision)
    if not names:
        raise LabelsError(f'the model "{request.checkpoint.name}" has no linear layers that can be tuned')
    settings = LoraConfig(
        r=request.recipe.rank,
        lora_alpha=request.recipe.alpha,
        lora_dropout=request.recipe.dropout,
        target_modules=names,
        task_type="CAUSAL_LM",
    )
    if torch.cuda.is_available():
        model.gradient_checkpointing_enable({"use_reentrant": False})
        model.enable_input_require_grads()
    return get_peft_model(model, settings)


def _arguments(request: TrainingRequest, num_processes: int) -> TrainingArguments:
    recipe = request.recipe
    share = max(1, recipe.batch_size // num_processes)
    micro = min(request.micro_batch_size, share)
    accumulated = math.ceil(share / micro)
    num_steps = math.ceil(
        math.ceil(len(request.training_set.items("train")) / (micro * num_processes)) / accumulated * recipe.epochs
    )
    on_gpu = torch.cuda.is_available()
    return TrainingArguments(
        output_dir=str(request.folder / CHECKPOINTS),
        per_device_train_batch_size=micro,
        per_device_eval_batch_size=micro,
        gradient_accumulation_steps=accumulated,
        num_train_epochs=recipe.epochs,
        learning_rate=recipe.learning_rate,
        lr_scheduler_type=recipe.schedule
        if not recipe.warmup_share or recipe.schedule != "constant"
        else "constant_with_warmup",
        warmup_steps=math.ceil(recipe.warmup_share * num_steps),
        weight_decay=recipe.weight_decay,
        max_grad_norm=recipe.max_grad_norm,
        bf16=on_gpu,
        use_cpu=not on_gpu,
        ddp_backend=None if on_gpu or num_processes == 1 else "gloo",
        seed=request.seed,
        data_seed=request.seed,
        save_strategy="steps",
        save_steps=request.steps_per_checkpoint,
        save_total_limit=2,
        eval_strategy="no",
        logging_steps=max(1, num_steps // 100),
        logging_nan_inf_filter=False,
        report_to="tensorboard",
        remove_unused_columns=False,
        label_names=["targets"],
        dataloader_num_workers=0,
        disable_tqdm=True,
        log_level="error",
    )


class _NotANumberError(Exception):
    def __init__(self, step: int):
        super().__init__(step)
        self.step = step


class _Steps(TrainerCallback):  # type: ignore[misc]  # of an untyped package
    def __init__(self, on_step: Callable[[int, int], None]):
        self._on_step = on_step

    def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
        self._on_step(state.global_step, state.max_steps)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float] | None = None, **others: Any) -> None:
        for name in ("loss", "grad_norm"):
            if logs and not math.isfinite(logs.get(name, 0.0)):
                raise _NotANumberError(state.global_step)


class _Trainer(Trainer):  # type: ignore[misc]  # of an untyped package
    def __init__(self, candidate_ids: Sequence[int], **arguments: Any):
        super().__init__(**arguments)
        self._candidate_ids = list(candidate_ids)

    def compute_loss(
        self, model: Any, inputs: dict[str, torch.Tensor], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        logits, targets = self.target_logits(model, inputs)
        losses = torch.nn.functional.cross_entropy(
            logits.transpose(1, 2), targets, ignore_index=IGNORED, reduction="none"
        )
        known = (targets != IGNORED).sum(dim=1).clamp(min=1)
        loss = (losses.sum(dim=1) / known).mean()
        if not torch.isfinite(loss):
            raise _NotANumberError(self.state.global_step)
        return (loss, {"logits": logits}) if return_outputs else loss

    def target_logits(self, model: Any, inputs: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits of the candidates at the target positions, shape (batch, K, candidates), and targets (batch, K)."""
        given = {name: value for name, value in inputs.items() if name not in ("positions", "targets")}
        logits = model(**given, logits_to_keep=inputs["positions"]).logits
        if self._candidate_ids:
            logits = logits[..., self._candidate_ids]
        return logits.float(), inputs["targets"]


def _result(trainer: _Trainer, request: TrainingRequest, parts: dict[str, Examples]) -> Trained:
    right, answers, wanted = _predicted(trainer, parts["train"])
    validation = _predicted(trainer, parts["validation"])[0] if len(parts["validation"]) else None
    curves = tuple(
        Curve(entry["step"], {k: float(v) for k, v in entry.items() if k in ("loss", "grad_norm", "learning_rate")})
        for entry in trainer.state.log_history
        if "loss" in entry
    )
    return Trained(
        num_steps=trainer.state.global_step,
        num_pictures=len(parts["train"]),
        num_parameters=sum(p.numel() for p in trainer.model.parameters() if p.requires_grad),
        curves=curves,
        train_accuracy=right,
        validation_accuracy=validation,
        share_of_commonest_answer=answers,
        share_of_commonest_target=wanted,
        device=torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU",
    )


def _difference(trainer: _Trainer, request: TrainingRequest, examples: Examples) -> float:
    """The largest |P(in memory) - P(loaded again)| over the first pictures and all candidates at every target."""
    batch = trainer.data_collator([examples[at] for at in range(min(NUM_COMPARED, len(examples)))])
    saved = loaded_with(request.checkpoint, adapter(str(request.folder)), str(trainer.model.dtype).partition(".")[2])
    probabilities = []
    for model in (trainer.model.eval(), saved):
        on_device = {name: value.to(model.device) for name, value in batch.items()}
        with torch.inference_mode():
            logits, _ = trainer.target_logits(model, on_device)
        probabilities.append(logits.softmax(dim=-1).cpu())
    return float((probabilities[0] - probabilities[1]).abs().max())


def _predicted(trainer: _Trainer, examples: Examples) -> tuple[float, float, float]:
    """Share of right targets; share of the commonest predicted row, and of the commonest target row."""
    model = trainer.model.eval()
    predicted: list[tuple[int, ...]] = []
    wanted: list[tuple[int, ...]] = []
    num_right = num_known = 0
    size = trainer.args.per_device_eval_batch_size
    for start in range(0, len(examples), size):
        batch = trainer.data_collator([examples[at] for at in range(start, min(start + size, len(examples)))])
        batch = {name: value.to(model.device) for name, value in batch.items()}
        with torch.inference_mode():
            logits, targets = trainer.target_logits(model, batch)
        chosen = logits.argmax(dim=-1)
        known = targets != IGNORED
        num_right += int(((chosen == targets) & known).sum())
        num_known += int(known.sum())
        predicted += [tuple(row) for row in chosen.masked_fill(~known, IGNORED).tolist()]
        wanted += [tuple(row) for row in targets.tolist()]
    return num_right / max(1, num_known), _commonest(predicted), _commonest(wanted)


def _commonest(rows: Sequence[tuple[int, ...]]) -> float:
    return max((rows.count(row) for row in set(rows)), default=0) / max(1, len(rows))
