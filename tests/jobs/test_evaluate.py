"""`privsieve evaluate` as a user calls it."""

import json
import re
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from ingest.errors import LabelsError, PrivsieveError, RunError, StorageError
from ingest.sample import printable
from ingest.storage.place import place
from jobs.commands.evaluate import evaluate
from jobs.labelling.labels import ConsensusRequest, run_consensus
from jobs.reporting.evaluating import EvaluateRequest, run_evaluate
from scoring.labels.reviews import ReviewAnswers
from scoring.labels.table import LabelsOrigin, write_labels
from scoring.taxonomy import KEYS
from tests.jobs.in_process import scan_in_process
from tests.jobs.made import privsieve
from tests.making import Capture
from tests.reports.evaluation.conftest import BINARY, REJECTED, MakeRun, answered, by_hash, found, hash_of, make_run

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


def test_text_says_what_was_joined_and_counts_pictures_without_an_answer_both_ways(run: Path, labels: Path) -> None:
    text = ran(run, "--labels", labels).stdout
    assert "joined  3 of 4 rows have a label; 1 label belongs to no row" in text
    assert (
        "Private or public: 3 pictures, 2 labelled private, 1 public; 1 is without an answer (quarantined, or" in text
    )
    assert re.search(r"MCC +0\.500 .* 1\.000", text)
    assert re.search(r"label +answered private +answered public +no answer", text)
    assert re.search(r"private +1 +0 +1 *\n", text)


def test_what_is_not_defined_is_a_dash_and_null(run: Path, tmp_path: Path) -> None:
    labels = labels_file(tmp_path, by_hash("a", private=[1]))
    assert re.search(r"MCC +– +– +–", ran(run, "--labels", labels).stdout)
    stored = json.loads(ran(run, "--labels", labels, "--format", "json").stdout)
    assert stored["private"]["mcc"] is None
    assert stored["private"]["recall"] == 1.0
    assert "mcc" not in stored["private"]["intervals"]


def test_json_holds_every_figure(run: Path, labels: Path) -> None:
    stored = json.loads(ran(run, "--labels", labels, "--format", "json", "--by", "class").stdout)
    assert stored["private"]["num_rejected"] == 1
    assert stored["private"]["answered"]["mcc"] == 1.0
    assert stored["join"]["num_labels_without_row"] == 1
    assert stored["private"]["calibration"]["num_pictures"] == 2
    assert [group["group"] for group in stored["groups"]] == ["(none)", printable(HOSTILE), "b"]


def test_names_of_labels_cannot_write_to_the_terminal_or_into_the_page(run: Path, labels: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    text = ran(run, "--labels", labels, "--by", "class", "--html", page).stdout
    assert "\x1b" not in text
    assert f"page written to {page}" in text
    html = page.read_text(encoding="utf-8")
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    assert len(html) < 100_000


def test_the_page_needs_nothing_else_and_shows_confusion_and_reliability(make_run: MakeRun, tmp_path: Path) -> None:
    run, page = make_run([("a", found(biometrics=1)), ("b", found(age=1))]), tmp_path / "page.html"
    none = {key: [0.0, 0.0] for key in KEYS}
    labels = labels_file(tmp_path, by_hash("ab", **none | {"biometrics": [1.0, 0.0], "age": [0.0, 1.0]}))
    ran(run, "--labels", labels, "--html", page)
    html = page.read_text(encoding="utf-8")
    assert "default-src &#39;none&#39;" in html or "default-src 'none'" in html
    assert not re.search(r"(src|href)=\"(?!data:)", html)
    assert "true level (rows) against predicted level (columns)" in html
    assert "Reliability" not in html  # these answers have no probabilities


def test_a_page_that_cannot_be_written_is_one_line(run: Path, labels: Path) -> None:
    with pytest.raises(StorageError, match="give a path, not a URL"):
        ran(run, "--labels", labels, "--html", "s3://bucket/page.html")


@pytest.mark.slow
def test_two_runs_are_compared_and_spread(run: Path, labels: Path, make_run: MakeRun, tmp_path: Path) -> None:
    other = make_run([("a", answered(True)), ("b", answered(True)), ("c", answered(True))], BINARY, name="other")
    arguments = (run, "--labels", labels, "--compare", other, "--runs", other)
    text = ran(*arguments).stdout
    assert "only after is right in 1, only before in 1; McNemar's exact test p = 1" in " ".join(text.split())
    assert "Spread over 2 runs" in text
    stored = json.loads(ran(*arguments, "--format", "json").stdout)
    assert stored["comparison"]["private"]["recall"]["difference"] == -0.5
    # The sign is said wherever the figure stands.
    assert stored["comparison"]["difference_is"] == "after − before: the evaluated run minus the run of --compare"
    (recall,) = re.findall(r"recall +1\.000 +0\.500 +(\S+)", text)
    assert recall == "−0.500"
    assert re.search(r"metric +before +after +after − before +95 % interval", text)
    ran(*arguments, "--html", page := tmp_path / "page.html")
    assert '<th scope="col" class="num">after − before</th>' in page.read_text()
    assert stored["spread"]["private"]["recall"]["values"] == [0.5, 1.0]


def test_a_threshold_and_draws_are_options(run: Path, labels: Path) -> None:
    stored = json.loads(ran(run, "--labels", labels, "--threshold", 0.95, "--draws", 0, "--format", "json").stdout)
    assert stored["private"]["num_true_positive"] == 0
    assert set(stored["private"]["intervals"]) == {"recall", "specificity", "accuracy", "f1"}  # exact without draws


def test_only_a_split_of_the_labels_is_used(run: Path, tmp_path: Path) -> None:
    labels = labels_file(tmp_path, by_hash("ac", private=[1, 0], split=["test", "train"]))
    stored = json.loads(ran(run, "--labels", labels, "--split", "test", "--format", "json").stdout)
    assert stored["join"]["num_labels"] == 1
    with pytest.raises(LabelsError, match='no label is of the split "dev"; there are: test, train'):
        ran(run, "--labels", labels, "--split", "dev")


def test_what_is_to_know_of_the_labels_is_printed(run: Path, tmp_path: Path) -> None:
    origin = LabelsOrigin("consensus", notes=("Where two annotators differ, 0 was taken.",))
    write_labels(by_hash("a", private=[1]), str(tmp_path / "labels.parquet"), origin)
    assert (
        "Of the labels: Where two annotators differ, 0 was taken."
        in ran(run, "--labels", tmp_path / "labels.parquet").stdout
    )


def test_wrong_input_is_one_line_and_exit_code_2(run: Path, tmp_path: Path, capsys: Capture) -> None:
    strange = tmp_path / "strange.csv"
    strange.write_text("key,private\nzzz,1\n")
    assert privsieve("evaluate", run, "--labels", strange) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert 'rows are named like "a.jpg"' in message
    unfilled = tmp_path / "unfilled.csv"
    unfilled.write_text("key,private\na.jpg,\n")
    with pytest.raises(LabelsError, match=r"unfilled\.csv: no label can be compared with an answer of "):
        ran(run, "--labels", unfilled, "--html", tmp_path / "page.html")
    assert not (tmp_path / "page.html").exists()
    with pytest.raises(StorageError, match="cannot be read"):
        ran(run, "--labels", tmp_path / "missing.csv")
    with pytest.raises(RunError, match="is not a run"):
        ran(tmp_path / "nowhere", "--labels", strange)


def test_a_run_compared_with_itself_is_refused() -> None:
    with pytest.raises(PrivsieveError, match="run is given twice"):
        EvaluateRequest(run="run", labels="labels", compare="run")


@pytest.mark.slow
def test_the_labels_of_the_demo_corpus_are_of_its_pictures(tmp_path: Path) -> None:
    for part, num_pictures in (("shards", 27), ("tree", 11)):
        scan_in_process(DEMO / "corpus" / part, tmp_path / part)
        request = EvaluateRequest(str(tmp_path / part), str(DEMO / "labels.csv"), num_draws=0)
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


def test_error_rates_per_group_of_people_come_with_intervals_and_a_caution(
    run: Path, labels: Path, tmp_path: Path, capsys: Capture
) -> None:
    groups = tmp_path / "skin_tone.csv"
    lines = [f"{hash_of(name)},me,{tone}" for name, tone in (("a", "dark"), ("b", "light"), ("d", "dark"))]
    groups.write_text("\n".join(["sha256,annotator,class", *lines]))
    stored = json.loads(ran(run, "--labels", labels, "--groups", groups, "--format", "json").stdout)
    assert stored["by"] == "skin_tone"
    # a is private and found, b has no answer and counts as missed, c is in no group
    shares = {
        group["group"]: (group["private"]["recall"], group["private"]["specificity"]) for group in stored["groups"]
    }
    assert shares == {"dark": (1.0, None), "light": (0.0, None), "(none)": (None, 1.0)}
    recall = stored["groups"][1]["intervals"]["recall"]
    assert (round(recall["low"], 3), recall["high"], recall["is_few"]) == (0.025, 1.0, True)
    text = ran(run, "--labels", labels, "--groups", groups).stdout
    assert "By skin_tone (pictures without an answer count as answered wrong)" in text
    assert "Fewer than 50 private or public pictures in 3 groups ((none), dark, light)" in " ".join(text.split())
    assert privsieve("evaluate", run, "--labels", labels, "--groups", groups, "--by", "class") == 2
    assert "--by and --groups exclude each other" in capsys.readouterr().err
    without = labels_file(tmp_path / "run", by_hash("a", private=[1]))
    assert privsieve("evaluate", run, "--labels", labels, "--groups", without) == 2
    assert "the column class, which is the group of a picture, is empty or not there" in capsys.readouterr().err
