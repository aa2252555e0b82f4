"""Loads a model completely: a tensor that is missing from its files is an error, not filled with random numbers."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from transformers import AutoModelForImageTextToText
from transformers.utils import logging

from ingest.errors import EngineError
from scoring.engines.vlm.adapter import Adapter
from scoring.engines.vlm.checkpoint import Checkpoint, safetensors_shapes, weight_files
from scoring.engines.vlm.merging import PLAIN, AdapterDeltas

FAULTS = (ValueError, OSError, LookupError, ImportError, RuntimeError, TypeError, AttributeError, SafetensorError)
"""Errors of loading files that are damaged or of another kind."""

LATER_CHANGES = {"final_logit_softcapping": None, "logit_scale": 1, "logits_scaling": 1, "lm_head_multiplier": 1}
"""Settings by which language models change what their vocabulary head gives -> the value that changes nothing."""


def model_of(checkpoint: Checkpoint, dtype: str | None) -> Any:
    """Load the model on the CPU. dtype: None for the stored one. EngineError if it is incomplete."""
    return _loaded(checkpoint, {"dtype": dtype or "auto"})


def skeleton_of(checkpoint: Checkpoint) -> Any:
    """Return the model without its weights. EngineError if a tensor is missing: vLLM starts without some silently."""
    return _loaded(checkpoint, {"device_map": "meta"})


def gpu_memory() -> tuple[int, int]:
    """Return bytes of the GPU that this process takes, and bytes that are left for it; zeros without a GPU.

    What the allocator keeps for later is left. What other processes take is not counted: it may come and go.
    """
    if not torch.cuda.is_available():
        return 0, 0
    used, (free, _) = torch.cuda.memory_allocated(), torch.cuda.mem_get_info()
    return used, free + torch.cuda.memory_reserved() - used


def check_head(model: Any, name: str) -> None:
    """Raise EngineError if the vocabulary head alone does not give the model's probabilities. Engines that read them
    without generating compute no more than the head."""
    config = model.config.get_text_config()
    for setting, neutral in LATER_CHANGES.items():
        if getattr(config, setting, neutral) not in (neutral, None):
            raise EngineError(
                f'probabilities of the model "{name}" cannot be read without generating, since it changes them behind '
                f"its head ({setting}); choose --protocol severity or binary:lenient"
            )


def head_rows(
    skeleton: Any, checkpoint: Checkpoint, adapter: Adapter | None, token_ids: Sequence[int]
) -> list[list[float]]:
    """Read the rows of these tokens in the vocabulary head, which some models share with their input, with what the
    adapter adds to them.

    EngineError as in `check_head`, and if the files do not hold it once, as plain numbers, and without a bias."""
    check_head(skeleton, checkpoint.name)
    head = skeleton.get_output_embeddings()
    weight = getattr(head, "weight", None)
    name = next((name for name, parameter in skeleton.named_parameters() if parameter is weight), "lm_head.weight")
    ending = "".join(f".{part}" for part in name.split(".")[-2:])  # what stands before it depends on the version
    shape = None if weight is None else tuple(weight.shape)
    matrices = [
        (file, stored)
        for file in weight_files(checkpoint.folder)
        for stored, stored_shape in safetensors_shapes(file).items()
        if f".{stored}".endswith(ending) and stored_shape == shape
    ]
    rows = None
    if len(matrices) == 1 and getattr(head, "bias", None) is None:
        file, stored = matrices[0]
        with safe_open(file, framework="pt") as tensors:
            matrix = tensors.get_slice(stored)
            rows = torch.cat([matrix[token : token + 1] for token in token_ids])
    if rows is None or rows.dtype not in PLAIN:
        raise EngineError(
            f'vLLM cannot read probabilities of the model "{checkpoint.name}": its files do not hold the matrix '
            f"{ending[1:]} once, as plain numbers and without a bias; choose --protocol json or binary:lenient, or "
            "--engine transformers"
        )
    delta = None if adapter is None else AdapterDeltas(adapter.folder).delta(stored, token_ids)
    made: list[list[float]] = (rows.float() if delta is None else rows.float() + delta).tolist()
    return made


@contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers from showing its progress, and its report of missing tensors, for the length of the block."""
    verbosity = logging.get_verbosity()
    has_progress_bar = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if has_progress_bar:
            logging.enable_progress_bar()


def _loaded(checkpoint: Checkpoint, how: dict[str, str]) -> Any:
    try:
        with quiet():
            model, information = AutoModelForImageTextToText.from_pretrained(
                checkpoint.folder, use_safetensors=True, trust_remote_code=False, output_loading_info=True, **how
            )
    except FAULTS as error:
        raise EngineError(
            f'the model "{checkpoint.name}" cannot be loaded by transformers ({type(error).__name__}); '
            "its architecture may need a newer version or code of its own"
        ) from error
    if information["missing_keys"]:
        raise EngineError(
            f'the model "{checkpoint.name}" is incomplete: its files have no {min(information["missing_keys"])}'
        )
    return model
