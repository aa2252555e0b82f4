"""The samples of a scan: all, the first N, or a uniform random N.

They are drawn from the whole corpus, from each category, or from shards that were drawn before.

A draw needs the number of samples in each shard, so the shards are listed once before. The same source, N and seed
always give the same samples.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from ingest.errors import SourceError
from ingest.sample import MAX_BYTES, Slice, cut

Chosen = dict[str, list[int]] | None
"""Shard -> ascending indices of its chosen samples; None: all samples of all shards."""


def first(shards: Sequence[str], counts: Iterable[int], limit: int) -> dict[str, list[int]]:
    """Return the first `limit` samples in the order of the shards; empty shards among them are chosen, too. counts: of
    the samples of each shard; no more are asked for than needed."""
    chosen: dict[str, list[int]] = {}
    for shard, count in zip(shards, counts, strict=True):
        chosen[shard] = list(range(min(count, limit)))
        limit -= len(chosen[shard])
        if not limit:
            break
    return chosen


def draw(shards: Sequence[str], counts: Sequence[int], num_samples: int, seed: int) -> dict[str, list[int]]:
    """Draw a uniform sample without replacement (numpy's PCG64). SourceError if the shards hold fewer."""
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


def draw_shards(shards: Sequence[str], num_shards: int, seed: int) -> list[str]:
    """Draw shards uniformly without replacement, in their order. SourceError unless it leaves some out. The generator
    (numpy's PCG64) is not that of `draw`, so that which images are drawn does not depend on it."""
    if num_shards >= len(shards):
        raise SourceError(f"--shards {num_shards} of a source of {len(shards)}: leave --shards out to draw from all")
    drawn = np.random.default_rng([seed, num_shards]).choice(len(shards), num_shards, replace=False, shuffle=False)
    return [shards[n] for n in np.sort(drawn)]


def draw_per_category(
    shards: Sequence[str], categories: Sequence[Sequence[str | None]], num_samples: int, seed: int
) -> tuple[dict[str, list[int]], int]:
    """Draw `num_samples` images of each category uniformly, all of a smaller one; count images without a category.

    categories: of each sample of each shard. Each category is drawn with a generator of its own (numpy's PCG64, seeded
    with `seed` and a hash of the category), so that other categories do not change which of its images are drawn.
    Images without a category are not drawn. SourceError if no image has one.
    """
    places: dict[str, list[tuple[int, int]]] = {}
    num_without = 0
    for number, of_shard in enumerate(categories):
        for index, category in enumerate(of_shard):
            if category is None:
                num_without += 1
            else:
                places.setdefault(category, []).append((number, index))
    if not places:
        raise SourceError("--per-category, but no image has a category: name what gives it with --category or --labels")
    drawn: list[tuple[int, int]] = []
    for category, members in places.items():
        stream = int.from_bytes(hashlib.sha256(category.encode()).digest()[:8], "big")
        size = min(num_samples, len(members))
        members_drawn = np.random.default_rng([seed, stream]).choice(len(members), size, replace=False, shuffle=False)
        drawn += [members[n] for n in members_drawn]
    chosen: dict[str, list[int]] = {}
    for number, index in sorted(drawn):
        chosen.setdefault(shards[number], []).append(index)
    return chosen, num_without


def selected(slices: Iterator[Slice], shard: str, indices: list[int] | None) -> Iterator[Slice]:
    """Return the slices of a shard, or, with chosen indices, slices of these samples only. The size of a single sample
    is no longer known; it counts as its share of the most that its slice may hold."""
    if indices is None:
        return slices
    wanted = frozenset(indices)
    weighed = ((locator, MAX_BYTES // len(slice_.locators)) for slice_ in slices for locator in slice_.locators)
    return cut(shard, ((locator, num_bytes) for locator, num_bytes in weighed if locator["index"] in wanted))
