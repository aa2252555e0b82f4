"""Runs to compare, of rows that a test writes down."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ingest.errors import Fault
from reports.diff.results import LEVEL_STATES, RunDifference
from scoring.table import Facts, Verdict, to_table
from tests.records import run_record, write_result
from tests.reports.evaluation.conftest import ATTRIBUTES, hash_of

PictureRow = tuple[str, str | None, str | None, Verdict]
"""Key, content (None: no hash), category, answer."""


def make(
    folder: Path, name: str, rows: Sequence[PictureRow], engine: dict[str, Any] = ATTRIBUTES, **settings: Any
) -> str:
    run = folder / name
    (run / "scores").mkdir(parents=True)
    (run / "run.json").write_text(run_record(engine).model_copy(update=settings).model_dump_json())
    for shard in ("one", "two"):
        chosen = [(n, row) for n, row in enumerate(rows) if (n % 2 == 0) == (shard == "one")]
        facts = [
            Facts(shard, n, key, category, 9, None if content is None else hash_of(content))
            for n, (key, content, category, _) in chosen
        ]
        write_result(run, shard, 0, True, to_table(facts, [verdict for _, (_, _, _, verdict) in chosen]))
    return str(run)


UNREADABLE = Fault("unreadable", "no bytes")


def rows_of(answers: Sequence[Verdict], category: str | None = "cat") -> list[PictureRow]:
    return [(f"k{n}", f"c{n}", category, answer) for n, answer in enumerate(answers)]


def level(result: RunDifference, of_a: str, of_b: str) -> int:
    return result.levels[LEVEL_STATES.index(of_a)][LEVEL_STATES.index(of_b)]
