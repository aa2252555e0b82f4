"""Detects conditions such as `level < 3`: meant for levels 1 and 2, they also match images that show nothing.

Level 1 is the most severe one, and 0 means that nothing was found, so "less than" takes both. A report asks this, too,
and need not load `policy.py`, whose covers need a decoder of pictures.
"""

import duckdb
import numpy as np
import pyarrow as pa

from scoring.assessment import Assessment
from scoring.table import UNKNOWN_LEVEL, Facts, to_table
from scoring.taxonomy import ATTRIBUTES, KEYS

ADVICE = "also matches images in which nothing was found, since their level is 0; write for example: level IN (1, 2)"


def matches_level_0_too(sql: str) -> bool:
    """Return whether a checked condition (`scoring.sql.expressions`) matches images of levels 0 and 1, but none of
    level 4.

    A condition that matches all of them, or only level 0, is taken as intended.
    """
    values = np.zeros((3, len(KEYS)), dtype=np.float32)
    for row, level in ((1, 1), (2, 4)):
        values[row, next(n for n, attribute in enumerate(ATTRIBUTES) if attribute.level == level)] = 1
    facts = [Facts("", n, "", None, None, None) for n in range(3)]
    images = to_table(facts, [Assessment(row) for row in values])
    images = images.append_column(UNKNOWN_LEVEL.name, pa.nulls(3, UNKNOWN_LEVEL.type))
    with duckdb.connect() as connection:
        connection.register("images", images)
        try:
            rows = connection.execute(f'SELECT coalesce({sql}, false) FROM images ORDER BY "index"').fetchall()
        except duckdb.Error:  # it fails on such a row; `Policy.decide` reports that if a run has one
            return False
    return [bool(matches) for (matches,) in rows] == [True, True, False]
