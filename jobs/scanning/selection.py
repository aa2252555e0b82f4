"""Which samples a scan looks at: all, the first N, or a uniform random N of the whole corpus.

A draw needs to know how many samples each shard has, so the shards are listed once before; the same source, N and
seed always give the same samples.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from ingest.errors import SourceError
from ingest.slices import MAX_BYTES, Slice, cut

Chosen = dict[str, list[int]] | None
"""Shard -> ascending indices of its chosen samples; None: all samples of all shards."""


def first(shards: Sequence[str], counts: Sequence[int], limit: int) -> dict[str, list[int]]:
    """The first `limit` samples in the order of the shards; empty shards among them are chosen as such."""
    chosen: dict[str, list[int]] = {}
    for shard, count in zip(shards, counts, strict=True):
        taken = min(count, limit)
        if taken or not count:
            chosen[shard] = list(range(taken))
        limit -= taken
    return chosen


def draw(shards: Sequence[str], counts: Sequence[int], num_samples: int, seed: int) -> dict[str, list[int]]:
    """A uniform sample without replacement (numpy's PCG64). SourceError where the corpus is smaller."""
    total = sum(counts)
    if num_samples > total:
        raise SourceError(f"--sample {num_samples} of a corpus of {total}: leave --sample out to scan all")
    ordinals = np.sort(np.random.default_rng(seed).choice(total, num_samples, replace=False, shuffle=False))
    ends = np.cumsum(counts)
    chosen: dict[str, list[int]] = {}
    for shard, end, count in zip(shards, ends, counts, strict=True):
        inside = ordinals[(ordinals >= end - count) & (ordinals < end)] - (end - count)
        if len(inside):
            chosen[shard] = [int(i) for i in inside]
    return chosen


def selected(slices: Iterator[Slice], shard: str, indices: list[int] | None) -> Iterator[Slice]:
    """The slices of a shard, or, with chosen indices, slices of these samples only.

    What one sample weighs is not known any more; it counts as its share of the most that its slice may weigh.
    """
    if indices is None:
        return slices
    wanted = frozenset(indices)
    weighed = ((at, MAX_BYTES // len(slice_.locators)) for slice_ in slices for at in slice_.locators)
    return cut(shard, ((at, num_bytes) for at, num_bytes in weighed if at["index"] in wanted))
