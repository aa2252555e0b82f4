"""What `tune` refuses in one line, before it computes or writes anything."""

import json
import os
import shutil
import tarfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest

from ingest.storage.place import place
from scoring.engines.vlm.adapter import read_card
from scoring.runs import RUN_LEASE
from scoring.runs.lease import lease
from scoring.tuning.training_set import file_sha256
from tests.jobs.made import privsieve
from tests.tuning.made import BASE, MAX_PIXELS, make_recipe, tune_command

Damage = Callable[[Path], None]


def changed_pictures(training_set: Path, change: Callable[[str, bytes], bytes]) -> None:
    """Writes every shard again, with hashes that fit: what someone does who wants to deceive."""
    for shard in training_set.glob("*.tar"):
        with tarfile.open(shard) as tar:
            held = [(member.name, tar.extractfile(member).read()) for member in tar]  # type: ignore[union-attr]
        with tarfile.open(shard, "w") as tar:
            for name, content in held:
                made = change(name, content)
                member = tarfile.TarInfo(name)
                member.size = len(made)
                tar.addfile(member, BytesIO(made))
    record = json.loads((training_set / "set.json").read_text())
    hashes = {file.name: file_sha256(file) for file in training_set.glob("*.tar")}
    (training_set / "set.json").write_text(json.dumps(record | {"files": hashes}))


def endless_answer(training_set: Path) -> None:
    endless = b'"%s"' % (b"Yes" * 10**6)
    changed_pictures(training_set, lambda name, content: content.replace(b'"No"', endless))


def no_pictures(training_set: Path) -> None:
    changed_pictures(training_set, lambda name, content: content if name.endswith(".json") else b"no picture")


def cut_shard(training_set: Path) -> None:
    shard = next(training_set.glob("train-*.tar"))
    shard.write_bytes(shard.read_bytes()[:5000])


SETS: dict[str, tuple[Damage, str]] = {
    "a changed shard": (cut_shard, "train-000000.tar has changed since the set was made"),
    "an endless answer": (endless_answer, "damaged; make the set again"),
    "no pictures": (no_pictures, "of the training set cannot be decoded"),
}


@pytest.mark.parametrize("name", SETS)
def test_a_set_that_cannot_be_learnt_from(
    name: str, few_set: Path, short_recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage, message = SETS[name]
    shutil.copytree(few_set, tmp_path / "set")
    damage(tmp_path / "set")
    assert privsieve(*tune_command(tmp_path / "set", short_recipe, tmp_path / "out")) == 2
    output = capsys.readouterr().err
    assert message in output
    assert output.count("\n") == 1
    assert not (tmp_path / "out").exists()


def without_picture(model: Path) -> None:
    template = model / "chat_template.jinja"
    template.write_text(template.read_text().replace("<|vision_start|><|image_pad|><|vision_end|>", ""))


def without_vision(model: Path) -> None:
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"vision_config": None}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [(without_picture, "its chat template leaves out the picture"), (without_vision, "is not a vision-language model")],
)
def test_a_model_that_cannot_be_asked(
    damage: Damage, message: str, few_set: Path, short_recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(BASE, tmp_path / "model")
    damage(tmp_path / "model")
    command = ("tune", "fit", few_set, "--model", tmp_path / "model", "--recipe", short_recipe)
    assert privsieve(*command, "--out", tmp_path / "out", "--max-pixels", MAX_PIXELS) == 2
    output = capsys.readouterr().err
    assert message in output
    assert output.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_folder_with_something_else(
    few_set: Path, short_recipe: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    assert privsieve(*tune_command(few_set, short_recipe, tmp_path)) == 2
    assert "already exists and holds no tuning run" in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["notes.txt"]
    assert privsieve(*tune_command(few_set, short_recipe, "memory://adapter")) == 2
    assert "--out memory://adapter: an adapter is tuned in a folder of this machine" in capsys.readouterr().err


def test_a_second_tune_into_the_same_folder_is_refused_while_the_first_is_at_work(
    few_set: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By a recipe that says how many steps."""
    out = tmp_path / "out"
    command = tune_command(few_set, make_recipe(tmp_path / "steps.yaml", epochs=None, max_steps=3), out)
    with lease(place(str(out / RUN_LEASE)), str(out), takeover=None):
        assert privsieve(*command) == 2
        error = capsys.readouterr().err.splitlines()
        assert f"{out} is being worked on by process {os.getpid()} on " in error[-1]
        assert [file.name for file in out.iterdir()] == [RUN_LEASE]
    assert privsieve(*command) == 0
    assert not (out / RUN_LEASE).exists()
    card = read_card(out)
    assert card is not None
    assert (card.num_steps, card.recipe["max_steps"], "epochs" in card.recipe) == (3, 3, False)
