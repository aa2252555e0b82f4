"""Loads a model completely: a tensor that is missing from its files is an error, not filled with random numbers."""

from typing import Any

from safetensors import SafetensorError
from transformers import AutoModelForImageTextToText
from transformers.utils import logging

from ingest.errors import EngineError
from scoring.engines.vlm.checkpoint import Checkpoint

FAULTS = (ValueError, OSError, LookupError, ImportError, RuntimeError, TypeError, AttributeError, SafetensorError)
"""Errors of loading files that are damaged or of another kind."""


def model_of(checkpoint: Checkpoint, dtype: str | None) -> Any:
    """Load the model on the CPU. dtype: None for the stored one. EngineError if it is incomplete."""
    return _loaded(checkpoint, {"dtype": dtype or "auto"})


def check_whole(checkpoint: Checkpoint) -> None:
    """Raise EngineError if a tensor is missing; reads no weights. vLLM starts without some tensors silently."""
    _loaded(checkpoint, {"device_map": "meta"})


def _loaded(checkpoint: Checkpoint, how: dict[str, str]) -> Any:
    verbosity = logging.get_verbosity()
    has_progress_bar = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()  # its report of missing tensors, which the error below says in a line
    logging.disable_progress_bar()
    try:
        model, information = AutoModelForImageTextToText.from_pretrained(
            checkpoint.folder, use_safetensors=True, trust_remote_code=False, output_loading_info=True, **how
        )
    except FAULTS as error:
        raise EngineError(
            f'the model "{checkpoint.name}" cannot be loaded by transformers ({type(error).__name__}); '
            "its architecture may need a newer version or code of its own"
        ) from error
    finally:
        logging.set_verbosity(verbosity)
        if has_progress_bar:
            logging.enable_progress_bar()
    if information["missing_keys"]:
        raise EngineError(
            f'the model "{checkpoint.name}" is incomplete: its files have no {min(information["missing_keys"])}'
        )
    return model
