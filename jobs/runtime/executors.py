"""Where the work of a command runs: on Ray, or in this process.

`ray` spreads it over the cores of a machine or a cluster. `inline` does the same work, in the same order and with the
same results, one piece after the other and without the seconds that Ray takes to start: for notebooks, debugging and
small corpora.
"""

from typing import Literal, get_args

from ingest.errors import PrivsieveError

Executor = Literal["ray", "inline"]
EXECUTORS: tuple[Executor, ...] = get_args(Executor)


def refuse_address(executor: Executor | None, ray_address: str | None) -> None:
    """PrivsieveError where a cluster is named for work that is to stay in this process."""
    if executor == "inline" and ray_address is not None:
        raise PrivsieveError(
            "--executor inline works in this process and --ray-address names a cluster: leave one of them out"
        )
