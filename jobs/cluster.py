"""Starting Ray quietly and on the right cluster.

A bare `ray.init()` attaches to any cluster that it finds on the host, so the address is always said: "local"
unless --ray-address or RAY_ADDRESS names one.
"""

import logging
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

LOGICAL_CPUS_MIN = 4
"""Two logical CPUs would admit only one reader beside an actor; readers mostly wait, so they share the cores."""


@contextmanager
def ray_session(address: str | None) -> Iterator[None]:
    """Ray for the length of the block: usage statistics off, its logs kept in its own folder."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # C++ lines that no user can act on
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # else a warning; no engine reads it
    # How many slices there are is known only after the pool has started.
    warnings.filterwarnings("ignore", message="The minimum number of concurrent actors")
    import ray

    address = address or os.environ.get("RAY_ADDRESS") or "local"
    num_cpus = max(LOGICAL_CPUS_MIN, 2 * (os.cpu_count() or 1)) if address == "local" else None
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
    finally:
        ray.shutdown()


def _quiet() -> None:
    import ray.data

    logging.getLogger("ray.data").setLevel(logging.CRITICAL)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    # One row per block: a slice is a unit of work, and blocks of several would go to one actor together.
    context.target_max_block_size = 1
