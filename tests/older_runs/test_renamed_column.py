"""A column of the row with a new name: one line in scoring/table.py, and older runs are read under that name."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.auditing.made import write
from tests.jobs.made import privsieve, shard
from tests.older_runs.changed_tree import ChangedTree, changed_tree

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChangedTree]:
    """privsieve with the name chance_private for prob_private."""

    def change(folder: Path) -> None:
        row = folder / "scoring" / "table.py"
        text = row.read_text(encoding="utf-8")
        for old, new in (
            ('PROB_PRIVATE: Final = "prob_private"', 'PROB_PRIVATE: Final = "chance_private"'),
            ('the binary protocol, null if the engine gives none")', 'the protocol", formerly="prob_private")'),
        ):
            assert old in text
            text = text.replace(old, new)
        row.write_text(text, encoding="utf-8")

    with changed_tree(tmp_path_factory.mktemp("tree"), change) as changed:
        yield changed


def _asked(tree: ChangedTree, run: Path) -> Any:
    return tree.json(
        "sql", run, "SELECT count(*) AS n, count(chance_private) AS p, max(chance_private) AS most FROM images"
    )


def test_an_older_run_is_read_continued_and_compacted_under_the_new_name(tree: ChangedTree, tmp_path: Path) -> None:
    corpus, run = tmp_path / "corpus", tmp_path / "run"
    corpus.mkdir()
    shard(corpus / "0.tar", 1, 6)
    assert privsieve("scan", corpus, "--run", run, "--engine", "canned") == 0
    for file in (run / "scores").iterdir():
        rows = pq.read_table(file)
        chances = pa.array([0.25] * rows.num_rows, pa.float32())
        pq.write_table(rows.set_column(rows.column_names.index("prob_private"), "prob_private", chances), file)
    assert privsieve("audit", "sample", run, "--n", 6, "--out", tmp_path / "list.csv") == 0
    answers = [row | {"private": "1"} for row in csv.DictReader((tmp_path / "list.csv").open())]
    labels = write(tmp_path / "labels.csv", answers)
    audit = tree.json("audit", "apply", run, labels)
    assert next((one["subject"], one["num_labels"]) for one in audit["subjects"]) == ("private", 6)

    assert _asked(tree, run) == [{"n": 6, "p": 6, "most": 0.25}]
    assert "0.250 that it is private" in tree.run("explain", run, "000000001")
    shard(corpus / "1.tar", 8, 6)
    tree.run("scan", corpus, "--run", run, "--engine", "canned", "--executor", "inline", "--quiet")
    assert _asked(tree, run) == [{"n": 12, "p": 6, "most": 0.25}]
    assert "12 rows of 2 shards" in tree.run("compact", run)
    assert _asked(tree, run) == [{"n": 12, "p": 6, "most": 0.25}]
    names = {name for file in (run / "compact").glob("*.parquet") for name in pq.read_schema(file).names}
    assert ("chance_private" in names, "prob_private" in names) == (True, False)
