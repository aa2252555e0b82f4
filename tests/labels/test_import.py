"""`privsieve labels import`: what the rows say, which picture they name, and what is refused."""

from pathlib import Path

import pyarrow as pa
import pytest

from scoring.labels.importing import SHIPPED, load_mapping
from scoring.labels.table import read_labels
from tests.jobs.in_process import scan_in_process
from tests.jobs.made import privsieve, rows
from tests.labels import made


def _imported(tmp_path: Path, name: str, root: Path, *options: str) -> dict[str, dict[str, object]]:
    """The rows by key, or by sha256 if they have none."""
    out = tmp_path / "labels.parquet"
    out.unlink(missing_ok=True)
    assert privsieve("labels", "import", name, root, "--out", out, "--quiet", *options) == 0
    return {str(row["key"] or row["sha256"]): row for row in read_labels(str(out)).to_pylist()}


def test_a_scan_of_the_same_folder_joins_by_key_and_by_sha256(tmp_path: Path) -> None:
    roots = {
        "privbench": made.privbench(tmp_path / "PrivBench", ["passport_1.jpg", "public_\udce9_2.jpg"]),
        "vispr": made.vispr(tmp_path / "vispr"),
    }
    for name, root in roots.items():
        scan_in_process(root, tmp_path / f"{name}-run")
        scanned = rows(tmp_path / f"{name}-run")
        found = _imported(tmp_path, name, root)
        assert len(scanned) == len(found)
        assert {row["key"] for row in scanned} == {row["key"] for row in found.values()}
        assert {row["sha256"] for row in scanned} == {row["sha256"] for row in found.values()}


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_mapping_is_complete(name: str) -> None:
    mapping = load_mapping(name)
    assert mapping.name == name
    assert mapping.licence == "Apache-2.0"
    assert len(mapping.entries) == {"vispr": 67, "privbench": 8}[name]
    assert "emotion_mental_health" not in load_mapping("vispr").keys
    assert len(load_mapping("vispr").keys) == 21


def test_rows_reconcile_with_what_the_data_set_lists(tmp_path: Path) -> None:
    lines = "".join(f"{n},{'private' if n % 2 else 'public'}\n" for n in range(50))
    root = made.privacyalert(tmp_path / "pa", lines, [f"{n}_a_b.jpg" for n in range(30)])
    assert len(_imported(tmp_path, "privacyalert", root)) == 50
    table: pa.Table = read_labels(str(tmp_path / "labels.parquet"))
    assert table["sha256"].null_count == 20
    assert sum(table["private"].to_pylist()) == 25
