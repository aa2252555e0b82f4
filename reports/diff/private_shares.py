"""How many pictures are private in both runs: of all pictures, and of each group."""

from collections.abc import Collection, Mapping

import duckdb
import numpy as np
import numpy.typing as npt

from ingest.sample import printable
from reports.diff.results import GroupChange, PairedRate
from reports.statistics.binary import kappa_of
from reports.statistics.paired_testing import adjusted_p_values, seldom_denies

_BOTH_SCORED = "NOT a_is_quarantined AND NOT b_is_quarantined"
_COUNTED = {
    "both": "a_is_private AND b_is_private",
    "only_a": "a_is_private AND NOT b_is_private",
    "only_b": "NOT a_is_private AND b_is_private",
    "neither": "NOT a_is_private AND NOT b_is_private",
    "only_a_open_b": f"a_is_private AND b_is_private IS NULL AND {_BOTH_SCORED}",
    "only_b_open_a": f"a_is_private IS NULL AND b_is_private AND {_BOTH_SCORED}",
    "private_a": "a_is_private",
    "public_a": "NOT a_is_private",
    "open_a": "a_is_private IS NULL AND NOT a_is_quarantined",
    "private_b": "b_is_private",
    "public_b": "NOT b_is_private",
    "open_b": "b_is_private IS NULL AND NOT b_is_quarantined",
}
"""What is counted of the pictures of a group."""

Counts = Mapping[str, npt.NDArray[np.int64]]
"""Names of `_COUNTED` -> shape (groups,)."""


def private_shares(
    database: duckdb.DuckDBPyConnection, unnamed: Collection[str], is_tested: bool
) -> tuple[PairedRate, float | None, tuple[GroupChange, ...]]:
    """Compare the private shares of all pictures, with κ; and of each group that may be named.

    unnamed: groups that may not be named; the tests are adjusted for them too. is_tested: whether pictures are
    independent, so that there are p-values.
    """
    counts = ", ".join(f'sum("{name}")::BIGINT' for name in ("num_pairs", *_COUNTED))
    rows = database.execute(f"SELECT category, {counts} FROM tally_groups GROUP BY ALL ORDER BY category").fetchall()
    table = np.array([row[2:] for row in rows], dtype=np.int64).reshape(len(rows), len(_COUNTED))
    ((whole, _),) = _paired(dict(zip(_COUNTED, table.sum(axis=0)[:, None], strict=True)), is_tested)
    groups = [
        GroupChange(**vars(paired), group=printable(row[0]), num_pairs=row[1], p_holm=p_holm)
        for row, (paired, p_holm) in zip(
            rows, _paired(dict(zip(_COUNTED, table.T, strict=True)), is_tested), strict=True
        )
        if row[0] not in unnamed
    ]
    groups.sort(key=lambda one: (_last(one.p_holm), _last(one.p_value), -abs(one.change or 0), one.group))
    kappa = None if whole.seldom_denied_in else kappa_of(*table[:, :4].sum(axis=0).tolist())
    return whole, kappa, tuple(groups)


def tally(database: duckdb.DuckDBPyConnection) -> None:
    """Adds the pictures in the table `compared` to those of earlier parts, by group."""
    counts = ", ".join(f'count(*) FILTER ({condition}) AS "{name}"' for name, condition in _COUNTED.items())
    counted = f"SELECT a_category AS category, count(*) AS num_pairs, {counts} FROM compared GROUP BY ALL"
    database.execute(f"CREATE TABLE IF NOT EXISTS tally_groups AS SELECT * FROM ({counted}) LIMIT 0")
    database.execute(f"INSERT INTO tally_groups {counted}")


def _paired(counts: Counts, is_tested: bool) -> list[tuple[PairedRate, float | None]]:
    """Return the paired rate of each group, with p adjusted for all of them."""
    seldom = {
        name: seldom_denies(*(counts[f"{answer}_{name}"] for answer in ("private", "public", "open")))
        for name in ("a", "b")
    }
    changes = np.stack([counts[name] for name in ("only_a", "only_b", "only_a_open_b", "only_b_open_a")], axis=1)
    p_values = adjusted_p_values(changes, ~(seldom["a"] | seldom["b"]) & is_tested)
    rates = []
    for index, (p_value, p_holm) in enumerate(p_values):
        one = {name: int(column[index]) for name, column in counts.items()}
        num, num_a, num_b = sum(list(one.values())[:4]), one["both"] + one["only_a"], one["both"] + one["only_b"]
        paired = PairedRate(
            num_pictures=num,
            num_private_a=num_a,
            num_private_b=num_b,
            num_only_a=one["only_a"],
            num_only_b=one["only_b"],
            rate_a=num_a / num if num else None,
            rate_b=num_b / num if num else None,
            change=(num_b - num_a) / num if num else None,
            num_private_a_open_b=one["only_a_open_b"],
            num_private_b_open_a=one["only_b_open_a"],
            seldom_denied_in=tuple(name for name in ("a", "b") if seldom[name][index]),
            p_value=p_value,
        )
        rates.append((paired, p_holm))
    return rates


def _last(p_value: float | None) -> float:
    return 2.0 if p_value is None else p_value
