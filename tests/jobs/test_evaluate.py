"""`privsieve evaluate` as a user calls it."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from ingest.storage.place import place
from jobs.commands.evaluate import evaluate
from jobs.labelling.labels import ConsensusRequest, run_consensus
from jobs.reporting.evaluating import EvaluateRequest, run_evaluate
from scoring.labels.reviews import ReviewAnswers
from scoring.labels.table import LabelsOrigin, write_labels
from tests.jobs.in_process import scan_in_process
from tests.reports.evaluation.conftest import BINARY, REJECTED, MakeRun, answered, by_hash, hash_of, make_run

__all__ = ["make_run"]  # the fixture

DEMO = Path(__file__).parents[2] / "jobs" / "demo"
HOSTILE = "<script>alert(1)</script>\x1b[31m=cmd"


def ran(*arguments: object) -> Result:
    result = CliRunner().invoke(evaluate, [str(a) for a in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def labels_file(folder: Path, labels: pa.Table) -> Path:
    write_labels(labels, str(folder / "labels.parquet"), LabelsOrigin("hand"))
    return folder / "labels.parquet"


@pytest.fixture
def run(make_run: MakeRun) -> Path:
    return make_run(
        [("a", answered(True, 0.9)), ("b", REJECTED), ("c", answered(False, 0.2)), ("d", answered(True, 0.6))], BINARY
    )


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    return labels_file(tmp_path, by_hash("abcx", private=[1, 1, 0, 0], **{"class": [HOSTILE, "b", None, None]}))


def test_names_of_labels_cannot_write_to_the_terminal_or_into_the_page(run: Path, labels: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    text = ran(run, "--labels", labels, "--groups", labels, "--html", page).stdout
    assert "\x1b" not in text
    assert f"page written to {page}" in text
    html = page.read_text(encoding="utf-8")
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert len(html) < 100_000


@pytest.mark.slow
def test_the_labels_of_the_demo_corpus_are_of_its_pictures(tmp_path: Path) -> None:
    for part, num_pictures in (("shards", 27), ("tree", 11)):
        scan_in_process(DEMO / "corpus" / part, tmp_path / part)
        request = EvaluateRequest(str(tmp_path / part), str(DEMO / "labels.csv"))
        result = run_evaluate(request)
        assert result.join.num_joined_rows == num_pictures
        assert result.join.num_rows_without_label == 4  # the broken files
        assert len(result.attributes) == 22


def test_reviews_of_chosen_pictures_are_no_figures_of_the_run(run: Path, tmp_path: Path) -> None:
    """Recall is 1 only because the pictures were chosen by what the run found."""
    reviews = ReviewAnswers(place(str(run / "reviews")))

    def say(content: str, queue: str, **more: object) -> None:
        reviews.add(
            {"sha256": hash_of(content), "annotator": "ana", "private": 1, "answer": "private", "queue": queue}
            | {"is_gold": False}
            | more
        )

    say("a", "audit")
    assert "drawn at random" not in ran(run, "--labels", run / "reviews").stdout
    say("d", "sql")
    say("c", "borderline", private=None, answer="unclear")
    caution = (
        "1 of the 2 pictures that people judged was chosen (1 by a SQL condition), not drawn at random: recall, "
        "precision and all other figures are of the judged pictures, not of the run."
    )
    assert caution in ran(run, "--labels", run / "reviews", "--html", tmp_path / "page.html").stdout
    assert caution in (tmp_path / "page.html").read_text(encoding="utf-8")
    stored = json.loads(ran(run, "--labels", run / "reviews", "--format", "json").stdout)
    assert stored["private"]["recall"] == 1.0
    assert stored["cautions"][-1].startswith(caution)
    for content in "ad":
        say(content, "audit" if content == "a" else "sql", annotator="ben")
    run_consensus(ConsensusRequest((str(run / "reviews"),), str(tmp_path / "agreed.parquet")))
    assert f"Of the labels: {caution}" in ran(run, "--labels", tmp_path / "agreed.parquet").stdout
