"""What surrounds the start of vLLM: one engine after the other on a shared GPU, and why a start failed.

vLLM measures what its own model takes by the GPU's free memory, so a neighbour that loads at the same time would count
as a part of it. Why a start failed is known to vLLM's own process only, which logs it.
"""

import copy
import fcntl
import json
import logging
import os
import re
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ingest.machine import default_variable

CONFIG_VARIABLE = "VLLM_LOGGING_CONFIG_PATH"
SOCKETS_VARIABLE = "VLLM_RPC_BASE_PATH"
REASON = re.compile(r"^(?:\w+\.)*(\w*(?:Error|Exception)): (.+)$", re.MULTILINE)
REASON_LENGTH = 300
"""Characters of vLLM's own line that are shown."""

MEMORY = re.compile(r"memory|KV cache", re.IGNORECASE)
CURE = (
    "; let no other program use the GPU, give the engine a larger share with --engine-gpus or more GPUs with "
    "--tensor-parallel-size, or choose a smaller model"
)


@contextmanager
def alone_on_gpu(share: float | None) -> Iterator[None]:
    """Let no other engine of this user start on the same GPU within the block. share: `EngineOptions.gpu_share`."""
    if share is None:
        yield
        return
    gpus = re.sub(r"[^\w,-]", "_", os.environ.get("CUDA_VISIBLE_DEVICES", "all"))
    path = Path(tempfile.gettempdir(), f"privsieve-{os.getuid()}-gpu-{gpus}.lock")
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


@contextmanager
def last_words() -> Iterator[Callable[[], str]]:
    """Keep what vLLM's processes log while it starts, before they see any picture. The function returns why the start
    failed and what to do, from its own last error; empty where it says nothing."""
    from vllm.logger import DEFAULT_LOGGING_CONFIG

    with tempfile.TemporaryDirectory(prefix="privsieve-vllm-") as folder:
        log = Path(folder, "log")
        handler = logging.FileHandler(log)
        handler.setLevel(logging.ERROR)
        config = copy.deepcopy(DEFAULT_LOGGING_CONFIG)
        config["handlers"]["last_words"] = {"class": "logging.FileHandler", "level": "ERROR", "filename": str(log)}
        config["loggers"]["vllm"]["handlers"].append("last_words")
        Path(folder, "config.json").write_text(json.dumps(config))
        logging.getLogger("vllm").addHandler(handler)
        try:
            # For processes that begin anew; those that are forked have the handler.
            with default_variable(CONFIG_VARIABLE, str(Path(folder, "config.json"))):
                yield lambda: reason_in(log.read_text(errors="replace"))
        finally:
            logging.getLogger("vllm").removeHandler(handler)
            handler.close()


def reason_in(log: str) -> str:
    """Return the last error that a log of vLLM names, with what to do if memory was short; empty without one."""
    errors = REASON.findall(log)
    if not errors:
        return ""
    kind, text = errors[-1]
    line = f"{kind}: {text.rstrip('. ')}"
    shown = line if len(line) <= REASON_LENGTH else f"{line[:REASON_LENGTH]}…"
    return f"{shown}{CURE}" if MEMORY.search(line) else shown
