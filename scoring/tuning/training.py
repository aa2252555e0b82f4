"""LoRA tuning with transformers' Trainer and peft.

A killed run continues from its last whole checkpoint and ends with the same weights: on the CPU bit by bit.

Faults are reported before anything is written, except that the memory does not suffice.
"""

import json
import math
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import TrainingArguments, set_seed

from ingest.errors import EngineError, IncompleteError, LabelsError
from scoring.engines.vlm.checkpoint import Checkpoint
from scoring.engines.vlm.loading import model_of
from scoring.engines.vlm.prompting import Prompter
from scoring.protocols.interface import Protocol, Slots
from scoring.tuning.examples import Collator, Encoder, Examples, check_targets
from scoring.tuning.outcome import Trained, outcome
from scoring.tuning.recipe import Recipe
from scoring.tuning.trainer import NotANumberError, Tuner
from scoring.tuning.training_set import TrainingSet

CHECKPOINTS = "checkpoints"
TRAINER_STATE = "trainer_state.json"
"""Written last into a checkpoint: without it the checkpoint is incomplete."""

NUM_CHECKPOINTS = 10
MAX_STEPS_PER_CHECKPOINT = 100
"""Ten checkpoints in a run, but at least one in this many steps."""

MAX_READERS = 4
"""Maximum number of processes that decode pictures while a GPU computes."""

_ERROR_NAME = f"{LabelsError.__module__}.{LabelsError.__qualname__}: "

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
    """Folder for the adapter and, during training, the checkpoints."""

    max_pixels: int
    seed: int
    micro_batch_size: int
    """Number of pictures at once on the device; the recipe's batch size is reached over several."""


@dataclass(frozen=True)
class Batches:
    """Division of the pictures of a step into micro-batches."""

    micro: int
    """Number of pictures at once on the device."""

    accumulated: int
    """Number of micro-batches per step."""

    num_steps: int


def batches(recipe: Recipe, num_pictures: int, micro_batch_size: int) -> Batches:
    """Return the largest micro-batch, up to micro_batch_size, with which a step has exactly the recipe's pictures."""
    size = recipe.batch_size
    micro = max(part for part in range(1, min(size, micro_batch_size) + 1) if size % part == 0)
    if recipe.epochs is None:
        assert recipe.max_steps is not None
        return Batches(micro, size // micro, recipe.max_steps)
    steps_per_epoch = math.ceil(math.ceil(num_pictures / micro) / (size // micro))
    return Batches(micro, size // micro, math.ceil(recipe.epochs * steps_per_epoch))


def train(request: TrainingRequest, on_step: Callable[[int, int], None]) -> Trained:
    """Tune, or continue a killed run of the same request, and save the adapter into the folder.

    on_step: called with the steps done and all steps. IncompleteError if the loss or the weights are not finite, which
    keeps the last checkpoint; LabelsError or EngineError as the set, the model, its prompt or the memory of the GPU
    demand.
    """
    try:
        return _trained(request, on_step)
    except torch.OutOfMemoryError:
        raise EngineError(
            "tuning takes more memory than the GPU has; lower --micro-batch-size, --max-pixels or the recipe's rank, "
            "or choose a smaller model"
        ) from None


def _trained(request: TrainingRequest, on_step: Callable[[int, int], None]) -> Trained:
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # else tokenizers warn when reading processes start
    set_seed(request.seed)
    prompter = Prompter(request.checkpoint.folder, request.max_pixels)
    encoder = Encoder(prompter, request.protocol.prompt, request.recipe.text_tokens)
    pictures, held_back = (
        Examples(request.training_set.items(split), encoder, request.max_pixels) for split in ("train", "validation")
    )
    shared = batches(request.recipe, len(pictures), request.micro_batch_size)
    precision = "bfloat16" if torch.cuda.is_available() else "float32"
    model = adapted(model_of(request.checkpoint, precision), request.recipe)
    tuner = Tuner(
        encoder.candidate_ids,
        on_step,
        model=model,
        args=arguments(request, shared, has_held_back=len(held_back) > 0),
        data_collator=Collator(prompter.tokenizer.pad_token_id or 0),
        train_dataset=pictures,
        eval_dataset=held_back if len(held_back) else None,
    )
    last = last_checkpoint(request.folder)
    for checkpoint in (request.folder / CHECKPOINTS).glob("checkpoint-*"):
        if not _is_complete(checkpoint):  # a killed run left it half-written
            shutil.rmtree(checkpoint, ignore_errors=True)
    try:
        tuner.train(resume_from_checkpoint=None if last is None else str(last))
    except NotANumberError as error:
        raise IncompleteError(_stopped(error, request.folder)) from None
    except LabelsError as error:  # of a reading process, with its traceback
        raise LabelsError(str(error).strip().splitlines()[-1].removeprefix(_ERROR_NAME)) from None
    result = outcome(tuner, pictures, held_back)
    # Else the adapter's files would name a folder of this machine.
    model.peft_config["default"].base_model_name_or_path = request.checkpoint.name.partition("@")[0]
    model.save_pretrained(request.folder, save_embedding_layers=False)  # none is tuned; else peft looks for changes
    (request.folder / "README.md").unlink(missing_ok=True)  # peft's, which says nothing yet
    return result


def _stopped(error: NotANumberError, folder: Path) -> str:
    kept = last_checkpoint(folder)
    last = "there is no checkpoint yet" if kept is None else f"the checkpoint of step {_step(kept)} is kept"
    return (
        f"the loss or the weights of step {error.step} are not finite numbers, so tuning stopped; {last} in "
        f"{folder / CHECKPOINTS}: lower the recipe's learning_rate and name another --out"
    )


def _step(checkpoint: Path) -> int:
    return int(checkpoint.name.rpartition("-")[2])


def last_checkpoint(folder: Path) -> Path | None:
    """Return the last complete checkpoint."""
    return max(filter(_is_complete, (folder / CHECKPOINTS).glob("checkpoint-*")), key=_step, default=None)


def _is_complete(checkpoint: Path) -> bool:
    try:
        json.loads((checkpoint / TRAINER_STATE).read_bytes())
    except (OSError, ValueError):
        return False
    return True


def tuned_modules(model: Any, *, vision: bool) -> list[str]:
    """Return the names of all linear modules of the language model, and with `vision` of the picture's side too."""
    linear = (name for name, module in model.named_modules() if isinstance(module, torch.nn.Linear))
    skipped = frozenset(() if vision else VISION_PARTS)
    return [name for name in linear if LANGUAGE_HEAD not in name and skipped.isdisjoint(name.split("."))]


def adapted(model: Any, recipe: Recipe) -> PeftModel:
    """Return the model with an untrained adapter on its linear layers. LabelsError if it has none that can be tuned."""
    # The names on disk are those of the class that is loaded; peft needs them as `named_modules` gives them.
    names = tuned_modules(model, vision=recipe.vision)
    if not names:
        raise LabelsError("the model has no linear layers that can be tuned; choose another --model")
    settings = LoraConfig(
        r=recipe.rank, lora_alpha=recipe.alpha, lora_dropout=recipe.dropout, target_modules=names, task_type="CAUSAL_LM"
    )
    if torch.cuda.is_available():
        model.gradient_checkpointing_enable({"use_reentrant": False})
    return get_peft_model(model, settings)


def arguments(request: TrainingRequest, shared: Batches, *, has_held_back: bool) -> TrainingArguments:
    """Translate the recipe to arguments of transformers."""
    recipe, on_gpu = request.recipe, torch.cuda.is_available()
    is_constant = recipe.schedule == "constant" and recipe.warmup_share
    num_readers = min(MAX_READERS, (os.cpu_count() or 1) - 1) if on_gpu else 0
    arguments = TrainingArguments(
        output_dir=str(request.folder / CHECKPOINTS),
        per_device_train_batch_size=shared.micro,
        per_device_eval_batch_size=shared.micro,
        gradient_accumulation_steps=shared.accumulated,
        num_train_epochs=recipe.epochs or 1,
        max_steps=recipe.max_steps or -1,  # if above 0, it decides
        learning_rate=recipe.learning_rate,
        lr_scheduler_type="constant_with_warmup" if is_constant else recipe.schedule,
        warmup_steps=math.ceil(recipe.warmup_share * shared.num_steps),
        weight_decay=recipe.weight_decay,
        max_grad_norm=recipe.max_grad_norm,
        bf16=on_gpu,
        use_cpu=not on_gpu,
        seed=request.seed,
        data_seed=request.seed,
        save_strategy="steps",
        save_steps=min(MAX_STEPS_PER_CHECKPOINT, math.ceil(shared.num_steps / NUM_CHECKPOINTS)),
        save_total_limit=2,
        eval_strategy="epoch" if has_held_back else "no",
        prediction_loss_only=True,
        logging_steps=max(1, shared.num_steps // 100),
        logging_nan_inf_filter=False,
        report_to="none",
        remove_unused_columns=False,
        label_names=["targets"],
        dataloader_num_workers=num_readers,
        dataloader_persistent_workers=num_readers > 0,
        dataloader_pin_memory=on_gpu,
        disable_tqdm=True,
        log_level="error",
    )
    arguments._n_gpu = min(1, arguments.n_gpu)  # else Trainer splits batches over all GPUs of the machine
    return arguments


def check(request: TrainingRequest) -> None:
    """Raise EngineError if the model cannot be asked; LabelsError if the set is damaged."""
    prompter = Prompter(request.checkpoint.folder, request.max_pixels)
    prompter.check(request.protocol)
    items, is_slots = request.training_set.items("train"), isinstance(request.protocol.prompt.wanted, Slots)
    check_targets([*items, *request.training_set.items("validation")], is_slots=is_slots)
    Encoder(prompter, request.protocol.prompt, request.recipe.text_tokens).example(items[0], request.max_pixels)
