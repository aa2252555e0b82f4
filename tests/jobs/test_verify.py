"""`verify`: a release that is whole is said to be, and every change of it is named."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.formats.released import REMOVED, TAKEN_DOWN
from tests.jobs.made import privsieve
from tests.jobs.releases import asked
from tests.making import Capture


def renamed(table: pa.Table) -> pa.Table:
    return table.set_column(1, "key", pa.array(["another", *table["key"].to_pylist()[1:]], pa.string()))


BOTH, OTHERS = (
    (REMOVED, TAKEN_DOWN),
    f"{TAKEN_DOWN}: its pictures are not those of the takedowns in release.json and of",
)


@pytest.mark.parametrize(
    ("change", "names", "fault"),
    [
        (lambda table: table.slice(1), BOTH, OTHERS),
        (renamed, BOTH, OTHERS),
        (lambda table: table.take([1, 0]), (REMOVED,), f"removed.parquet: its rows are not those of {TAKEN_DOWN}"),
    ],
)
def test_tombstones_that_do_not_fit_the_takedowns_are_named(
    tars: Path, capsys: Capture, change: Callable[[pa.Table], pa.Table], names: tuple[str, ...], fault: str
) -> None:
    assert privsieve("release", "takedown", tars, asked(tars, "b", "c")) == 0
    summary = json.loads((tars / "release.json").read_text())
    for name in names:  # with the right hashes, so that only their content shows the change
        pq.write_table(change(pq.read_table(tars / name)), tars / name)
        summary["own_sha256"][name] = hashlib.sha256((tars / name).read_bytes()).hexdigest()
    (tars / "release.json").write_text(json.dumps(summary))
    capsys.readouterr()
    assert privsieve("release", "verify", tars) == 1
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith(fault)
