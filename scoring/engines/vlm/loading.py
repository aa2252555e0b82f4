"""Loads a model completely: a tensor that is missing from its files is an error, not filled with random numbers."""

from typing import Any

from safetensors import SafetensorError
from transformers import AutoModelForImageTextToText
from transformers.utils import logging

from ingest.errors import EngineError
from scoring.engines.vlm.checkpoint import Checkpoint

FAULTS = (ValueError, OSError, LookupError, ImportError, RuntimeError, TypeError, AttributeError, SafetensorError)
"""What loading raises for files that are damaged or of another kind."""


def model_of(checkpoint: Checkpoint, dtype: str | None) -> Any:
    """The model on the CPU. dtype: None as it is stored. EngineError where it does not load whole."""
    return _loaded(checkpoint, {"dtype": dtype or "auto"})


def check_whole(checkpoint: Checkpoint) -> None:
    """EngineError where a tensor is missing; reads no weights. vLLM starts without some tensors and says nothing."""
    _loaded(checkpoint, {"device_map": "meta"})


def _loaded(checkpoint: Checkpoint, how: dict[str, str]) -> Any:
    verbosity = logging.get_verbosity()
    has_progress_bar = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()  # its report of missing tensors, which the error below says in a line
    logging.disable_progress_bar()
    try:
        model, found = AutoModelForImageTextToText.from_pretrained(
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
    if found["missing_keys"]:
        raise EngineError(f'the model "{checkpoint.name}" is not whole: its files have no {min(found["missing_keys"])}')
    return model
