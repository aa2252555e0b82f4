"""privsieve from Python: what its functions return, raise and print (nothing)."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import privsieve
from tests.jobs.made import shard

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


def test_a_scan_returns_its_counts_and_prints_nothing(
    corpus: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    found = privsieve.scan(corpus, tmp_path / "run", engine="canned", executor="inline")
    assert (found.num_images, found.num_scored, found.num_quarantined) == (35, 30, 5)
    assert found.reasons == {"not_an_image": 5}
    assert (found.num_shards, found.num_finished_shards) == (2, 2)
    assert capfd.readouterr() == ("", "")


def test_a_run_answers_with_rows_rates_and_sql(run: Path) -> None:
    with privsieve.open_run(run) as opened:
        rows = opened.rows(["key", "category", "status"])
        assert (rows.num_rows, rows.column_names) == (35, ["key", "category", "status"])
        rates = {rate.group: rate for rate in opened.rates(by="category")}
        assert {group: rate.num_scored for group, rate in rates.items()} == {"office": 15, "street": 15}
        assert {group: rate.num_quarantined for group, rate in rates.items()} == {"office": 3, "street": 2}
        (one,) = opened.sql("SELECT count(*) AS n FROM scored").to_pylist()
        assert one == {"n": 30}
        assert opened.connection.execute("SELECT count(*) FROM quarantined").fetchone() == (5,)


def test_a_report_and_its_page(run: Path, tmp_path: Path) -> None:
    found = privsieve.report(run, html=tmp_path / "report.html", private="level = 1")
    assert (found.num_images, found.total.num_scored) == (35, 30)
    assert (tmp_path / "report.html").read_text().startswith("<!DOCTYPE html>")


def test_a_release_and_its_counts(run: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    found = privsieve.filter(run, "strict", tmp_path / "release")
    assert found.counts.num_images == 35
    assert sum(found.counts.actions().values()) == 35
    assert (tmp_path / "release" / "release.json").exists()
    assert capfd.readouterr() == ("", "")


def test_a_plan(corpus: Path) -> None:
    found = privsieve.plan(corpus, engine="canned", sample=8, num_engines=2, price_per_hour=3.0)
    assert (found.num_shards, found.images.value, found.num_sampled) == (2, 35, 8)
    assert found.cost is not None


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda at: privsieve.open_run(at), privsieve.RunError, "is no run: it has no run.json"),
        (lambda at: privsieve.scan(at / "x", at / "run"), privsieve.SourceError, "x does not exist"),
        (
            lambda at: privsieve.scan(at, at / "run", engine="canned", sample=1, limit=1),
            privsieve.PrivsieveError,
            "exclude each other",
        ),
        (lambda at: privsieve.filter(at, "strikt", at / "out"), privsieve.PolicyError, 'did you mean "strict"?'),
        (lambda at: privsieve.plan(at / "x", engine="canned"), privsieve.SourceError, "does not exist"),
    ],
)
def test_errors_are_exceptions_of_the_tree(tmp_path: Path, call: object, error: type[Exception], message: str) -> None:
    assert callable(call)
    with pytest.raises(error) as raised:
        call(tmp_path)
    assert message in str(raised.value)


def test_a_query_that_is_not_allowed(run: Path) -> None:
    with privsieve.open_run(run) as opened, pytest.raises(privsieve.QueryError):
        opened.sql("COPY images TO 'x.parquet'")


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


def test_the_example_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = importlib.util.spec_from_file_location("audit", ROOT / "examples" / "audit.py")
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    found = example.audit(str(DEMO), tmp_path, num_images=3)
    assert found.counts.num_images == 3
    assert capsys.readouterr().out.startswith("3 images in ")
    assert (tmp_path / "report.html").exists()
