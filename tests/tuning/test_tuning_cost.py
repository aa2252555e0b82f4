"""`study cost --benchmark`: right answers before and after tuning, of the micro model."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ingest.errors import LabelsError
from jobs.study.studies import CostRequest, run_cost
from tests.tuning.made import BASE, MAX_PIXELS, Pictures, privsieve


def _asked(short: Path, few: Pictures, tmp_path: Path, **more: str) -> CostRequest:
    names = sorted(file.name for file in few.folder.iterdir())[:4]
    lines = [
        {"image": name, "text": "Is it bright?", "label": ("yes", "no")[n % 2], **more} for n, name in enumerate(names)
    ]
    lines.append({"image": "gone.png", "text": "Is it bright?", "label": "yes"})
    (tmp_path / "pope.json").write_text("\n".join(map(json.dumps, lines)))
    return CostRequest(
        str(short),
        str(BASE),
        str(few.folder),
        benchmark="pope",
        questions=(str(tmp_path / "pope.json"),),
        max_pixels=MAX_PIXELS,
    )


def test_answers_are_judged_before_and_after_and_missing_pictures_are_counted(
    short: Path, few: Pictures, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    request = _asked(short, few, tmp_path)
    result = run_cost(request)
    assert (result.num_pictures, result.num_undecodable, result.num_questions) == (4, 1, 4)
    for share in (result.accuracy_before, result.accuracy_after):
        assert share in (0, 0.25, 0.5, 0.75, 1)
    assert result.change_deviation is not None
    assert result.mean_kl > 0
    assert run_cost(replace(request, num_pictures=2)).num_questions <= 2
    options = ("--benchmark", "pope", "--questions", request.questions[0], "--max-pixels", MAX_PIXELS)
    assert privsieve("study", "cost", short, "--model", BASE, "--pictures", few.folder, *options) == 0
    shown = capsys.readouterr().out
    assert f"right answers: {result.accuracy_before:.1%} before tuning, {result.accuracy_after:.1%} after it" in shown


def test_a_special_token_in_a_question_is_refused(short: Path, few: Pictures, tmp_path: Path) -> None:
    with pytest.raises(LabelsError, match="holds a special token of the model") as refused:
        run_cost(_asked(short, few, tmp_path, text="secret <|image_pad|>"))
    assert "secret" not in str(refused.value)
