"""Runs and labels made by hand: every figure that the tests expect can be counted here."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from ingest.errors import Fault
from scoring.assessment import Assessment, not_assessed
from scoring.labels.table import to_labels
from scoring.table import Facts, Verdict, to_table
from scoring.taxonomy import KEYS
from tests.records import engine_record, run_record, write_result
from tests.reports.conftest import answer

MakeRun = Callable[..., Path]
Row = tuple[str, Verdict]


found = answer


def answered(is_private: bool, probability: float | None = None) -> Assessment:
    """The answer of the protocol binary."""
    return Assessment(not_assessed(), private=is_private, prob_private=probability)


def scored(score: float) -> Assessment:
    """The answer of the protocol severity."""
    return Assessment(not_assessed(), holistic_score=score)


REJECTED = Fault("rejection", "the answer is neither yes nor no")
BINARY: dict[str, Any] = engine_record(name="canned", protocol="binary:ours-1", assessed=[])
SEVERITY: dict[str, Any] = engine_record(name="canned", protocol="severity", assessed=[])
ATTRIBUTES: dict[str, Any] = engine_record(name="canned", protocol="slots", assessed=list(KEYS))


def hash_of(name: str) -> str:
    return name.encode().hex().ljust(64, "0")


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    def make(rows: Sequence[Row], engine: dict[str, Any] = ATTRIBUTES, name: str = "run", shard: str = "a") -> Path:
        """rows: (content, answer). The hash follows from the content, the key too, without what stands behind a "#"."""
        folder = tmp_path / name
        (folder / "scores").mkdir(parents=True)
        (folder / "run.json").write_text(run_record(engine).model_dump_json())
        facts = [
            Facts(shard, i, f"{content.partition('#')[0]}.jpg", "cat", 9, hash_of(content))
            for i, (content, _) in enumerate(rows)
        ]
        write_result(folder, shard, 0, True, to_table(facts, [verdict for _, verdict in rows]))
        return folder

    return make


def by_hash(contents: Sequence[str], **columns: Sequence[object]) -> pa.Table:
    """Labels of pictures by the hash of their content."""
    return _labels(len(contents), {"sha256": [hash_of(content) for content in contents], **columns})


def by_key(keys: Sequence[str], **columns: Sequence[object]) -> pa.Table:
    """Labels of pictures by their names."""
    return _labels(len(keys), {"key": keys, **columns})


def _labels(num_rows: int, columns: Mapping[str, Sequence[object]]) -> pa.Table:
    given: dict[str, list[object]] = {"annotator": ["me"] * num_rows}
    return to_labels(given | {name: list(column) for name, column in columns.items()}, num_rows)
