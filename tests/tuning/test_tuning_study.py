"""Studies with the micro model and drawn signs: what the planted exception and planted mistakes in labels do."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from safetensors.torch import load_file, save_file

from ingest.errors import LabelsError
from jobs.demo.signs import PRIVATE, UNMARKED, drawn
from jobs.runtime.progress import SILENT
from jobs.studies.asking_again import PromptsRequest, run_prompts
from jobs.studies.points import AskedEngine, PointResult, StudyRequest
from jobs.studies.studies import CostRequest, StudyPoints, run_cost, run_curve, run_leave_one_out
from reports.labels.agreement import agreement_table
from scoring.assessment import EngineOptions
from scoring.labels.judgements import judgements
from scoring.labels.table import LabelsOrigin, read_labels, to_labels, write_labels
from tests.tuning.made import make_recipe

DEMO = Path(__file__).parents[2] / "jobs" / "demo" / "tuning"
MAX_PIXELS = 64 * 64
OTHER = "face"


def _drawn(folder: Path, num_per_class: int, seed: int) -> tuple[str, str]:
    """Pictures and their labels."""
    pictures = folder / "pictures"
    pictures.mkdir(parents=True)
    names = []
    for name, pixels in drawn(num_per_class, seed):
        Image.fromarray(pixels).save(pictures / name)
        names.append(name)
    classes = [name.rpartition("_")[0] for name in names]
    columns: dict[str, list[object]] = {
        "key": [*names],
        "class": [*classes],
        "private": [int(one in PRIVATE) for one in classes],
        "annotator": ["drawn"] * len(names),
    }
    write_labels(to_labels(columns, len(names)), str(folder / "labels.parquet"), LabelsOrigin("test"))
    return str(pictures), str(folder / "labels.parquet")


@pytest.fixture(scope="module")
def request_(tmp_path_factory: pytest.TempPathFactory) -> StudyRequest:
    folder = tmp_path_factory.mktemp("study")
    pictures, labels = _drawn(folder / "tuning", 9, 1)
    evaluation, evaluation_labels = _drawn(folder / "evaluation", 5, 2)
    return StudyRequest(
        out=str(folder / "out"),
        source=pictures,
        labels=labels,
        evaluation_source=evaluation,
        evaluation_labels=evaluation_labels,
        target="binary",
        model=str(DEMO / "base"),
        recipe=str(make_recipe(folder / "ten-epochs.yaml", epochs=10)),
        protocol="binary:ours-1,first",
        max_pixels=MAX_PIXELS,
    )


@pytest.fixture(scope="module")
def left_out(request_: StudyRequest) -> StudyPoints:
    return run_leave_one_out(request_, [UNMARKED, OTHER], SILENT)


def _point(result: StudyPoints, left_out: str | None, *, is_tuned: bool = True) -> PointResult:
    return next(one for one in result.points if one.left_out == left_out and (one.num_pictures > 0) == is_tuned)


def _mcc(point: PointResult) -> float:
    assert point.mcc is not None
    return point.mcc


def test_the_untuned_model_cannot_tell_private_from_public(left_out: StudyPoints) -> None:
    assert _mcc(_point(left_out, None, is_tuned=False)) <= 0.5


def test_the_tuned_model_can(left_out: StudyPoints) -> None:
    point = _point(left_out, None)
    assert _mcc(point) >= 0.9
    assert point.num_rejected == 0
    assert point.num_pictures == 9 * 16


def test_the_planted_exception_is_found(left_out: StudyPoints) -> None:
    """Only licence plates lack the mark of the other private classes, so no other class tells that they are private."""
    exception = _point(left_out, UNMARKED)
    recall = exception.classes[UNMARKED]["recall"]
    assert recall is not None
    assert recall <= 0.1
    others = [found["recall"] for name, found in exception.classes.items() if name != UNMARKED]
    assert len(others) == 7
    assert np.mean([recall for recall in others if recall is not None]) >= 0.9
    assert _mcc(exception) > 0.7, "the MCC over all hides that a whole class is missed"


def test_a_class_that_shares_the_mark_is_found_without_having_been_seen(left_out: StudyPoints) -> None:
    recall = _point(left_out, OTHER).classes[OTHER]["recall"]
    assert recall is not None
    assert recall >= 0.9


def test_no_picture_of_a_left_out_class_was_tuned_on(request_: StudyRequest, left_out: StudyPoints) -> None:
    name = _point(left_out, OTHER).name
    record = json.loads((Path(request_.out) / name / "set" / "set.json").read_bytes())
    assert f"class {OTHER}" not in record["counts"]["train"]
    assert record["counts"]["train"]["pictures"] == 9 * 15


def test_a_finished_study_is_answered_from_its_folder(request_: StudyRequest, left_out: StudyPoints) -> None:
    files = {file: file.stat().st_mtime_ns for file in Path(request_.out).rglob("*") if file.is_file()}
    assert run_leave_one_out(request_, [UNMARKED, OTHER], SILENT) == left_out
    assert {file: file.stat().st_mtime_ns for file in Path(request_.out).rglob("*") if file.is_file()} == files


def test_a_folder_of_another_study_is_refused(request_: StudyRequest, left_out: StudyPoints) -> None:
    with pytest.raises(LabelsError, match="holds a study with another kind"):
        run_curve(request_, [0], SILENT)


def test_a_study_of_changed_labels_or_recipe_is_refused(
    request_: StudyRequest, left_out: StudyPoints, tmp_path: Path
) -> None:
    """Its points would not be comparable. The names are the same, the content is not."""
    labels, recipe = tmp_path / "labels.parquet", tmp_path / "recipe.yaml"
    shutil.copy(request_.evaluation_labels, labels)
    shutil.copy(request_.recipe, recipe)
    asked = replace(request_, out=str(tmp_path / "out"), evaluation_labels=str(labels), recipe=str(recipe))
    assert len(run_curve(asked, [0], SILENT).points) == 1
    recipe.write_text(recipe.read_text().replace("rank: 16", "rank: 8"))
    with pytest.raises(LabelsError, match="holds a study with another recipe"):
        run_curve(asked, [0], SILENT)
    shutil.copy(request_.recipe, recipe)
    shutil.copy(request_.labels, labels)
    with pytest.raises(LabelsError, match="holds a study with another evaluation_labels"):
        run_curve(asked, [0], SILENT)


def test_more_pictures_make_a_better_model_and_wrong_labels_a_worse_one(
    request_: StudyRequest, left_out: StudyPoints, tmp_path: Path
) -> None:
    clean = run_curve(replace(request_, out=str(tmp_path / "clean")), [0, 40], SILENT)
    untuned, few = clean.points
    assert _mcc(untuned) < _mcc(few) <= _mcc(_point(left_out, None))

    labels = read_labels(request_.labels)
    wrong = np.random.default_rng(0).choice(labels.num_rows, labels.num_rows // 10, replace=False)
    private = labels["private"].to_numpy().copy()
    private[wrong] = 1 - private[wrong]
    columns = {name: labels[name].to_pylist() for name in ("key", "sha256", "class")}
    columns |= {"private": private.tolist(), "annotator": ["careless"] * len(private)}
    careless = to_labels(columns, len(private))
    write_labels(careless, str(tmp_path / "careless.parquet"), LabelsOrigin("test"))
    poisoned = run_curve(
        replace(request_, out=str(tmp_path / "poisoned"), labels=str(tmp_path / "careless.parquet")), [40], SILENT
    )
    assert _mcc(poisoned.points[0]) < _mcc(few)
    table = agreement_table(judgements([("drawn", labels), ("careless", careless)]))
    (private_row,) = (row for row in table.rows if row.name == "private")
    assert private_row.identical == pytest.approx(1 - len(wrong) / labels.num_rows)


def test_the_four_wordings_are_asked_and_their_spread_given(
    request_: StudyRequest, left_out: StudyPoints, tmp_path: Path
) -> None:
    adapter = str(Path(request_.out) / _point(left_out, None).name / "adapter")
    asked = PromptsRequest(
        source=request_.evaluation_source,
        labels=request_.evaluation_labels,
        out=str(tmp_path / "out"),
        reading="first",
        asked=AskedEngine(options=EngineOptions(model=request_.model, adapter=adapter)),
    )
    found = run_prompts(asked, SILENT)
    assert found.wordings == tuple(f"binary:ours-{n},first" for n in (1, 2, 3, 4))
    mcc = found.spread.private["mcc"]
    assert mcc.values[0] == _point(left_out, None).mcc
    assert mcc.sd == pytest.approx(np.std([value for value in mcc.values if value is not None], ddof=1))

    with pytest.raises(LabelsError, match="shares 80 pictures with an evaluation set"):
        run_prompts(replace(asked, out=str(tmp_path / "other"), evaluation=(str(tmp_path / "out" / "ours-1"),)), SILENT)


def test_the_cost_is_zero_for_an_adapter_that_changes_nothing(
    request_: StudyRequest, left_out: StudyPoints, tmp_path: Path
) -> None:
    adapter = Path(request_.out) / _point(left_out, None).name / "adapter"
    tuned = run_cost(CostRequest(str(adapter), request_.model, request_.evaluation_source, num_pictures=5))
    assert (tuned.num_pictures, tuned.num_undecodable, tuned.num_questions) == (5, 0, 15)
    assert tuned.mean_kl > 0.1

    shutil.copytree(adapter, tmp_path / "nothing")
    weights = load_file(adapter / "adapter_model.safetensors")
    save_file({name: values * 0 for name, values in weights.items()}, tmp_path / "nothing/adapter_model.safetensors")
    nothing = run_cost(
        CostRequest(str(tmp_path / "nothing"), request_.model, request_.evaluation_source, num_pictures=5)
    )
    assert nothing.mean_kl == pytest.approx(0, abs=1e-6)
    assert nothing.same_first_token == 1


@pytest.mark.parametrize(
    ("sizes", "problem"), [([], "--sizes takes 0"), ([1], "--sizes takes 0"), ([10_000], "there are 144 pictures")]
)
def test_sizes_that_cannot_be_drawn_are_refused(
    request_: StudyRequest, tmp_path: Path, sizes: list[int], problem: str
) -> None:
    with pytest.raises(LabelsError, match=problem):
        run_curve(replace(request_, out=str(tmp_path / "out")), sizes, SILENT)


def test_a_class_that_is_not_there_is_refused_before_anything_is_made(request_: StudyRequest, tmp_path: Path) -> None:
    with pytest.raises(LabelsError, match='no private class "fase" \\(did you mean "face"\\?\\)'):
        run_leave_one_out(replace(request_, out=str(tmp_path / "out")), ["fase"], SILENT)
    assert not (tmp_path / "out").exists()
