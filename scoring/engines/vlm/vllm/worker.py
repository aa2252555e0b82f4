"""What vLLM's workers run besides vLLM. They import this module.

- `InWorker`: they end with the process that started them, and say what they take of their GPU.
- `Loader`: while the weights are loaded, an adapter is added to them, and those that take two frames of a video take
  one. vLLM's own way computes the adapter again for each picture, and calls that experimental in a vision tower.
- `overrides`: the head from which they read probabilities is filled with rows of the model's own vocabulary head. vLLM
  fills it from a place that not all families have, and otherwise reads what the memory happens to hold. So there is
  another way to load a model: vLLM's own, and then these rows.
"""

import os
import re
import signal
import threading
from collections.abc import Generator, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from select import poll
from typing import Any

import torch
from vllm.config.load import LoadConfig
from vllm.model_executor.model_loader import register_model_loader
from vllm.model_executor.model_loader.default_loader import DefaultModelLoader
from vllm.model_executor.models.adapters import SEQ_CLS_LOAD_METHODS

from scoring.engines.vlm.loading import gpu_memory
from scoring.engines.vlm.merging import AdapterDeltas, for_stills

OF_VLLM, WITH_ROWS = "no_post_processing", "with_given_rows"
ROWS = "given_rows"
HEAD = re.compile(r"(.+\.)?score\.weight")
"""Name in vLLM of a head from which probabilities are read."""


class InWorker:
    """Mixed into vLLM's worker class (engine argument worker_extension_cls)."""

    def end_with(self, owner: int) -> None:
        """End when the process that started vLLM has ended. owner: its id. If it is killed, vLLM would stay, and keep
        the memory of the GPU."""
        with suppress(OSError):  # Linux before 5.3
            threading.Thread(target=_end_after, args=(os.pidfd_open(owner),), daemon=True).start()

    def gpu_memory(self) -> tuple[int, int]:
        return gpu_memory()


def _end_after(its_end: int) -> None:
    """End this process when another has ended; vLLM's main process follows. its_end: from `os.pidfd_open`."""
    waiting = poll()
    waiting.register(its_end)
    waiting.poll()
    os.kill(os.getpid(), signal.SIGKILL)


LOADER, ADAPTER, STILLS = "privsieve", "adapter", "stills"
"""A way to load weights, and its settings: the adapter's folder or None, and whether a patch is of one frame."""


@register_model_loader(LOADER)
class Loader(DefaultModelLoader):  # type: ignore[misc]  # of an untyped package
    """Loads safetensors, and changes them on their way."""

    def __init__(self, load_config: LoadConfig):
        settings = load_config.model_loader_extra_config
        self._adapter, self._is_for_stills = settings[ADAPTER], settings[STILLS]
        super().__init__(replace(load_config, load_format="safetensors", model_loader_extra_config={}))

    def get_all_weights(self, *given: Any) -> Generator[tuple[str, torch.Tensor], None, None]:
        weights = super().get_all_weights(*given)
        if self._adapter is not None:
            weights = AdapterDeltas(Path(self._adapter)).merged(weights)
        yield from for_stills(weights) if self._is_for_stills else weights


def overrides(tokens: Sequence[str], rows: list[list[float]] | None) -> dict[str, Any]:
    """Return settings of the model by which vLLM reads the probabilities of these tokens. rows: None if all weights are
    random."""
    head: dict[str, Any] = {"classifier_from_token": list(tokens), "method": OF_VLLM}
    if rows is not None:
        head |= {"method": WITH_ROWS, ROWS: rows}
    return {**head, "text_config": head}


def _load_with_rows(model: Any, weights: Iterable[tuple[str, torch.Tensor]]) -> Any:
    loaded = SEQ_CLS_LOAD_METHODS[OF_VLLM](model, weights)
    rows = torch.tensor(getattr(model.config.get_text_config(), ROWS))
    heads = [parameter for name, parameter in model.named_parameters() if HEAD.fullmatch(name)]
    if {head.shape for head in heads} != {rows.shape}:
        raise ValueError("it has no head for the probabilities of answers; choose --protocol json or binary:lenient")
    with torch.no_grad():
        for head in heads:  # that of the language model within, or that of the whole
            head.copy_(rows)
    return loaded


SEQ_CLS_LOAD_METHODS[WITH_ROWS] = _load_with_rows
