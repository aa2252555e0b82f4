"""The questions in reports/run/queries/ name only columns that the row declares, or that they define themselves."""

import re
from importlib import resources
from importlib.resources.abc import Traversable

import pytest

from scoring.table import IMAGE_SCHEMA

QUERIES = sorted(
    (file for file in resources.files("reports").joinpath("run", "queries").iterdir() if file.name.endswith(".sql")),
    key=lambda file: file.name,
)
OF_VIEWS = {
    *("attribute", "attribute_level", "value", "answers", "num_images"),  # reports.run.warehouse
    *("kind", "view", "confidence"),  # scoring.table.BOX_TYPE
}
"""Columns that views add to the row, and fields of boxes."""

WORDS = {"true", "false", "lambda"}
INSIDE = {"rates_by_shard.sql": "rates.sql"}
"""A part of a statement -> the statement, which defines more names."""


def unknown_names(text: str, around: str = "") -> set[str]:
    """Return names in SQL that are neither columns of the row and the views nor defined in the statement.

    around: the statement that the text is a part of.
    """
    text, around = (re.sub(r"--.*|'[^']*'|\{\w*\}", " ", sql) for sql in (text, around))
    defined = set[str]()
    for sql in (text, around):
        defined |= set(re.findall(r'\bAS\s+"?([a-z]\w*)"?', sql))  # a column or a table
        defined |= set(re.findall(r"\b([a-z]\w*)\s+AS\s*\(", sql))  # WITH
        defined |= set(re.findall(r"\b(?:FROM|JOIN|lambda)\s+([a-z]\w*)", sql))  # a view, and the variable of a lambda
    functions = set(re.findall(r"\b([a-z]\w*)\s*\(", text))
    return set(re.findall(r"\b[a-z]\w*\b", text)) - defined - functions - set(IMAGE_SCHEMA.names) - OF_VIEWS - WORDS


@pytest.mark.parametrize("file", QUERIES, ids=lambda file: str(file.name))
def test_a_question_names_only_columns_that_are_declared(file: Traversable) -> None:
    around = INSIDE.get(file.name)
    whole = next((query.read_text(encoding="utf-8") for query in QUERIES if query.name == around), "")
    assert unknown_names(file.read_text(encoding="utf-8"), whole) == set()


def test_a_column_that_no_row_has_is_noticed() -> None:
    statement = "SELECT shard, p_private AS share FROM scored WHERE sahrd = 'a' AND share > 0 -- no_column"
    assert unknown_names(statement) == {"p_private", "sahrd"}
