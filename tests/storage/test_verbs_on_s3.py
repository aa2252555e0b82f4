"""The verbs with everything on S3 give what they give locally, also when the store stumbles now and then."""

import io
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ingest.formats.shard import files_below
from ingest.storage.place import place
from scoring.table import SCHEMA
from tests.jobs.made import privsieve
from tests.making import Capture, Folders, Patch
from tests.storage.conftest import BUCKET, NUM_SHARDS, PER_SHARD, Fault, Proxy, corpus, upload

POLICY = (
    "name: faces\nrules:\n  - {name: faces, when: biometrics > 0, then: drop, reason: shows a face}\ndefault: keep\n"
)


def rows(run: str) -> list[dict[str, object]]:
    scores = place(f"{run}/scores")
    tables = [pq.read_table(io.BytesIO(scores.at(n).read()), schema=SCHEMA) for n in scores.names() if "parquet" in n]
    return sorted(pa.concat_tables(tables).to_pylist(), key=lambda row: (row["shard"], row["index"]))


def files(url: str) -> dict[str, bytes]:
    root = place(url)
    return {name: root.at(name).read() for name in files_below(root)}


def shards_of(release: str) -> dict[str, bytes]:
    return {name: content for name, content in files(release).items() if name[0] == "0"}


@pytest.mark.slow
@pytest.mark.parametrize("format_name", [pytest.param("webdataset", marks=pytest.mark.ray), "tree", "parquet"])
def test_scan_report_sql_and_filter(store: Proxy, tmp_path: Path, capsys: Capture, format_name: str) -> None:
    local = corpus(tmp_path / "corpus", format_name)
    (tmp_path / "policy.yaml").write_text(POLICY)
    answers: dict[str, list[str]] = {}
    for where in (str(tmp_path), f"s3://{BUCKET}"):
        # Ray, if used, works on the store only; local files are tested elsewhere.
        executor = ("--executor", "inline") if where == str(tmp_path) else ()
        source = str(local) if where == str(tmp_path) else upload(local, f"{where}/corpus")
        run, out = f"{where}/run", f"{where}/release"
        assert privsieve("scan", source, "--run", run, "--engine", "canned", "--quiet", *executor) == 0
        answers[where] = [capsys.readouterr().out]
        assert privsieve("report", run, "--format", "csv") == 0
        assert privsieve("sql", run, "SELECT shard, index, s_lex FROM images ORDER BY ALL", "--format", "csv") == 0
        chosen = ("filter", run, "--policy", tmp_path / "policy.yaml", "--quiet", *executor)
        assert privsieve(*chosen, "--out", out) == 0
        answers[where].append(capsys.readouterr().out.replace(where, "PLACE"))
        assert privsieve(*chosen, "--out", f"{where}/next", "--previous", out) == 0
        answers[where].append(capsys.readouterr().out.replace(where, "PLACE"))
        assert files(f"{where}/next").items() >= shards_of(out).items() != {}
    first, second = answers.values()
    assert second == first
    assert "12 images in 2 of 2 shards: 12 scored, 0 quarantined" in first[0]
    assert len(rows(f"s3://{BUCKET}/run")) == NUM_SHARDS * PER_SHARD
    assert rows(f"s3://{BUCKET}/run") == rows(f"{tmp_path}/run")
    assert shards_of(f"s3://{BUCKET}/release") == shards_of(f"{tmp_path}/release") != {}
    assert "since the release before: 0 added, 0 removed, 0 changed" in first[2]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("fault", "trouble"),
    [
        (500, {"method": "PUT", "part": "/scores/"}),
        (503, {"method": "GET", "ranged": True}),
        (503, {"method": "HEAD"}),
        ("short", {"method": "GET", "ranged": True}),
        ("reset", {"method": "PUT", "part": "run.json"}),
    ],
)
def test_a_scan_outlives_a_store_that_stumbles(
    store: Proxy, tmp_path: Path, capsys: Capture, fault: Fault, trouble: dict[str, object]
) -> None:
    source = upload(corpus(tmp_path / "corpus", "webdataset"), f"s3://{BUCKET}/corpus")
    store.first(3, fault, **trouble)  # type: ignore[arg-type]
    run = f"s3://{BUCKET}/run"
    assert privsieve("scan", source, "--run", run, "--engine", "canned", "--quiet") == 0
    assert store.faults == 3
    assert "12 images in 2 of 2 shards" in capsys.readouterr().out
    assert [(r["shard"], r["index"]) for r in rows(run)] == [(f"{s:05d}.tar", n) for s in range(2) for n in range(6)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "trouble",
    [{"method": "PUT", "part": "run.json"}, {"method": "PUT", "part": "/scores/"}, {"method": "GET", "ranged": True}],
)
def test_a_store_that_is_gone_ends_the_scan_in_one_line(
    store: Proxy, tmp_path: Path, capsys: Capture, trouble: dict[str, object], monkeypatch: Patch
) -> None:
    monkeypatch.setenv("PRIVSIEVE_RETRY_S", "2")
    source = upload(corpus(tmp_path / "corpus", "webdataset"), f"s3://{BUCKET}/corpus")
    store.first(10**6, 500, **trouble)  # type: ignore[arg-type]
    args = ("scan", source, "--run", f"s3://{BUCKET}/run", "--engine", "canned", "--quiet")
    assert privsieve(*args) in (1, 2)
    output = capsys.readouterr().err
    assert len(output.splitlines()) == 1, output
    assert "the store answered 500" in output or "run the same" in output
    store.fault = lambda method, path, span: None
    assert privsieve(*args) == 0  # and goes on once the store is back
    assert len(rows(f"s3://{BUCKET}/run")) == 12


@pytest.fixture(scope="module")
def at_home(tmp_path_factory: Folders) -> Path:
    """A folder with a corpus, its finished run, and a policy."""
    folder = tmp_path_factory.mktemp("home")
    corpus(folder / "corpus", "webdataset")
    (folder / "policy.yaml").write_text(POLICY)
    args = ("scan", folder / "corpus", "--run", folder / "run", "--engine", "canned", "--quiet")
    assert privsieve(*args) == 0
    return folder


@pytest.mark.parametrize(
    "command",
    [
        lambda url: ("scan", url, "--run", "run"),
        lambda url: ("scan", "corpus", "--run", url),
        lambda url: ("filter", url, "--policy", "policy.yaml", "--out", "out"),
        lambda url: ("filter", "run", "--policy", "policy.yaml", "--out", url),
        lambda url: ("report", url),
        lambda url: ("sql", url, "SELECT 1"),
        lambda url: ("sql", url, "--shell-setup"),
    ],
    ids=["scan-source", "scan-run", "filter-run", "filter-out", "report", "sql", "shell-setup"],
)
def test_a_password_in_a_url_is_refused_and_not_repeated(
    command: Callable[[str], tuple[str, ...]], at_home: Path, capsys: Capture, monkeypatch: Patch
) -> None:
    monkeypatch.chdir(at_home)
    capsys.readouterr()
    assert privsieve(*command("s3://key:secret@bucket/a")) == 2
    output = capsys.readouterr()
    assert "secret" not in output.out + output.err
    assert len(output.err.splitlines()) == 1
    assert "give credentials by the environment" in output.err
