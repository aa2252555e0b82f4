"""`study cost --benchmark`: right answers before and after tuning, of the micro model."""

import json
from dataclasses import replace
from pathlib import Path

import PIL.Image
import pytest

from ingest.errors import LabelsError
from jobs.studies.studies import CostRequest, run_cost
from reports.words import percent
from scoring.engines.vlm.checkpoint import checkpoint
from scoring.engines.vlm.prompting import Prompter
from scoring.protocols.interface import Generate, Image, Message, Prompt, Text
from scoring.tuning.vqa import vqa_questions
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
    before, after = percent(result.accuracy_before), percent(result.accuracy_after)
    assert f"right answers: {before} before tuning, {after} after it" in shown


def test_right_answers_are_those_that_people_give(short: Path, few: Pictures, tmp_path: Path) -> None:
    """Of four pictures people say of two what the untuned model says; the tuned one says something else."""
    from scoring.engines.vlm.transformers.engine import loaded
    from scoring.tuning.outcome import MAX_ANSWER_TOKENS

    folder = tmp_path / "val2014"
    folder.mkdir()
    for number, file in enumerate(sorted(few.folder.iterdir())[:4]):
        (folder / f"COCO_val2014_{number:012d}.jpg").write_bytes(file.read_bytes())
    files = (tmp_path / "questions.json", tmp_path / "annotations.json")
    questions = [{"image_id": number, "question": "Is it bright?", "question_id": number} for number in range(4)]
    files[0].write_text(json.dumps({"data_subtype": "val2014", "questions": questions}))
    answers = [{"question_id": number, "answers": [{"answer": "nothing"}] * 10} for number in range(4)]
    files[1].write_text(json.dumps({"annotations": answers}))
    asked = vqa_questions("vqav2", [str(file) for file in files])
    base = checkpoint(str(BASE), with_weights=True)
    model, prompter = loaded(base, None, None), Prompter(base.folder, MAX_PIXELS)
    text = prompter.tokens(Prompt((Message("user", (Text(asked[0].text), Image())),), Generate(1))).text
    for number in (0, 2):
        inputs = prompter.processed(text, PIL.Image.open(folder / asked[number].picture).convert("RGB"))
        ids = model.generate(**inputs, max_new_tokens=MAX_ANSWER_TOKENS, do_sample=False)
        said = prompter.tokenizer.decode(ids[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
        answers[number] |= {"answers": [{"answer": said}] * 10}
    files[1].write_text(json.dumps({"annotations": answers}))
    given = {"benchmark": "vqav2", "questions": tuple(map(str, files)), "max_pixels": MAX_PIXELS}
    result = run_cost(CostRequest(str(short), str(BASE), str(folder), **given))  # type: ignore[arg-type]
    assert result.accuracy_before == 0.5
    assert result.accuracy_after is not None
    assert result.accuracy_after < 0.5


def test_a_special_token_in_a_question_is_refused(short: Path, few: Pictures, tmp_path: Path) -> None:
    with pytest.raises(LabelsError, match="holds a special token of the model") as refused:
        run_cost(_asked(short, few, tmp_path, text="secret <|image_pad|>"))
    assert "secret" not in str(refused.value)
