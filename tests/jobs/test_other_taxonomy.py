"""Scans with a taxonomy of one's own: the processes that a command starts need no file of it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ingest import __version__
from jobs.runtime.on_worker import code_hash, other_program
from scoring.taxonomy import TAXONOMY_VARIABLE
from tests.faults.drill import make_shards
from tests.records import SHOP_KEYS, fitted_taxonomy

ROOT = Path(__file__).parents[2]

WITHOUT_THE_FILE = """
import os, sys
from functools import partial
from itertools import chain

from ingest.formats import open_source
from ingest.storage.place import place
from jobs.runtime.processes import FurtherProcess, Work, no_progress
from jobs.scanning.inline import scanning
from jobs.scanning.isolation import isolated_rows
from jobs.scanning.slice_tasks import ScanSettings, slices_left
from scoring.assessment import EngineOptions
from scoring.runs.ledger import Ledger
from scoring.runs.results import results
from tests.records import scanned_record

os.remove("fitted.yaml")
source, run = open_source("corpus", None, None), place("run")
settings = ScanSettings(source, run, scanned_record(), EngineOptions(), code="code")
tasks = list(chain.from_iterable(slices_left(settings, shard, None, Ledger({}, {})) for shard in source.shards))
print(*next(isolated_rows(settings, tasks[0].slice)).column_names)
work = Work(iter(tasks))
process = FurtherProcess(partial(scanning, settings), work, no_progress, 0)
process.start()
print(*[(counts.num_rows, counts.failure) for counts in iter(work.ended.get, None)])
process.stop()
"""


@pytest.mark.slow
def test_further_processes_and_isolated_pictures_need_no_file_of_the_taxonomy(tmp_path: Path) -> None:
    fitted_taxonomy(tmp_path / "fitted.yaml")
    make_shards(tmp_path / "corpus", 2, 3)
    environment = os.environ | {TAXONOMY_VARIABLE: "fitted.yaml", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", WITHOUT_THE_FILE]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=1500)
    assert done.returncode == 0, done.stderr
    columns, counts = done.stdout.splitlines()
    assert set(SHOP_KEYS) < set(columns.split())
    assert counts == "(3, '') (3, '')"


def test_a_machine_with_another_taxonomy_is_named() -> None:
    assert other_program((__version__, code_hash(), "shop-1-0a1b2c3d")) == (
        "it uses the taxonomy cprt-1, and the command shop-1-0a1b2c3d: unset PRIVSIEVE_TAXONOMY on the machine, which "
        "gets the taxonomy of the command"
    )
