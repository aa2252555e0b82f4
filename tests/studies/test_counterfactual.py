"""`study counterfactual`: the most certain level-1 pictures are asked about again, with faces taken as anonymised."""

import json
from pathlib import Path

import pytest

from jobs.studies.counterfactual import AskedChange, CounterfactualResult, counterfactual_finding
from scoring.taxonomy import KEYS
from tests.engines.chat_server import ChatServer, Reply
from tests.jobs.in_process import scan_in_process
from tests.jobs.made import privsieve, rows
from tests.studies.made import corpus

WARNING = "perfectly anonymised"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that calls some of 60 pictures level 1."""
    folder = tmp_path_factory.mktemp("certain")
    scan_in_process(Path(corpus(folder / "corpus", 60)), folder / "run")
    return folder / "run"


def certainty(row: dict[str, object]) -> float:
    numbers = [row[f"prob_{key}"] for key in ("biometrics", "gov_ids", "unique_body_markings") if row[key] == 1]
    return max(1.0 if number is None else float(str(number)) for number in numbers)


@pytest.mark.slow
def test_the_most_certain_pictures_are_asked_twice_and_the_change_has_an_interval(
    run: Path, server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    level_1 = [row for row in rows(run) if row["level"] == 1]
    assert len(level_1) > 4
    server.default, server.by_words = Reply(text="0.90"), {WARNING: Reply(text="0.50")}
    study = ["study", "counterfactual", run, "--out", tmp_path / "study", "--n", 4, "--quiet", "--format", "json"]
    study += ["--engine", "openai", "--endpoint", server.url, "--model", "tiny-vl", "--ask", "severity:taxonomy"]
    capsys.readouterr()
    assert privsieve(*study) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["num_candidates"], found["num_asked"]) == (len(level_1), 4)
    whole = found["changes"][0]
    assert (whole["protocol"], whole["figure"], whole["group"]) == ("severity:taxonomy", "holistic_score", None)
    assert (whole["num_pictures"], whole["before"], whole["after"]) == (4, pytest.approx(0.9), pytest.approx(0.5))
    assert whole["change"] == pytest.approx(-0.4)
    assert whole["low"] < -0.4 < whole["high"]

    copies = list((tmp_path / "study" / "pictures").rglob("*.jpg"))
    chosen = [row for row in level_1 if row["sha256"] in {copy.stem for copy in copies}]
    others = [row for row in level_1 if row not in chosen]
    assert min(map(certainty, chosen)) >= max(map(certainty, others))
    groups = {copy.parent.name for copy in copies}
    assert groups == {
        "+".join(key for key in ("biometrics", "gov_ids", "unique_body_markings") if row[key] == 1) for row in chosen
    }
    asked = ["perfectly" in json.dumps(body["messages"]) for body in server.bodies if "messages" in body]
    num_asked = len(asked)
    assert privsieve(*study) == 0
    assert len(server.bodies) == num_asked, "a finished study asks nothing again"


@pytest.mark.slow
def test_attributes_that_go_with_the_faces_are_named(
    run: Path, server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def form(**values: int) -> Reply:
        return Reply(text=json.dumps(dict.fromkeys(KEYS, 0) | values))

    server.default, server.by_words = form(biometrics=2, gov_ids=2), {WARNING: form(gov_ids=2)}
    study = ["study", "counterfactual", run, run, "--out", tmp_path / "study", "--n", 5, "--quiet", "--ask", "json"]
    assert privsieve(*study, "--engine", "openai", "--endpoint", server.url, "--model", "tiny-vl") == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].startswith("With faces taken as anonymised, the mean score of json falls by ")
    (biometrics,) = [line.split() for line in shown if " biometrics " in line and " all " in line]
    (gov_ids,) = [line.split() for line in shown if " gov_ids " in line and " all " in line]
    assert biometrics[1:7] == ["biometrics", "all", "5", "1.000", "0.000", "−1.000"]
    assert gov_ids[1:7] == ["gov_ids", "all", "5", "1.000", "1.000", "0.000"]


@pytest.mark.slow
def test_a_study_whose_answers_cannot_be_read_is_one_line(
    run: Path, server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.default = Reply(text="a fine picture")
    study = [
        "study",
        "counterfactual",
        run,
        "--out",
        tmp_path / "study",
        "--n",
        3,
        "--quiet",
        "--ask",
        "severity:taxonomy",
    ]
    capsys.readouterr()
    assert privsieve(*study, "--engine", "openai", "--endpoint", server.url, "--model", "tiny-vl") != 0
    shown = capsys.readouterr()
    assert shown.err.strip() == (
        "privsieve: no answer about the 3 pictures could be read in both questions: look at the runs in "
        f"{tmp_path / 'study'} with privsieve report, or --ask with another protocol"
    )
    assert shown.out == ""


def test_runs_that_agree_on_no_picture_are_refused(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    others = tmp_path / "others"
    scan_in_process(Path(corpus(tmp_path / "elsewhere", 3, first=200)), others)
    study = ["study", "counterfactual", run, others, "--out", tmp_path / "study", "--quiet", "--model", "x"]
    assert privsieve(*study) != 0
    assert capsys.readouterr().err.strip() == (
        f"privsieve: no picture is of level 1 in {run} and {others}, so there is none to ask about"
    )
    assert not (tmp_path / "study").exists()


def test_a_score_that_does_not_move_is_said_plainly() -> None:
    change = AskedChange("severity:zero-shot", "holistic_score", None, 1, 0.2, 0.2, 0.0, -1.0, 1.0)
    assert counterfactual_finding(CounterfactualResult(1, 1, (change,))) == (
        "With faces taken as anonymised, the mean score of severity:zero-shot does not change "
        "(95 %: −1.000 to 1.000) on 1 picture."
    )
