"""Sources made of shards that differ, and samples of them drawn in two stages: shards first, images afterwards."""

from collections.abc import Sequence
from dataclasses import dataclass

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from reports.run.drawn_shards import NUM_TABULATED, degrees_sql, effective_size_sql, of_t
from reports.statistics.shares import wilson
from scoring.runs.record import ShardDraw

Counts = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ShardedSource:
    """sizes, num_private: images of each shard, shape (shards,)."""

    sizes: Counts
    num_private: Counts

    @property
    def rate(self) -> float:
        return float(self.num_private.sum() / self.sizes.sum())


def source(num_shards: int, rate: float, alikeness: float, seed: int = 1) -> ShardedSource:
    """Shards of 200 to 1,800 images. alikeness: correlation of two images of one shard; the rate of a shard has a beta
    distribution."""
    random = np.random.default_rng(seed)
    sizes = random.integers(200, 1_800, num_shards)
    rates = np.full(num_shards, rate)
    if alikeness:
        spread = 1 / alikeness - 1
        rates = random.beta(rate * spread, (1 - rate) * spread, num_shards)
    return ShardedSource(sizes, random.binomial(sizes, rates))


def intervals(
    of: ShardedSource, num_shards: int, num_images: int, num_draws: int, seed: int = 2
) -> list[tuple[float, float] | None]:
    """Of the rate, from each of so many draws, as a report gives them; None where it gives none."""
    random, draws = np.random.default_rng(seed), list[tuple[Counts, Counts, ShardDraw]]()
    for _ in range(num_draws):
        shards = random.choice(len(of.sizes), num_shards, replace=False)
        sizes, num_private = of.sizes[shards], of.num_private[shards]
        n = random.multivariate_hypergeometric(sizes, num_images)
        k = random.hypergeometric(num_private, sizes - num_private, n)
        draws.append((k, n, ShardDraw(num_shards, len(of.sizes), num_images, int(sizes.sum()))))
    return intervals_of(draws)


def intervals_of(draws: Sequence[tuple[npt.ArrayLike, npt.ArrayLike, ShardDraw]]) -> list[tuple[float, float] | None]:
    """One interval for each draw, all of as many shards and images. k of n images of each drawn shard."""
    rows = dict[int, dict[str, float]]()
    for number, (k, n, draw) in enumerate(draws):
        counts = np.stack([np.asarray(k, np.float64), np.asarray(n, np.float64)])
        num_private, num_judged = counts[:, counts[1] > 0]
        if len(num_judged) < 2:
            continue
        k_all, n_all = float(num_private.sum()), float(num_judged.sum())
        residuals = (num_private - k_all / n_all * num_judged) / (1 - num_judged / n_all)
        rows[number] = {"num_shards": float(len(num_judged)), "k": k_all, "n": n_all}
        rows[number] |= {"squares": float((residuals**2).sum()), "fourths": float((residuals**4).sum())}
        rows[number] |= {"of_images": _of_images(draw)}
    found: list[tuple[float, float] | None] = [None] * len(draws)
    if not rows:
        return found
    # A statement takes 2 ms, so there is one for all draws: what differs in their SQL is a column.
    draw = draws[0][2]
    written = effective_size_sql(draw)
    assert written.count(repr(_of_images(draw))) == 1
    columns = pa.Table.from_pylist(list(rows.values()))  # noqa: F841  # DuckDB finds it by its name
    sized = (
        f"SELECT k, n, {written.replace(repr(_of_images(draw)), 'of_images')} AS size, {degrees_sql()} AS degrees "
        "FROM columns"
    )
    with duckdb.connect() as database:
        for number, (k_all, n_all, size, degrees) in zip(rows, database.execute(sized).fetchall(), strict=True):
            size *= of_t(min(degrees, NUM_TABULATED))
            found[number] = wilson(k_all / n_all * size, size)
    return found


def _of_images(draw: ShardDraw) -> float:
    """What `effective_size_sql` writes of the draw of images."""
    return draw.num_shards / draw.num_source_shards * (1 - draw.num_images / draw.num_in_shards)


def coverage(of: ShardedSource, num_shards: int, num_images: int, num_draws: int, seed: int = 2) -> float:
    """Share of the draws whose interval holds the rate of the source; a draw without an interval holds nothing."""
    found = intervals(of, num_shards, num_images, num_draws, seed)
    return float(np.mean([one is not None and one[0] <= of.rate <= one[1] for one in found]))
