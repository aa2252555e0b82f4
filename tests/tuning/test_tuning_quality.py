"""A micro model is useless before tuning and right after it, measured through scans of pictures that it never saw."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from PIL import Image

from examples import signs
from reports.evaluation.compute import evaluation_of, judged
from reports.evaluation.results import Evaluation
from scoring.assessment import EngineOptions, View
from scoring.engines import engine_module
from scoring.labels.table import read_labels
from tests.jobs.made import privsieve
from tests.tuning.made import (
    BASE,
    MAX_PIXELS,
    RECIPE,
    Pictures,
    drawn_pictures,
    make_recipe,
    make_set,
    planted,
    scan_command,
    tune_command,
)

FIRST = "binary:ours-1,first"

SHORT_PROMPT = {
    "system": "",
    "instructions": "{attributes}\n{placeholder}",
    "attribute_line": "{key}",
    "form_line": "{key}={slot}\n",
}
"""Of slots: 22 questions would take most of the time of these tests."""


def evaluation(run: Path, labels: Path) -> Evaluation:
    return evaluation_of(judged(str(run), read_labels(str(labels))))


def both_f1(found: Evaluation) -> list[float]:
    """Per attribute the mean of the F1 of present and that of absent."""
    means = []
    for one in found.attributes.values():
        wrong = one.num_false_positive + one.num_false_negative
        right = (one.num_true_positive, one.num_true_negative)
        means.append(float(np.mean([2 * num / max(1, 2 * num + wrong) for num in right])))
    return means


@pytest.fixture(scope="module")
def learnt(room: Path) -> Pictures:
    """320 pictures."""
    return drawn_pictures(room / "learnt", per_class=20, seed=1)


@pytest.fixture(scope="module")
def unseen(room: Path) -> Pictures:
    """80 pictures."""
    return drawn_pictures(room / "unseen", per_class=5, seed=2)


@pytest.fixture(scope="module")
def tuned(room: Path, learnt: Pictures, unseen: Pictures) -> Path:
    """On yes and no."""
    recipe = make_recipe(room / "six-epochs.yaml", epochs=6)
    options = ["--target", "binary", "--validation", 0, "--exclude", unseen.labels]
    training_set = make_set(room / "learnt-set", learnt, *options)
    assert privsieve(*tune_command(training_set, recipe, room / "tuned")) == 0
    return room / "tuned"


@pytest.fixture(scope="module")
def tuned_slots(room: Path, learnt: Pictures) -> Path:
    recipe = make_recipe(room / "ten-epochs.yaml", epochs=10)
    (room / "short-prompt.yaml").write_text(yaml.safe_dump(SHORT_PROMPT))
    options = ["--target", "slots", "--prompt-file", room / "short-prompt.yaml", "--validation", 0]
    training_set = make_set(room / "slots-set", planted(learnt, room), *options)
    assert privsieve(*tune_command(training_set, recipe, room / "tuned-slots")) == 0
    return room / "tuned-slots"


def test_an_untuned_model_gives_no_usable_answer(room: Path, unseen: Pictures) -> None:
    options = ["--protocol", "binary:ours-1", "--max-pixels", MAX_PIXELS]
    assert privsieve(*scan_command(unseen.folder, room / "before", *options)) == 0
    private = evaluation(room / "before", unseen.labels).private
    assert private is not None
    assert private.num_rejected == private.num_pictures == 80 or (private.mcc or 0) <= 0.5


@pytest.mark.parametrize("reading", ["", ",first"])
def test_after_320_pictures_it_tells_private_from_public(
    reading: str, room: Path, unseen: Pictures, tuned: Path
) -> None:
    run = room / f"after{reading}"
    options = ["--adapter", tuned, "--protocol", f"binary:ours-1{reading}"]
    assert privsieve(*scan_command(unseen.folder, run, *options)) == 0
    private = evaluation(run, unseen.labels).private
    assert private is not None
    assert private.num_rejected == 0
    assert private.mcc is not None
    assert private.mcc >= 0.95


def test_after_320_pictures_it_finds_planted_attributes(room: Path, unseen: Pictures, tuned_slots: Path) -> None:
    assert privsieve(*scan_command(unseen.folder, room / "after-slots", "--adapter", tuned_slots)) == 0
    found = evaluation(room / "after-slots", planted(unseen, room).labels)
    assert len(both_f1(found)) == 22
    assert np.mean(both_f1(found)) >= 0.9


def test_the_adapter_answers_alike_in_transformers_and_vllm(unseen: Pictures, tuned: Path) -> None:
    views = [_view(file) for file in sorted(unseen.folder.iterdir())[::5]]
    options = EngineOptions(model=str(BASE), adapter=str(tuned), protocol=FIRST, max_pixels=MAX_PIXELS)
    found: list[list[float]] = []
    for name in ("transformers", "vllm"):
        running: Any = engine_module(name).load(options)
        found.append([one.prob_private for one in running.assess(views)])
        running.close()
    np.testing.assert_allclose(found[0], found[1], atol=1e-4)
    assert np.ptp(found[0]) > 0.9, "the answers must depend on the picture"


def _view(file: Path) -> View:
    return View(np.asarray(Image.open(file).convert("RGB")), frozenset(), hashlib.sha256(file.read_bytes()).hexdigest())


def test_the_demo_gains_by_tuning_and_leaves_the_class_without_a_mark_to_look_at(room: Path) -> None:
    few = drawn_pictures(room / "few-signs", per_class=4, seed=1, grain=0.6)
    others = drawn_pictures(room / "others", per_class=10, seed=2, grain=0.6)
    training_set = make_set(room / "few-signs-set", few, "--target", "binary", "--exclude", others.labels)
    assert privsieve(*tune_command(training_set, RECIPE, room / "few-adapter")) == 0
    first = ["--protocol", FIRST, "--max-pixels", MAX_PIXELS]
    assert privsieve(*scan_command(others.folder, room / "demo-before", *first)) == 0
    after = ["--adapter", room / "few-adapter", "--protocol", FIRST]
    assert privsieve(*scan_command(others.folder, room / "demo-after", *after)) == 0

    untuned = evaluation(room / "demo-before", others.labels).private
    tuned = evaluation(room / "demo-after", others.labels)
    assert untuned is not None
    assert tuned.private is not None
    assert untuned.num_rejected == tuned.private.num_rejected == 0
    assert abs(untuned.mcc or 0) < 0.3
    assert 0.7 < (tuned.private.mcc or 0) < 1
    recalls = {one.name: one.recall for one in tuned.private.per_class}
    assert min(recalls, key=lambda name: recalls[name] or 0) == signs.UNMARKED
