"""The row per image."""

import numpy as np

from ingest.errors import Fault
from scoring.assessment import Assessment, Box, EngineOptions, Unscored, View, worst
from scoring.engines import canned
from scoring.table import COLUMNS, SCHEMA, Facts, to_table
from scoring.taxonomy import KEYS
from tests.scoring.columns_page import PAGE, columns_document

NAN = float("nan")


def _values(**values: float) -> "np.ndarray[tuple[int], np.dtype[np.float32]]":
    return np.array([values.get(key, 0.0) for key in KEYS], dtype=np.float32)


def test_a_scored_row_holds_the_interval_and_how_much_was_assessed() -> None:
    assessment = Assessment(
        _values(gender=1, biometrics=0.5, nudity=NAN), ("a face, 20 px",), (Box("biometrics", "face", 0, 0, 1, 1, 0.9),)
    )
    row = to_table([Facts("s", 0, "k", "c", 9, "ff")], [assessment]).to_pylist()[0]
    assert (row["level"], row["s_lex"], row["c3"], row["num_assessed"]) == (3, 5, 1, 21)
    assert row["level_high"] == 1
    assert row["score_high"] > row["score"] > 0
    assert row["nudity"] is None
    assert row["status"] == "scored"
    assert row["boxes"][0]["kind"] == "face"


def test_a_quarantined_row_has_no_values_at_all() -> None:
    row = to_table([Facts("s", 0, "k", None, 0, "ff")], [Fault("empty", "no bytes")]).to_pylist()[0]
    assert (row["status"], row["reason"], row["error_message"]) == ("quarantined", "empty", "no bytes")
    assert all(row[name] is None for name in (*KEYS, "level", "s_lex", "score", "score_high", "num_assessed", "boxes"))


def test_the_schema_is_the_declared_columns() -> None:
    assert SCHEMA.names == [column.name for column in COLUMNS]
    assert len(set(SCHEMA.names)) == len(COLUMNS)


def test_over_several_views_the_worst_counts_and_not_assessed_is_not_zero() -> None:
    first = Assessment(_values(gender=0.5, age=NAN, location=NAN))
    second = Assessment(_values(gender=1, age=0, location=0.5), (), (Box("gender", "face", 0, 0, 1, 1, 1),))
    joined = worst([first, second])
    assert isinstance(joined, Assessment)
    by_key = dict(zip(KEYS, joined.values, strict=True))
    assert by_key["gender"] == 1
    assert np.isnan(by_key["age"])
    assert by_key["location"] == 0.5
    assert joined.boxes[0].view == 1
    assert worst([first, Unscored("engine_error", "x")]) == Unscored("engine_error", "x")


def test_the_canned_engine_gives_every_kind_of_value_and_always_the_same() -> None:
    views = [View(np.zeros((1, 1, 3), dtype=np.uint8), frozenset(), f"{i:064x}") for i in range(50)]
    engine = canned.load(EngineOptions())
    once, again = (
        np.array([o.values for o in engine.assess(views) if isinstance(o, Assessment)]) for _ in ("once", "again")
    )
    np.testing.assert_array_equal(once, again)
    assert {0.0, 0.5, 1.0} <= set(once[~np.isnan(once)].tolist())
    assert np.isnan(once).any()


def test_the_columns_page_is_up_to_date() -> None:
    assert PAGE.read_text() == columns_document()
