"""Values in the files of an audit that no audit writes: one line each, not a traceback or a wrong rate."""

import json
import math
from pathlib import Path

import pyarrow as pa
import pytest

from ingest.errors import RunError
from ingest.storage.parquet_tables import read_table, write_table
from ingest.storage.place import place
from scoring.runs import AUDIT
from scoring.runs.audit_files import (
    CORRECTED_SCHEMA,
    NUM_CELLS,
    SAMPLE,
    SAMPLE_FOOTER_KEY,
    LabelGaps,
    State,
    read_sample,
    read_stored,
    write_corrected_rates,
)
from tests.audits import write_drawn
from tests.records import run_record


@pytest.fixture
def run(tmp_path: Path) -> str:
    (tmp_path / "run.json").write_text(run_record({"name": "x", "protocol": "x", "assessed": []}).model_dump_json())
    return str(tmp_path)


def write_sample_with(run: str, **columns: list[float]) -> None:
    drawn = {"shard": ["a", "a"], "index": [0, 1], "inclusion_probability": [1e-12, 1.0]} | columns
    write_drawn(run, pa.table(drawn), num_rows=2)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        *(("inclusion_probability", value) for value in (0, -1, 1e-300, 1.5, math.nan, math.inf)),
        *(("cell_private", value) for value in (-1, NUM_CELLS, 99)),
        ("cell_age", -1),
        ("index", 0),  # as the first row
    ],
)
def test_a_sample_with_values_that_no_draw_has_is_damaged(run: str, column: str, value: float) -> None:
    write_sample_with(run, cell_private=[0, NUM_CELLS - 1])
    assert read_sample(place(run)).table.num_rows == 2
    write_sample_with(run, **{column: [0.5 if column == "inclusion_probability" else 0, value]})
    with pytest.raises(RunError, match=r"sample\.parquet is damaged"):
        read_sample(place(run))


@pytest.mark.parametrize(
    "wrong",
    [
        {"corrected_rate": 1.5},
        {"raw_rate": -0.1},
        {"specificity": math.nan},
        {"high": math.inf},
        {"low": 0.6, "high": 0.5},
        {"sensitivity_low": 0.6, "sensitivity_high": 0.5},
        {"subject": "<b>faces</b>"},
        {"method": "a guess"},
        {"num_labels": -1},
    ],
    ids=str,
)
def test_corrected_rates_that_no_audit_gives_are_damaged(run: str, wrong: dict[str, object]) -> None:
    right = {"subject": "age", "method": "difference", "num_labels": 0, "raw_rate": 0.0, "low": 0.2, "high": 1.0}
    right |= {"population": "scored images"}
    state = State(
        settings="x",
        num_rows=2,
        rows_sha256="0" * 64,
        private="level = 1",
        date="2026-11-22",
        gaps=LabelGaps(),
        category_sizes={},
    )
    for more in ({}, wrong):
        table = pa.Table.from_pylist([right, right | more], schema=CORRECTED_SCHEMA)
        write_corrected_rates(place(run), table, state)
        if not more:
            assert read_stored(place(run)) == (table, state)
    with pytest.raises(RunError, match=r"corrected_rates\.parquet is damaged"):
        read_stored(place(run))


def test_a_sample_from_before_guarded_images_counted_for_others_is_refused(run: str) -> None:
    write_sample_with(run)
    file = place(run).at(AUDIT, SAMPLE)
    table, footer = read_table(file, SAMPLE_FOOTER_KEY)
    before = {key: value for key, value in json.loads(footer).items() if key != "guard_mass"}
    write_table(file, table, {SAMPLE_FOOTER_KEY: json.dumps(before)})
    with pytest.raises(RunError, match=r"sample\.parquet is damaged; draw a new sample with audit sample --replace"):
        read_sample(place(run))
