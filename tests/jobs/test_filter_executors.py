"""Where a filter runs: the release is the same, and a small one does not wait for Ray."""

import hashlib
import json
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.errors import IncompleteError, PrivsieveError, RunError
from ingest.formats.released import DECISIONS
from ingest.storage.place import place
from jobs.releases.copying import table_of
from jobs.releases.decisions import KeptHash, kept_of, row_chunks
from jobs.releases.files import DECISIONS_SCHEMA
from jobs.releases.filtering import FilterRequest, FilterResources, plan_filter, run_filter
from jobs.releases.finishing import joined
from jobs.releases.plan import Counts, Plan, Share
from jobs.runtime.progress import SILENT
from scoring.runs.results import results
from scoring.runs.rows import rows_at
from tests.jobs.in_process import scan_in_process
from tests.jobs.made import compact_run, made_run, privsieve
from tests.jobs.releases import NO_FACES, files, released, with_policy
from tests.making import Capture, Folders, Patch

ROOT = Path(__file__).parents[2]
FILTER = """
import sys
from jobs.cli import main
try:
    main(sys.argv[1:])
except SystemExit as done:
    assert done.code == 0, done.code
print("imported:", {"ray", "pandas", "cv2"} & set(sys.modules))
"""


@pytest.fixture(scope="module")
def run(corpus: Path, tmp_path_factory: Folders) -> Path:
    where = tmp_path_factory.mktemp("runs") / "run"
    scan_in_process(corpus, where)
    return where


@pytest.fixture
def policy(tmp_path: Path) -> Path:
    return with_policy(tmp_path, NO_FACES)


@pytest.mark.slow
def test_a_small_release_is_written_without_ray_pandas_and_opencv(
    run: Path, policy: Path, tmp_path: Path, monkeypatch: Patch
) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    command = [sys.executable, "-c", FILTER, "filter", run, "--policy", policy, "--out", tmp_path / "out"]
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.endswith("imported: set()\n")
    assert released(tmp_path / "out").keys() == {"00000.tar", "00001.tar"}


@pytest.mark.ray
def test_ray_and_this_process_write_the_same_bytes(run: Path, policy: Path, tmp_path: Path, capsys: Capture) -> None:
    shown = {}
    for executor in ("ray", "inline"):
        args = ("filter", run, "--policy", policy, "--out", tmp_path / executor, "--executor", executor)
        assert privsieve(*args, "--quiet") == 0
        shown[executor] = capsys.readouterr().out.replace(str(tmp_path / executor), "OUT")
    assert files(tmp_path / "ray") == files(tmp_path / "inline")
    assert shown["ray"] == shown["inline"]


@pytest.mark.parametrize("address", ["http://127.0.0.1:8265", "127.0.0.1:1"])
def test_a_cluster_that_cannot_be_joined_leaves_nothing_behind(
    run: Path, policy: Path, address: str, tmp_path: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", address)
    args = ("filter", run, "--policy", policy, "--out", tmp_path / "out")
    assert privsieve(*args) == 2
    assert f'Ray address "{address}" (the variable RAY_ADDRESS): ' in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    monkeypatch.delenv("RAY_ADDRESS")
    assert privsieve(*args) == 0


def test_only_a_named_cluster_takes_ray(monkeypatch: Patch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert not FilterResources().on_ray
    assert FilterResources(executor="ray").on_ray
    assert FilterResources(ray_address="head:6379").on_ray
    monkeypatch.setenv("RAY_ADDRESS", "head:6379")
    assert FilterResources().on_ray
    assert not FilterResources(executor="inline").on_ray
    assert not FilterResources(processes=2).on_ray
    with pytest.raises(PrivsieveError, match="--processes 2 works only with --executor inline: leave it out for Ray"):
        FilterResources(processes=2, executor="ray")


def test_a_caller_in_python_gets_the_counts_and_nothing_is_printed(
    run: Path, policy: Path, tmp_path: Path, capsys: Capture
) -> None:
    request = FilterRequest(str(run), str(policy), str(tmp_path / "out"))
    result = run_filter(request, FilterResources(executor="inline"), SILENT)
    assert capsys.readouterr() == ("", "")
    summary = json.loads((tmp_path / "out" / "release.json").read_text())
    assert (result.release.policy, result.counts.num_images) == ("no-faces", 35)
    assert result.counts.actions() == summary["actions"]
    assert result.counts.by_rule == {
        (action, rule): count for rule, actions in summary["rules"].items() for action, count in actions.items()
    }


@pytest.mark.parametrize("is_whole", [False, True])
def test_the_hash_of_what_is_kept_is_the_same_however_many_decisions_come_at_once(is_whole: bool) -> None:
    columns = {name: ["x"] * 6 for name in ("shard", "key", "rule", "reason")} | {
        "index": list(range(6)),
        "sha256": [f"{n:064x}" for n in range(6)],
        "action": ["keep", "drop", "flag", "keep", "drop", "keep"],
    }
    schema = pa.schema([field for field in DECISIONS_SCHEMA if field.name in columns])
    decisions = pa.table({name: columns[name] for name in schema.names}, schema)
    kept = kept_of(decisions, is_whole)
    whole = hashlib.sha256(json.dumps([sorted(kept.sha256.items()), kept.num_samples]).encode()).hexdigest()
    for at_once in (1, 2, 6):
        pieces = KeptHash("a.tar")
        for first in range(0, 6, at_once):
            pieces.update(decisions.slice(first, at_once))
        assert (pieces.hexdigest(is_whole), pieces.num_kept) == (whole, 4)
    with pytest.raises(RunError, match=r"a\.tar: the run has index 0 after index 5; scan the source into a new run"):
        pieces.update(decisions)


def test_decisions_that_are_damaged_or_do_not_add_up_release_nothing(tmp_path: Path) -> None:
    out, share = place(str(tmp_path / "out")), Share("a.tar", [], 2, 0, True, "")
    where = Path(table_of(out, share, DECISIONS).path)
    where.parent.mkdir(parents=True)
    texts = [["a.tar"] * 2, [0, 1], ["k"] * 2, [None] * 2, ["drop"] * 2, ["r"] * 2, ["w"] * 2, *[[None] * 2] * 6]
    pq.write_table(pa.table(texts, schema=DECISIONS_SCHEMA), where)
    for num_counted, num_rows in ((3, 2), (2, 3)):
        with pytest.raises(IncompleteError, match="rows; nothing is released"):
            joined(out, [replace(share, num_rows=num_rows)], DECISIONS, num_counted)
    where.write_bytes(where.read_bytes()[:-9])
    with pytest.raises(IncompleteError, match=r"the decisions for a\.tar are damaged or gone .*; nothing is released"):
        joined(out, [share], DECISIONS, 2)
    assert list(files(tmp_path / "out")) == [str(where.relative_to(tmp_path / "out"))]


def test_of_a_compacted_shard_only_some_rows_are_read_at_once(tmp_path: Path) -> None:
    run = made_run(tmp_path, ((3,), (20, 17)))
    where = place(str(run))
    before = rows_at(where, results(where).of("00001.tar"), ["index"])
    compact_run(run)
    ranges = results(where).of("00001.tar")
    assert [(one.first_row, one.num_rows) for one in ranges] == [(3, 37)]
    chunks = list(row_chunks(where, ranges, frozenset(["index"]), rows_at_once=16))
    assert [chunk.num_rows for chunk in chunks] == [13, 16, 8]
    assert pa.concat_tables(chunks).select(["index"]).equals(before)


def test_a_plan_holds_counts_and_no_rows(run: Path, policy: Path, tmp_path: Path) -> None:
    plan = plan_filter(FilterRequest(str(run), str(policy), str(tmp_path / "out"))).plan
    assert isinstance(plan, Plan)
    assert [(share.shard, share.num_rows) for share in plan.shares] == [("00000.tar", 20), ("00001.tar", 15)]
    assert plan.counts == Counts(Counter(dict(plan.counts.by_rule)))
    assert plan.counts.num_images == 35
    assert 0 < plan.num_kept < 30
    assert not (tmp_path / "out").exists()
