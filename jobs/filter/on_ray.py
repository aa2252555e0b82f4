"""The copies on Ray Data: one row is the number of one shard."""

from collections.abc import Iterator, Sequence
from typing import Any

import ray.data

from jobs.filter.copying import Copied, ShardCopier
from jobs.filter.plan import Share

MAX_BLOCKS = 1000


def copied_on_ray(copier: ShardCopier, shares: Sequence[Share]) -> Iterator[Copied]:
    """Yield copies in the order in which they are done. Call this inside of `jobs.runtime.cluster.ray_session`."""

    def copy(row: dict[str, Any]) -> dict[str, Any]:
        number = int(row["number"])
        return {"copied": copier.outcome(number, shares[number]).to_json()}

    numbers = [{"number": n} for n in range(len(shares))]
    copies = ray.data.from_items(numbers, override_num_blocks=min(len(shares), MAX_BLOCKS)).map(copy)
    for row in copies.iter_rows():
        yield Copied.from_json(row["copied"])
