"""The threshold of a guarantee: a number of each row, and the lowest one that is dropped."""

from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa

from ingest.errors import QueryError
from scoring.policies.policy import LIMITS
from scoring.sql.expressions import columns_of, row_cursor, shown, value_expression, without_values
from scoring.sql.limits import StoppedError, Watch
from scoring.table import SCHEMA

NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL")
_OPTION = "guarantee by:"


@dataclass(frozen=True)
class ScoreThreshold:
    """A number; images that reach it are dropped."""

    by: str
    """The column or expression, as the user gave it."""

    lowest: float
    """The lowest number that is dropped; +inf if the policy alone keeps the promise."""

    @property
    def columns(self) -> frozenset[str]:
        """Return the columns of the row that the number follows from."""
        return columns_of(self.by, SCHEMA)

    @property
    def reason(self) -> str:
        """Return the reason for the decisions."""
        return f"{shown(self.by)} is {readable(self.lowest)} or more, which the guarantee drops"


def readable(number: float) -> str:
    """Return the fewest digits that mean the same number, in double precision, or in single, as the columns are stored.

    >>> readable(30.0), readable(0.8854830265045166)
    ('30', '0.885483')
    """
    single = np.float32(number)
    shortest = np.format_float_positional(single if float(single) == number else np.float64(number), trim="-")
    return str(shortest)


def scores_of(rows: pa.Table, by: str) -> pa.ChunkedArray:
    """Return the value of an expression over rows of `scoring.table.SCHEMA`, float64; null for NaN, too.

    QueryError if it is no expression over the row, gives no number, or fails.
    """
    sql = value_expression(by, SCHEMA)
    connection = row_cursor()
    connection.register("score_rows", rows)
    try:
        kind = str(connection.sql(f"SELECT {sql} FROM score_rows LIMIT 0").types[0])
        if not kind.startswith(NUMBERS):
            raise QueryError(
                f"{_OPTION} {shown(by)} gives {kind}; a column or expression that gives a number is wanted"
            )
        number = f"CAST({sql} AS DOUBLE)"
        statement = f"SELECT CASE WHEN isfinite({number}) THEN {number} END AS score FROM score_rows"
        table = Watch(connection, LIMITS).run(lambda: connection.sql(statement).to_arrow_table())
    except StoppedError as stop:
        raise QueryError(f"{_OPTION} {shown(by)} was stopped {stop}; write a simpler expression") from None
    except duckdb.Error as error:
        raise QueryError(f"{_OPTION} {shown(by)}: {without_values(error, '')}") from None
    return table["score"]
