"""What two runs say of each attribute in the same pictures."""

from collections.abc import Collection, Mapping
from dataclasses import replace

import duckdb
import numpy as np

from reports.diff.results import AttributeChange
from reports.statistics.binary import kappa_of
from reports.statistics.paired_testing import adjusted_p_values, seldom_denies
from scoring.taxonomy import ATTRIBUTES, KEYS

ABSENT, DOUBT, PRESENT, OPEN = 0, 1, 2, -1
"""Answers of a scored picture; open: none to this question. In lists of counts open is the last."""

ANSWERED = (ABSENT, DOUBT, PRESENT)

Cells = Mapping[tuple[int | None, int | None], int]
"""Answers of both runs, None where quarantined -> pictures."""


def attribute_changes(
    database: duckdb.DuckDBPyConnection, declared_a: Collection[str], declared_b: Collection[str], is_tested: bool
) -> dict[str, AttributeChange]:
    """By key. declared_a: attributes that the first run says it never denies (`scoring.gaps.presence_only`).
    is_tested: whether pictures are independent, so that there are p-values.
    """
    found = {
        attribute.key: _change(
            attribute.level, _cells(database, attribute.key), attribute.key in declared_a, attribute.key in declared_b
        )
        for attribute in ATTRIBUTES
    }
    changes = [
        (item.num_vanished, item.num_appeared, item.num_present_a_open_b, item.num_present_b_open_a)
        for item in found.values()
    ]
    has_test = np.array([is_tested and not item.seldom_denied_in for item in found.values()])
    p_values = adjusted_p_values(np.array(changes), has_test)
    return {
        key: replace(found[key], p_value=p_value, p_holm=p_holm)
        for key, (p_value, p_holm) in zip(found, p_values, strict=True)
    }


def tally(database: duckdb.DuckDBPyConnection) -> None:
    """Adds the answers in the table `compared` to those of earlier parts."""
    database.execute(
        "CREATE TABLE IF NOT EXISTS tally_attributes (attribute VARCHAR, a TINYINT, b TINYINT, num BIGINT)"
    )
    for key in KEYS:
        answer = f"CASE WHEN NOT {{0}}_is_quarantined THEN coalesce({{0}}_{key}, {OPEN}) END"
        database.execute(
            f"INSERT INTO tally_attributes SELECT '{key}', {answer.format('a')} AS a, {answer.format('b')} AS b, "
            "count(*) FROM compared GROUP BY ALL"
        )


def _cells(database: duckdb.DuckDBPyConnection, key: str) -> Cells:
    question = "SELECT a, b, sum(num)::BIGINT FROM tally_attributes WHERE attribute = ? GROUP BY ALL"
    return {(one, other): num for one, other, num in database.execute(question, [key]).fetchall()}


def _change(level: int, cells: Cells, is_declared_a: bool, is_declared_b: bool) -> AttributeChange:
    """Without p-values."""

    def num(of_a: Collection[int | None], of_b: Collection[int | None]) -> int:
        return sum(cells.get((one, other), 0) for one in of_a for other in of_b)

    anything = (*ANSWERED, OPEN, None)
    in_a = [num([answer], anything) for answer in (*ANSWERED, OPEN)]
    in_b = [num(anything, [answer]) for answer in (*ANSWERED, OPEN)]
    one_sided = tuple(
        name
        for name, counts, is_declared in (("a", in_a, is_declared_a), ("b", in_b, is_declared_b))
        if (is_declared and sum(counts[:OPEN]) > 0)
        or seldom_denies(counts[DOUBT] + counts[PRESENT], counts[ABSENT], counts[OPEN])
    )
    not_present = (ABSENT, DOUBT)
    both, vanished, appeared = num([PRESENT], [PRESENT]), num([PRESENT], not_present), num(not_present, [PRESENT])
    return AttributeChange(
        level=level,
        num_assessed=num(ANSWERED, ANSWERED),
        num_only_a=num(ANSWERED, [OPEN, None]),
        num_only_b=num([OPEN, None], ANSWERED),
        num_present_a=both + vanished,
        num_present_b=both + appeared,
        num_appeared=appeared,
        num_vanished=vanished,
        num_doubt_changed=num([ABSENT], [DOUBT]) + num([DOUBT], [ABSENT]),
        num_present_a_open_b=num([PRESENT], [OPEN]),
        num_present_b_open_a=num([OPEN], [PRESENT]),
        seldom_denied_in=one_sided,
        kappa=None if one_sided else kappa_of(both, vanished, appeared, num(not_present, not_present)),
        p_value=None,
        p_holm=None,
    )
