"""Starting Ray quietly and on the right cluster.

A bare `ray.init()` attaches to any cluster that it finds on the host, so the address is always said: "local"
unless --ray-address or RAY_ADDRESS names one.
"""

import logging
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from ingest.errors import IncompleteError, PrivsieveError

LOGICAL_CPUS_MIN = 4
"""Two logical CPUs would admit only one reader beside an actor; readers mostly wait, so they share the cores."""


@contextmanager
def ray_session(address: str | None) -> Iterator[None]:
    """Ray for the length of the block: usage statistics off, its logs kept in its own folder."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else a warning; no engine reads it
    # How many slices there are is known only after the pool has started.
    warnings.filterwarnings("ignore", message="The minimum number of concurrent actors")
    address = address or os.environ.get("RAY_ADDRESS") or "local"
    num_cpus = max(LOGICAL_CPUS_MIN, 2 * (os.cpu_count() or 1)) if address == "local" else None
    with _native_stderr_hidden():
        yield from _session(address, num_cpus)


def _session(address: str, num_cpus: int | None) -> Iterator[None]:
    import ray

    ray.init(
        address=address,
        num_cpus=num_cpus,
        include_dashboard=False if address == "local" else None,
        log_to_driver=False,
        logging_level=logging.ERROR,
    )
    try:
        _quiet()
        yield
    except ray.exceptions.RayError as error:
        raise _translated(error) from None
    finally:
        ray.shutdown()


def _translated(error: BaseException) -> PrivsieveError:
    """Our own error where a worker raised one, else the kind of the failure: foreign text may hold content.

    Ray's wrapper pretends to be of the wrapped class, with the whole traceback as its message: look inside.
    """
    import ray

    seen = error
    while True:
        if isinstance(seen, PrivsieveError) and not isinstance(seen, ray.exceptions.RayError):
            return type(seen)(str(seen).splitlines()[0])  # Ray appends advice of its own
        below = getattr(seen, "cause", None) or seen.__cause__
        if not isinstance(below, BaseException):
            return IncompleteError(f"a worker failed ({type(seen).__name__}); run the same command again to continue")
        seen = below


@contextmanager
def _native_stderr_hidden() -> Iterator[None]:
    """Ray's C++ core writes lines to file descriptor 2 that no user can act on; Python's own stderr stays."""
    shown, python_stderr = os.dup(2), sys.stderr
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        if python_stderr is sys.__stderr__:
            sys.stderr = os.fdopen(os.dup(shown), "w", buffering=1)
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(shown, 2)
        os.close(shown)
        os.close(nowhere)
        if sys.stderr is not python_stderr:
            sys.stderr.close()
            sys.stderr = python_stderr


def _quiet() -> None:
    import ray.data

    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    # One row per block: a slice is a unit of work, and blocks of several would go to one actor together.
    context.target_max_block_size = 1
