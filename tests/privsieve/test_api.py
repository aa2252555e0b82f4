"""privsieve from Python: what its functions return, raise and print (nothing)."""

import importlib.util
import io
import os
import shutil
import subprocess
import sys
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import privsieve
from tests.jobs.made import shard
from tests.making import Capture, Patch

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "jobs" / "demo" / "corpus" / "shards"


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    shard(folder / "00000.tar", 0, 20)
    shard(folder / "00001.tar", 20, 15)
    return folder


@pytest.fixture
def run(corpus: Path, tmp_path: Path) -> Path:
    privsieve.scan(corpus, tmp_path / "run", engine="canned", category="category", executor="inline")
    return tmp_path / "run"


def test_a_scan_returns_its_counts_and_prints_nothing(corpus: Path, tmp_path: Path, capfd: Capture) -> None:
    found = privsieve.scan(corpus, tmp_path / "run", engine="canned", executor="inline")
    assert (found.num_images, found.num_scored, found.num_quarantined) == (35, 30, 5)
    assert found.reasons == {"not_an_image": 5}
    assert (found.num_shards, found.num_finished_shards) == (2, 2)
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_a_report_and_its_page(run: Path, tmp_path: Path) -> None:
    found = privsieve.report(run, html=tmp_path / "report.html", private="level = 1")
    assert (found.num_images, found.total.num_scored) == (35, 30)
    assert (tmp_path / "report.html").read_text().startswith("<!DOCTYPE html>")


@pytest.mark.slow
def test_an_evaluation_by_labels(run: Path, tmp_path: Path, capfd: Capture) -> None:
    with privsieve.open_run(run) as opened:
        rows = opened.rows(["sha256", "level"]).to_pylist()
    found = {row["sha256"]: int(row["level"] in (1, 2)) for row in rows}
    labels = tmp_path / "labels.csv"
    labels.write_text("sha256,private\n" + "".join(f"{sha256},{private}\n" for sha256, private in found.items()))
    result = privsieve.evaluate(run, labels)
    assert result.private is not None
    with privsieve.open_run(run) as opened:
        num_unanswered = sum(rate.num_quarantined + rate.num_unknown for rate in opened.rates())
    assert num_unanswered > sum(row["level"] is None for row in rows)
    assert (result.private.num_pictures, result.private.num_rejected) == (len(rows), num_unanswered)
    assert result.private.answered.accuracy == 1.0
    assert result.private.accuracy == (len(rows) - num_unanswered) / len(rows)
    assert capfd.readouterr().out == ""
    with pytest.raises(privsieve.PrivsieveError, match="n=0"):
        privsieve.audit_sample(run, tmp_path / "list.csv", n=0)
    with pytest.raises(privsieve.StorageError, match="cannot be read"):
        privsieve.evaluate(run, tmp_path / "missing.csv")


@pytest.mark.slow
def test_a_release_and_its_counts(run: Path, tmp_path: Path, capfd: Capture) -> None:
    found = privsieve.filter(run, "strict", tmp_path / "release")
    assert found.counts.num_images == 35
    assert sum(found.counts.actions().values()) == 35
    assert (tmp_path / "release" / "release.json").exists()
    assert capfd.readouterr() == ("", "")


def test_a_plan(corpus: Path, tmp_path: Path) -> None:
    found = privsieve.plan(corpus, tmp_path / "run", engine="canned", executor="inline", price_per_hour=3.0)
    assert (found.num_shards, found.num_images, found.num_done) == (2, 35, 35)
    assert found.cost is not None


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda at: privsieve.open_run(at), privsieve.RunError, "is not a run: it has no run.json"),
        (lambda at: privsieve.scan(at / "x", at / "run"), privsieve.SourceError, "x does not exist"),
        (
            lambda at: privsieve.scan(at, at / "run", engine="canned", sample=1, limit=1),
            privsieve.PrivsieveError,
            "exclude each other",
        ),
        (lambda at: privsieve.filter(at, "strikt", at / "out"), privsieve.PolicyError, 'did you mean "strict"?'),
        (lambda at: privsieve.plan(at / "x", at / "run", engine="canned"), privsieve.SourceError, "does not exist"),
    ],
)
def test_errors_are_exceptions_of_the_tree(tmp_path: Path, call: object, error: type[Exception], message: str) -> None:
    assert callable(call)
    with pytest.raises(error) as raised:
        call(tmp_path)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sample": 0}, "sample=0: input should be greater than or equal to 1"),
        ({"sample": "10"}, "sample='10': input should be a valid integer"),
        ({"limit": 2.5}, "limit=2.5: input should be a valid integer"),
        ({"sample": 1, "seed": -1}, "seed=-1: input should be greater than or equal to 0"),
        ({"max_frames": 0}, "max_frames=0: input should be greater than or equal to 1"),
        ({"stall_seconds": 0.01}, "stall_seconds=0.01: input should be greater than or equal to 1"),
        ({"stall_seconds": float("nan")}, "stall_seconds=nan: input should be a finite number"),
        ({"executor": "Inline"}, "executor='Inline': input should be 'ray' or 'inline'"),
        ({"category": 5}, "category=5: input should be an instance of str"),
        ({"options": {"model": "x"}}, "options={'model': 'x'}: input should be"),
        ({"run": 7}, "run=7: give a path or URL"),
        ({"run": "a\0b"}, "run='a\\x00b': give a path or URL"),
        ({"num_engines": 2}, "--num-engines 2: --executor inline has one engine in each of its --processes"),
    ],
)
def test_a_wrong_argument_of_scan_is_one_line_and_no_run(
    corpus: Path, tmp_path: Path, arguments: dict[str, Any], message: str
) -> None:
    given: dict[str, Any] = {"run": tmp_path / "run", "engine": "canned", "executor": "inline"} | arguments
    with pytest.raises(privsieve.PrivsieveError) as raised:
        privsieve.scan(corpus, **given)
    assert str(raised.value).startswith(message)
    assert len(str(raised.value).splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_a_closed_run_answers_nothing(run: Path) -> None:
    opened = privsieve.open_run(run)
    with opened, pytest.raises(privsieve.QueryError, match=r'columns are given as a list, such as \["key"\]'):
        opened.rows("key")
    with privsieve.open_run(run) as again:
        for wrong, name in (
            (lambda: again.rates(by=4), "by"),  # type: ignore[arg-type]
            (lambda: again.rates(private=4), "private"),  # type: ignore[arg-type]
            (lambda: again.sql(4), "statement"),  # type: ignore[arg-type]
        ):
            with pytest.raises(privsieve.QueryError, match=rf"^{name}=4: give a text$"):
                wrong()
    with pytest.raises(privsieve.PrivsieveError, match=r"^policies='strict': give a list$"):
        privsieve.explain(run, "k", policies="strict")
    for ask in (opened.rows, opened.rates, lambda: opened.sql("SELECT 1"), opened.summary):
        with pytest.raises(privsieve.QueryError, match="the run is closed; open it again"):
            ask()


@pytest.mark.slow
def test_two_threads_of_one_program_do_not_scan_one_run_at_once(
    corpus: Path, tmp_path: Path, monkeypatch: Patch
) -> None:
    (tmp_path / "drill.json").write_text('{"*": 0.1}')
    monkeypatch.setenv("PRIVSIEVE_DRILL", str(tmp_path / "drill.json"))
    scan = partial(privsieve.scan, corpus, tmp_path / "run", engine="canned", executor="inline")
    with ThreadPoolExecutor(1) as thread:
        first = thread.submit(scan)
        while not (tmp_path / "run" / "run.json").exists():
            time.sleep(0.01)
        with pytest.raises(privsieve.RunError, match=f"is being worked on by process {os.getpid()} on"):
            scan()
        assert first.result().num_images == 35


def test_the_home_folder_is_written_out_in_the_run(corpus: Path, tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setenv("HOME", str(corpus.parent))
    privsieve.scan("~/corpus", tmp_path / "run", engine="canned", executor="inline")
    with privsieve.open_run(tmp_path / "run") as opened:
        assert opened.record.source == str(corpus)


def test_what_libraries_say_of_damaged_images_is_not_printed(tmp_path: Path, capfd: Capture) -> None:
    (tmp_path / "corpus").mkdir()
    buffer = io.BytesIO()
    Image.effect_noise((200, 200), 80).save(buffer, "TIFF", compression="tiff_lzw")
    broken = bytearray(buffer.getvalue())
    broken[1000:1100] = bytes(100)
    (tmp_path / "corpus" / "a.tif").write_bytes(broken)
    privsieve.scan(tmp_path / "corpus", tmp_path / "run", engine="canned", executor="inline")
    assert capfd.readouterr() == ("", "")


@pytest.mark.slow
def test_an_incomplete_scan_has_its_counts(corpus: Path, tmp_path: Path) -> None:
    privsieve.scan(corpus, tmp_path / "run", engine="canned", executor="inline")
    shard(corpus / "00000.tar", 1, 20)
    min((tmp_path / "run" / "scores").iterdir()).unlink()
    shard(corpus / "00001.tar", 50, 15)
    with pytest.raises(privsieve.IncompleteScanError, match=r"00001.tar changed between two scans") as raised:
        privsieve.scan(corpus, tmp_path / "run", engine="canned", executor="inline")
    assert raised.value.result.num_images == 35


def test_a_hidden_room_is_an_import_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "scoring").mkdir()
    (tmp_path / "scoring" / "__init__.py").touch()
    code = "try:\n    import privsieve\nexcept ImportError as error:\n    print(error)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": f"{tmp_path}:{ROOT}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith(f"{tmp_path}/scoring hides privsieve's own package scoring; ")
    assert done.stderr == ""


@pytest.mark.slow
def test_the_example_runs(tmp_path: Path, capsys: Capture) -> None:
    spec = importlib.util.spec_from_file_location("audit", ROOT / "examples" / "audit.py")
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    for _ in range(2):  # the second time it finds the run and replaces the release
        found = example.audit(str(DEMO), tmp_path, num_images=3)
    assert found.counts.num_images == 3
    assert capsys.readouterr().out.startswith("3 images in ")
    assert (tmp_path / "report.html").exists()


def test_a_picture_is_taken_out_of_a_release_and_the_run_is_purged(run: Path, tmp_path: Path, capfd: Capture) -> None:
    release, copy, policy = tmp_path / "release", tmp_path / "copy", tmp_path / "policy.yaml"
    policy.write_text("name: all\nrules: []\ndefault: keep\nquarantined: drop\n")
    privsieve.filter(run, policy, release, executor="inline")
    copy.mkdir()
    for path in release.glob("*.tar"):
        shutil.copy(path, copy)
    (tmp_path / "list.txt").write_text("000000001\nunknown\n")
    taken = privsieve.takedown(release, tmp_path / "list.txt")
    assert (taken.num_pictures, taken.num_shards, taken.unknown) == (1, 1, (2,))
    assert privsieve.verify(release).faults == ()
    with tarfile.open(copy / "00000.tar") as archive:
        member = archive.extractfile("000000001.jpg")
        assert member is not None
        (tmp_path / "picture.jpg").write_bytes(member.read())
    assert [m.state for m in privsieve.lookup(release, tmp_path / "picture.jpg", exact=True).matches] == ["taken down"]
    assert privsieve.apply_removals(copy, release / "removed.parquet").num_pictures == 1
    assert privsieve.purge(run).deleted["scores"] == 2
    assert (run / "scores").exists()
    privsieve.purge(run, yes=True)
    assert not (run / "scores").exists()
    assert capfd.readouterr() == ("", "")
