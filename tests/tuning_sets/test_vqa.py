"""Readers of VQAv2, POPE and ScienceQA, on small files in the layouts that their authors publish."""

import json
from pathlib import Path

import pytest

from ingest.errors import LabelsError
from scoring.tuning.vqa import VqaQuestion, plain, vqa_questions
from tests.jobs.made import privsieve


def _file(path: Path, content: object) -> str:
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return str(path)


def _vqav2(folder: Path, answers: list[str]) -> list[str]:
    questions = {
        "data_subtype": "val2014",
        "questions": [{"image_id": 42, "question": "How many?", "question_id": 420}],
    }
    given = {"question_id": 420, "answers": [{"answer": answer, "answer_id": n} for n, answer in enumerate(answers)]}
    return [_file(folder / "q.json", questions), _file(folder / "a.json", {"annotations": [given]})]


def test_vqav2_names_the_picture_and_scores_by_how_many_people_agree(tmp_path: Path) -> None:
    (question,) = vqa_questions("vqav2", _vqav2(tmp_path, ["2"] * 3 + ["three"] * 6 + ["many"]))
    assert question.picture == "COCO_val2014_000000000042.jpg"
    assert question.text.startswith("How many?\n")
    # Three say 2: without one of them 2/3, without another one 1. Six say three: always at least three.
    assert question.score("Two.") == pytest.approx((3 * 2 / 3 + 7) / 10)
    assert question.score("the 3") == 1
    assert question.score("many") == pytest.approx(9 / 3 / 10)
    assert question.score("none") == 0


def test_answers_are_compared_without_case_articles_and_punctuation() -> None:
    assert plain(" The Red, car.\nand more") == "red car"
    assert plain("TEN") == "10"


def test_pope_takes_the_first_word(tmp_path: Path) -> None:
    lines = [
        {"question_id": 1, "image": "COCO_val2014_1.jpg", "text": "Is there a dog?", "label": "yes"},
        {"question_id": 2, "image": "COCO_val2014_1.jpg", "text": "Is there a cat?", "label": "no"},
    ]
    file = _file(tmp_path / "pope.json", "\n".join(map(json.dumps, lines)))
    dog, cat = vqa_questions("pope", [file])
    assert (dog.score("Yes, a dog."), dog.score("No"), dog.score("yesterday"), dog.score("")) == (1, 0, 0, 0)
    assert (cat.score("no."), cat.score(" **No**, none")) == (1, 1)


def test_scienceqa_asks_what_has_a_picture_in_the_test_split(tmp_path: Path) -> None:
    one = {
        "question": "Which?",
        "choices": ["x", "y"],
        "answer": 1,
        "image": "image.png",
        "split": "test",
        "hint": "Look.",
    }
    problems = {"1": one, "2": one | {"image": None}, "3": one | {"split": "train"}}
    (question,) = vqa_questions("scienceqa", [_file(tmp_path / "problems.json", problems)])
    assert question.picture == "test/1/image.png"
    assert question.text.splitlines()[:4] == ["Look.", "Which?", "A. x", "B. y"]
    assert (question.score("B"), question.score("(b) y"), question.score("A. x or B"), question.score("Because")) == (
        1,
        1,
        0,
        0,
    )


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("pope", "{}", "is not laid out as pope is; give one file of JSON lines"),
        ("pope", "secret", "line 1, line 1: is not JSON"),
        ("pope", '{"image": "../x.jpg", "text": "?", "label": "yes"}', "leads out of the folder"),
        ("pope", '{"image": "x.jpg", "text": "?", "label": "secret"}', "the label is neither yes nor no"),
        ("pope", "", "has no question about a picture"),
        ("scienceqa", "[]", "is not laid out as scienceqa is; give problems.json"),
        ("scienceqa", '{"1": {"split": "test", "image": 3, "choices": [], "question": "?"}}', "is not laid out as"),
        ("vqav2", "{}", "takes its file of questions and its file of annotations, in this order; there is 1"),
    ],
)
def test_files_of_another_layout_are_refused_in_one_line(tmp_path: Path, name: str, content: str, message: str) -> None:
    with pytest.raises(LabelsError) as refused:
        vqa_questions(name, [_file(tmp_path / "f.json", content)])  # type: ignore[arg-type]
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)
    assert "secret" not in str(refused.value)


def test_a_question_without_right_answers_has_none() -> None:
    assert VqaQuestion("x.jpg", "?").answers == ()


def test_options_that_belong_together_are_refused_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ("study", "cost", tmp_path, "--model", tmp_path, "--pictures", tmp_path)
    assert privsieve(*command, "--benchmark", "pope") == 2
    assert "--benchmark and --questions belong together" in capsys.readouterr().err
