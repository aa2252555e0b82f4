"""Sources made of shards that differ, and samples of them drawn in two stages: shards first, images afterwards."""

from dataclasses import dataclass

import duckdb
import numpy as np
import numpy.typing as npt

from reports.drawn_shards import effective_size_sql, of_t_sql
from reports.report.intervals import wilson
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
    random, found = np.random.default_rng(seed), list[tuple[float, float] | None]()
    with duckdb.connect() as database:
        for _ in range(num_draws):
            shards = random.choice(len(of.sizes), num_shards, replace=False)
            sizes, num_private = of.sizes[shards], of.num_private[shards]
            n = random.multivariate_hypergeometric(sizes, num_images)
            k = random.hypergeometric(num_private, sizes - num_private, n)
            draw = ShardDraw(num_shards, len(of.sizes), num_images, int(sizes.sum()))
            found.append(interval(database, k, n, draw))
    return found


def interval(
    database: duckdb.DuckDBPyConnection, k: npt.ArrayLike, n: npt.ArrayLike, draw: ShardDraw
) -> tuple[float, float] | None:
    """k of n images of each drawn shard."""
    counts = zip(np.asarray(k).tolist(), np.asarray(n).tolist(), strict=True)
    sums = np.array([(1, a, b, a * a, a * b, b * b) for a, b in counts if b], np.float64).sum(axis=0).tolist()
    columns = dict(zip(("num_shards", "k", "n", "kk", "kn", "nn"), sums, strict=True))
    given = ", ".join(f"{value!r} AS {name}" for name, value in columns.items())
    ((size,),) = database.execute(
        f"SELECT {effective_size_sql(draw)} * {of_t_sql('num_shards::BIGINT')} FROM (SELECT {given})"
    ).fetchall()
    return None if size is None else wilson(columns["k"] / columns["n"] * size, size)


def coverage(of: ShardedSource, num_shards: int, num_images: int, num_draws: int, seed: int = 2) -> float:
    """Share of the draws whose interval holds the rate of the source; a draw without an interval holds nothing."""
    found = intervals(of, num_shards, num_images, num_draws, seed)
    return float(np.mean([one is not None and one[0] <= of.rate <= one[1] for one in found]))
