"""`study prompts` and `study languages`: the same pictures asked about in other words."""

import json
import shutil
from pathlib import Path

import pytest

from tests.engines.chat_server import ChatServer, Reply
from tests.jobs.made import privsieve
from tests.studies.made import corpus, labels, sent

PRIVATE = [1, 1, 1, 0, 0, 0]


@pytest.fixture
def asked(server: ChatServer, tmp_path: Path) -> list[object]:
    """Six pictures, of which the model knows three private ones."""
    server.script = {sent(number): Reply(text="Yes" if private else "No") for number, private in enumerate(PRIVATE)}
    source = corpus(tmp_path / "pictures", len(PRIVATE))
    options = ["--labels", labels(tmp_path / "labels.parquet", PRIVATE), "--out", tmp_path / "study", "--quiet"]
    return [source, *options, "--engine", "openai", "--endpoint", server.url, "--model", "tiny-vl"]


@pytest.mark.slow
def test_four_languages_are_compared(
    asked: list[object], server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.by_words = {
        "Informationen": Reply(text="Nein."),
        "информация": Reply(text="Я вижу дерево."),
        "图片": Reply(text="抱歉，我无法回答。"),
    }
    assert privsieve("study", "languages", *asked) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0] == (
        "The languages differ by 2.000 in MCC: −1.000 (binary:ours-1,ru) to 1.000 (binary:ours-1); on other pictures "
        "like these, by −0.460 to 2.000 (95 %)."
    )
    (mcc,) = [line.split()[1:5] for line in shown if line.lstrip().startswith("mcc ")]
    assert mcc == ["1.000", "0.000", "−1.000", "−1.000"]
    assert shown[-2].split() == ["no", "answer", "0", "0", "6", "6"]
    assert sorted(folder.name for folder in (tmp_path / "study").iterdir() if folder.is_dir()) == [
        "ours-1",
        "ours-1-de",
        "ours-1-ru",
        "ours-1-zh",
    ]
    num_asked = len(server.bodies)
    assert privsieve("study", "languages", *asked, "--languages", "en,de") == 0
    assert len(server.bodies) <= num_asked + 2, "finished runs are not asked again"
    assert capsys.readouterr().out.startswith("The languages differ by 1.000 in MCC: 0.000 (binary:ours-1,de)")
    assert privsieve("study", "languages", *asked[:-1], "another-model") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"privsieve: {tmp_path}/study/ours-1 was scanned with other settings: ")
    assert line.endswith("; give the same, or name another --out")


@pytest.mark.slow
def test_wordings_of_a_file_are_asked_in_place_of_ours(
    asked: list[object], server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = {f"ours_{number}": f"Question {number}?" for number in (1, 2, 3, 4)} | {"answer": ""}
    (tmp_path / "theirs.yaml").write_text(json.dumps(texts))
    server.by_words = {"Question 3?": Reply(text="No")}
    assert privsieve("study", "prompts", *asked, "--prompt-file", tmp_path / "theirs.yaml", "--format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["wordings"] == [f"binary:ours-{number}" for number in (1, 2, 3, 4)]
    assert found["spread"]["private"]["mcc"]["values"] == [1, 1, 0, 1]
    assert found["spread"]["private"]["mcc"]["sd"] == pytest.approx(0.5)
    assert found["num_rejected"] == [0, 0, 0, 0]
    ends = [found["intervals"][number]["mcc"] for number in (0, 2)]
    assert ends[0]["low"] < 1 == ends[0]["high"]
    assert ends[1]["low"] < 0 < ends[1]["high"]
    assert (found["difference"]["after"], found["difference"]["before"]) == (1, 0)
    questions = [part["text"] for body in server.bodies for part in body["messages"][-1]["content"] if "text" in part]
    assert {question for question in questions if "Question" in question} == {
        f"Question {n}?\n\n" for n in (1, 2, 3, 4)
    }


@pytest.mark.parametrize(
    ("kind", "file", "message"),
    [
        (
            "languages",
            {"ours_1": "Is it private?"},
            "the prompt file replaces the texts of every language by the same ones",
        ),
        (
            "prompts",
            {"p1": "Is it private?", "ours_3": "Private?"},
            "the prompt file has no ours_2, ours_4, so shipped",
        ),
    ],
)
def test_a_file_whose_figures_would_be_of_something_else_is_refused(
    kind: str,
    file: dict[str, str],
    message: str,
    asked: list[object],
    server: ChatServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "theirs.yaml").write_text(json.dumps(file))
    assert privsieve("study", kind, *asked, "--prompt-file", tmp_path / "theirs.yaml") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
    assert not server.bodies
    assert not (tmp_path / "study").exists()


@pytest.mark.slow
def test_a_model_that_says_neither_word_is_named_as_such(
    asked: list[object], server: ChatServer, capsys: pytest.CaptureFixture[str]
) -> None:
    server.script, server.default = {}, Reply(text="A tree.")
    assert privsieve("study", "prompts", *asked, "--wordings", "ours-1,ours-2") == 0
    assert capsys.readouterr().out.splitlines()[0] == (
        "None of the wordings got a yes or no about any of the 6 labelled pictures, so all count as wrong. Where a "
        "model answers in other words, --reading first compares the probabilities of the two."
    )


@pytest.mark.slow
def test_a_study_that_began_with_the_earlier_names_is_continued(
    asked: list[object], tmp_path: Path, server: ChatServer, capsys: pytest.CaptureFixture[str]
) -> None:
    two = (*asked, "--wordings", "ours-1,ours-2", "--format", "json")
    assert privsieve("study", "prompts", *two) == 0
    found = json.loads(capsys.readouterr().out)
    shutil.rmtree(tmp_path / "study" / "ours-1")
    scan = ("scan", asked[0], "--run", tmp_path / "study" / "p1", "--executor", "inline", "--protocol", "binary:p1-3")
    assert privsieve(*scan, "--quiet", *asked[asked.index("--engine") :]) == 0
    assert "binary:p1-3 " in (tmp_path / "study" / "p1" / "run.json").read_text()
    num_asked = len(server.bodies)
    capsys.readouterr()
    assert privsieve("study", "prompts", *two) == 0
    assert json.loads(capsys.readouterr().out)["spread"]["private"] == found["spread"]["private"]
    assert len(server.bodies) == num_asked
    assert sorted(folder.name for folder in (tmp_path / "study").iterdir() if folder.is_dir()) == ["ours-2", "p1"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--languages", "en,fr"], 'privsieve: --languages: there is no "fr"; there are: en, de, ru, zh'),
        (
            ["--languages", "en", "--wordings", "ours-1"],
            "privsieve: one wording in one language has nothing to be compared with; name two of one of them",
        ),
        (["--wordings", "p1"], 'privsieve: --wordings: there is no "p1"; there are: ours-1, ours-2, ours-3, ours-4'),
    ],
)
def test_a_wrong_word_is_one_line_and_writes_nothing(
    options: list[str], message: str, asked: list[object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert privsieve("study", "prompts", *asked, *options) != 0
    assert capsys.readouterr().err.strip() == message
    assert not (tmp_path / "study").exists()


def test_a_study_that_is_refused_before_it_asks_can_begin_otherwise(
    asked: list[object], server: ChatServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = [*asked, "--prompt-file", tmp_path / "missing.yaml"]
    assert privsieve("study", "prompts", *refused) != 0
    assert "missing.yaml" in capsys.readouterr().err
    assert not (tmp_path / "study").exists()
