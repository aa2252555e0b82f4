"""vLLM's processes start as copies of one that has imported everything: in seconds, not in a minute.

On CPUs each vLLM has two processes of its own, one started by the other. Those of the tests that scan through Ray start
as they do for users.
"""

import multiprocessing
import sys
from functools import partial
from typing import Any

_get_context = multiprocessing.get_context


def prepare() -> None:
    """For this process, before vLLM is asked to start."""
    multiprocessing.set_forkserver_preload([__name__])
    _replace_spawn("forkserver")


def _replace_spawn(method: str) -> None:
    multiprocessing.get_context = partial(_context, method)


def _context(instead_of_spawn: str, method: str | None = None) -> Any:
    return _get_context(instead_of_spawn if method == "spawn" else method)


if "multiprocessing.forkserver" in " ".join(sys.orig_argv):
    import vllm.model_executor.models.qwen2_5_vl
    import vllm.model_executor.models.qwen3_vl
    import vllm.v1.engine.core
    import vllm.v1.executor.multiproc_executor
    import vllm.v1.worker.cpu_worker  # noqa: F401

    _replace_spawn("fork")  # a copy cannot ask the server for another one
