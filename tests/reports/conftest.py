"""A small run, made by hand: every figure that the tests expect can be counted here."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingest.errors import Fault
from reports.run.warehouse import Run, open_warehouse
from scoring.assessment import Assessment, EngineOptions, not_assessed
from scoring.engines import canned
from scoring.table import Facts, Verdict, to_table
from scoring.taxonomy import KEYS
from tests.making import Folders
from tests.records import run_record, write_result

HOSTILE = ("<script>alert(1)</script>", "[bold]x[/bold]", "a\nb\x1b[31m", '=cmd"', "{{ 7 * 7 }}", "</script>&lt;b>")

Row = tuple[str | None, Verdict]
MakeRun = Callable[..., Path]


def answer(**values: float | None) -> Assessment:
    """Every attribute absent, but for those named; None = not assessed."""
    vector = np.zeros(len(KEYS), dtype=np.float32)
    for key, value in values.items():
        vector[KEYS.index(key)] = np.nan if value is None else value
    return Assessment(vector)


def nothing() -> Assessment:
    return Assessment(not_assessed())


ROWS: tuple[Row, ...] = (
    ("beach", answer(biometrics=1, age=1)),
    ("beach", answer(biometrics=1, nudity=0.5)),
    ("beach", answer(age=1, beliefs=None)),
    ("beach", Fault("truncated", "the file ends early")),
    ("office", answer(full_legal_name=1, documents=1, beliefs=None)),
    ("office", answer(documents=1)),
    (None, answer()),
    ("attic", Fault("not_an_image", "not a known image format")),
)


def write_run(
    folder: Path,
    rows: Sequence[Row] = ROWS,
    assessed: Sequence[str] = KEYS,
    only_affirmed: Sequence[str] = ("beliefs", "location"),
    **other: object,
) -> Path:
    (folder / "scores").mkdir(parents=True)
    engine = asdict(canned.describe(EngineOptions())) | {
        "assessed": list(assessed),
        "only_affirmed": list(only_affirmed),
    }
    (folder / "run.json").write_text(run_record(engine | other).model_dump_json())
    half = (len(rows) + 1) // 2
    for part, some in enumerate((rows[:half], rows[half:])):
        facts = [
            Facts(f"{part}.tar", i, f"secret-key-{i}", category, 9, f"{part}{i:063x}")
            for i, (category, _) in enumerate(some)
        ]
        if some:
            write_result(folder, f"{part}.tar", 0, True, to_table(facts, [verdict for _, verdict in some]))
    return folder


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    def make(rows: Sequence[Row] = ROWS, name: str = "run", **more: Any) -> Path:
        return write_run(tmp_path / name, rows, **more)

    return make


@pytest.fixture(scope="module")
def common_run(tmp_path_factory: Folders) -> Iterator[Run]:
    """`ROWS`, opened once for all tests of a file that only ask."""
    run = open_warehouse(str(write_run(tmp_path_factory.mktemp("common") / "run")))
    yield run
    run.connection.close()


def contents(folder: Path) -> dict[str, str]:
    """Every file below a folder, and what it holds."""
    return {str(p): hashlib.sha256(p.read_bytes()).hexdigest() for p in sorted(folder.rglob("*")) if p.is_file()}
