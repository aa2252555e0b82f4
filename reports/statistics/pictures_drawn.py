"""Which pictures of an audit sample are taken so that each picture of the run had the same probability.

The audit draws rows, each with a probability of its own, and a picture can have several rows: its copies. Were a
picture taken if any of them is, it would be the likelier taken the more copies it has, and the promise would hold for
rows only. So a picture is taken by its first row alone.
"""

import hashlib
from collections.abc import Mapping, Sequence

import numpy as np

from reports.statistics.recall_bound import evenly_thinned

Row = tuple[str, int]
"""Shard and index."""


def evenly_taken(
    rows_of: Mapping[str, Sequence[Row]], probabilities: Mapping[Row, float], least: float, seed: int
) -> list[str]:
    """The pictures that are left, in the order of `rows_of`.

    rows_of: sha256 -> all rows of the run that could be drawn and have these bytes. probabilities: of the drawn rows.
    least: the smallest probability of any row of the run, drawn or not. seed: of the sample.

    Each picture of the run is left with probability `least`, independently of the others: its first row is drawn with
    probability p, and stays with probability least / p.
    """
    first_rows = {sha256: min(rows) for sha256, rows in rows_of.items()}
    drawn = {sha256: row for sha256, row in first_rows.items() if row in probabilities}
    drawn_with = np.array([probabilities[row] for row in drawn.values()], dtype=np.float64)
    lots = np.array([lot_of(seed, *row) for row in drawn.values()], dtype=np.float64)
    is_left = evenly_thinned(drawn_with, least, lots)
    return [sha256 for sha256, is_taken in zip(drawn, is_left.tolist(), strict=True) if is_taken]


def lot_of(seed: int, shard: str, index: int) -> float:
    """A number of a row, uniform in [0, 1). seed: of the audit sample.

    It follows from these alone, so that no one can choose a lucky one by leaving out labels of others. Samples of other
    seeds have other numbers: else a run with unlucky numbers would have them in every audit.
    """
    digest = hashlib.sha256(f"guarantee/{seed}/{index}/{shard}".encode("utf-8", "surrogatepass")).digest()
    return (int.from_bytes(digest[:8], "big") >> 11) / 2**53
