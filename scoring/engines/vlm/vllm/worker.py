"""What vLLM's workers run besides vLLM. They import this module.

- `InWorker`: they end with the process that started them, and say which modules take an adapter.
- `overrides`: the head from which they read probabilities is filled with rows of the model's own vocabulary head. vLLM
  fills it from a place that not all families have, and otherwise reads what the memory happens to hold. So there is
  another way to load a model: vLLM's own, and then these rows.
"""

import os
import re
import signal
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from select import poll
from typing import Any

import torch
from vllm.model_executor.models.adapters import SEQ_CLS_LOAD_METHODS

OF_VLLM, WITH_ROWS = "no_post_processing", "with_given_rows"
ROWS = "given_rows"
HEAD = re.compile(r"(.+\.)?score\.weight")
"""Name in vLLM of a head from which probabilities are read."""


class InWorker:
    """Mixed into vLLM's worker class, whose attributes `model_runner` has (engine argument worker_extension_cls)."""

    model_runner: Any

    def end_with(self, owner: int) -> None:
        """End when the process that started vLLM has ended. owner: its id. If it is killed, vLLM would stay, and keep
        the memory of the GPU."""
        with suppress(OSError):  # Linux before 5.3
            threading.Thread(target=_end_after, args=(os.pidfd_open(owner),), daemon=True).start()

    def modules_that_take_adapters(self) -> list[str]:
        """Return the names of the model's modules; joined projections (q, k and v in one) by their parts. vLLM drops
        adapter weights that it cannot place and only logs it."""
        manager = self.model_runner.lora_manager._adapter_manager
        names: list[str] = []
        for name in manager.modules:
            names.extend(manager.packed_modules.get(name) or [name])
        return names


def _end_after(its_end: int) -> None:
    """End this process when another has ended; vLLM's main process follows. its_end: from `os.pidfd_open`."""
    waiting = poll()
    waiting.register(its_end)
    waiting.poll()
    os.kill(os.getpid(), signal.SIGKILL)


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
