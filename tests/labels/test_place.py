"""`labels place`: four questions, of which the first yes gives the level."""

import pytest
from click.testing import CliRunner

from jobs.commands.labels import labels
from scoring.taxonomy import QUESTIONS
from tests.jobs.made import privsieve

CASES = [(case, question.level) for question in QUESTIONS for case in question.worked_cases]


def test_the_paper_works_through_19_cases() -> None:
    assert [question.level for question in QUESTIONS] == [1, 2, 3, 4]
    assert [len(question.worked_cases) for question in QUESTIONS] == [5, 7, 5, 2]


@pytest.mark.parametrize(("case", "level"), CASES)
def test_a_worked_case_is_placed_by_its_answers(case: str, level: int, capsys: pytest.CaptureFixture[str]) -> None:
    answers = ",".join(["no"] * (level - 1) + ["yes"])
    assert privsieve("labels", "place", case, "--answers", answers) == 0
    assert capsys.readouterr().out.startswith(f"{case} belongs to level {level}, ")


def test_questions_are_asked_until_the_first_yes() -> None:
    asked = CliRunner().invoke(labels, ["place", "occupation"], input="n\nn\ny\n")
    assert asked.exit_code == 0
    assert asked.output.count("[y/N]") == 3
    assert asked.output.splitlines()[-1] == "occupation belongs to level 3, aggregation-based"
    assert "passport number, recognisable face" in asked.output


def test_four_times_no_is_no_level(capsys: pytest.CaptureFixture[str]) -> None:
    assert privsieve("labels", "place", "a stone", "--answers", "no,no,no,no") == 0
    assert capsys.readouterr().out.strip() == (
        "a stone belongs to none of the four levels: the taxonomy has no place for it"
    )


@pytest.mark.parametrize("answers", ["no,no", "maybe", "no,no,no,no,yes", ""])
def test_answers_that_do_not_decide_are_refused(answers: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert privsieve("labels", "place", "x", "--answers", answers) != 0
    assert capsys.readouterr().err.startswith("privsieve: --answers takes yes or no to each of the 4 questions")
