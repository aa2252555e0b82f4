"""Where the work of a command runs: on Ray, or in this process.

`ray` spreads it over the cores of a machine or a cluster. `inline` does the same work with the
same results and without the seconds that Ray takes to start: for notebooks, debugging and one machine. A scan may have
further processes then; other commands do one piece after the other.
"""

import os
from typing import Literal, get_args

from ingest.errors import PrivsieveError

Executor = Literal["ray", "inline"]
EXECUTORS: tuple[Executor, ...] = get_args(Executor)


def num_cores() -> int:
    """Cores that this process may use, as far as the system shows them."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def refuse_address(executor: Executor | None, ray_address: str | None) -> None:
    """PrivsieveError where a cluster is named for work that is to stay in this process."""
    if executor == "inline" and ray_address is not None:
        raise PrivsieveError(
            "--executor inline works in this process and --ray-address names a cluster: leave one of them out"
        )
