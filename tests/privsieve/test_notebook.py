"""The example notebook runs, and what notebooks show of results is a page."""

import ast
import json
from html import unescape
from pathlib import Path
from typing import Any

import pytest

import privsieve
from tests.jobs.made import jpeg, tar
from tests.jobs.releases import labels_of
from tests.making import Capture, Folders, Patch
from tests.reviewing.made import Person

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebook.ipynb"


def run_cell(source: str, names: dict[str, Any]) -> Any:
    """The value of the last expression, as a notebook shows it; None if there is none."""
    tree = ast.parse(source)
    final = tree.body[-1]
    last = final if isinstance(final, ast.Expr) else None
    if last is not None:
        tree.body.pop()
    exec(compile(tree, "cell", "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last.value), "cell", "eval"), names)


@pytest.mark.slow
def test_every_cell_of_the_example_notebook_runs(tmp_path: Path, monkeypatch: Patch, capfd: Capture) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    sources = ["".join(cell["source"]) for cell in cells]
    assert '"corpus" / "shards"' in sources[0]
    sources[0] = sources[0].replace('"shards"', '"shards" / "00000.tar"')  # the detectors take 0.5 s a picture
    shown = [run_cell(source, names) for source in sources]
    assert [type(one).__name__ for one in shown] == [
        *("ScanResult", "Report", "Explanation", "Evaluation", "Audit", "dict")
    ]
    assert shown[0].num_images == 16
    assert sum(shown[-1].values()) == 16
    assert all("_repr_html_" in dir(one) for one in shown[1:5])
    assert (tmp_path / "notebook-out" / "release" / "release.json").exists()
    assert capfd.readouterr().out == ""


@pytest.fixture(scope="module")
def run(tmp_path_factory: Folders) -> Path:
    folder = tmp_path_factory.mktemp("notebook")
    (folder / "crawl").mkdir()
    tar(folder / "crawl" / "0.tar", {f"{n:02d}.jpg": jpeg(n) for n in range(12)})
    privsieve.scan(folder / "crawl", folder / "run", engine="canned", executor="inline")
    return folder / "run"


def html_of(result: object) -> str:
    shown: str = result._repr_html_()  # type: ignore[attr-defined]
    return shown


@pytest.mark.slow
def test_results_are_shown_as_pages_that_reach_nothing(run: Path, tmp_path: Path) -> None:
    labels = labels_of(tmp_path, [f"{n:02d}" for n in range(6)])
    other = tmp_path / "other"
    privsieve.scan(run.parent / "crawl", other, engine="canned", executor="inline")
    results = {
        "Privacy report": privsieve.report(run),
        "Evaluation": privsieve.evaluate(run, labels),
        "Two runs compared": privsieve.diff(run, other),
    }
    for title, result in results.items():
        shown = html_of(result)
        assert shown.startswith('<iframe sandbox="allow-scripts allow-downloads" srcdoc="')
        assert f"<h1>{title}" in unescape(shown)
        assert "default-src 'none'" in unescape(shown)
    explained = html_of(privsieve.explain(run, "03", policies=["strict"]))
    assert "<th>image</th><td>03</td>" in explained
    assert "<th>policy strict</th>" in explained


def test_labels_and_audits_from_python(run: Path, tmp_path: Path, capfd: Capture) -> None:
    drawn = privsieve.audit_sample(run, tmp_path / "list.csv", n=12)
    labels = labels_of(tmp_path, [f"{n:02d}" for n in range(12)])
    audit = privsieve.audit_apply(run, labels)
    assert drawn.num_pictures == audit.labels.num_labelled
    assert "<table>" in html_of(audit)
    agreed = privsieve.agreement(labels, run)
    assert len(agreed.rows) > 0
    privsieve.consensus(labels, run, out=tmp_path / "consensus.parquet")
    privsieve.export_labels(labels, tmp_path / "labels.csv", format="csv")
    imported = privsieve.import_labels("csv", tmp_path / "labels.csv", tmp_path / "again.parquet")
    assert imported.num_rows == 12
    with pytest.raises(privsieve.StorageError, match="already exists"):
        privsieve.import_labels("csv", tmp_path / "labels.csv", tmp_path / "again.parquet")
    assert capfd.readouterr() == ("", "")


def test_a_review_lasts_as_long_as_its_block(run: Path) -> None:
    with privsieve.review(run, queue="index < 3", reviewer="ana") as page:
        ana = Person(page.address)
        assert ana.say_all("public") == 3
        assert page.result().num_saved == 3
    with pytest.raises(OSError, match="refused"):
        ana.next()


def test_tab_completion_offers_what_is_for_users() -> None:
    assert dir(privsieve) == sorted(privsieve.__all__)
    assert {"audit_apply", "diff", "explain", "review"} <= set(privsieve.__all__)
