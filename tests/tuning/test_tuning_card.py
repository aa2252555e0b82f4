"""What stands beside the weights: the card and the curves."""

import json
import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from ingest.errors import EngineError
from scoring.assessment import EngineOptions
from scoring.engines.vlm.adapter import BEGUN, PACKAGES, WARNING, page, read_card
from scoring.engines.vlm.settings import VlmSettings, description, settings
from scoring.tuning.recipe import recipe
from scoring.tuning.training_set import open_set
from tests.tuning.made import BASE, MAX_PIXELS


def test_the_card_names_data_recipe_curves_and_results(few_set: Path, short: Path) -> None:
    card, made_of = read_card(short), open_set(str(few_set))
    assert card is not None
    assert card.set_sha256 == made_of.digest
    assert card.labels_sha256 == made_of.record.labels_sha256
    assert (card.model, card.protocol, card.max_pixels) == ("base", "binary:ours-1", MAX_PIXELS)
    assert card.recipe["learning_rate"] == 4e-3
    assert card.licences == ("CC BY-NC 4.0",)
    assert card.packages.keys() == set(PACKAGES)
    assert card.counts == made_of.record.counts
    assert card.num_steps == 10
    assert card.num_parameters > 0
    assert [p["step"] for p in card.curves if "loss" in p] == list(range(1, 11))
    assert [p["step"] for p in card.curves if "eval_loss" in p] == [5, 10]
    assert card.validation_accuracy is not None
    assert card.precision == "float32"


def test_the_page_says_what_people_must_know(short: Path) -> None:
    output = (short / "README.md").read_text()
    assert output.startswith('---\nbase_model: "base"\n')
    assert WARNING in output
    assert "- licence of the labels: `CC BY-NC 4.0`" in output
    assert f"set.json {read_card(short).set_sha256}" in output  # type: ignore[union-attr]
    assert "| learning_rate | 0.004 | `demo` |" in output
    assert "eval_loss" in output


@pytest.mark.parametrize(
    ("name", "ours", "given"),
    [("cprt", "alpha", "rank"), ("privtune", "dropout", "epochs"), ("cprt-80", "learning_rate", "max_steps")],
)
def test_what_a_paper_does_not_say_is_marked_as_our_choice(name: str, ours: str, given: str, short: Path) -> None:
    card = read_card(short)
    assert card is not None
    lines = page(card.model_copy(update={"recipe": recipe(name).stored()})).splitlines()
    row = {line.split(" | ")[0].removeprefix("| "): line for line in lines if line.startswith("| ")}
    assert row[ours].endswith("| our choice |")
    assert row[given].endswith(f"| `{name}` |")


def test_the_files_name_no_folder_of_this_machine(short: Path, room: Path) -> None:
    for file in short.iterdir():
        if file.is_file():
            assert str(room).encode() not in file.read_bytes(), file.name
            assert str(BASE.parent).encode() not in file.read_bytes(), file.name


def _asked(adapter: Path, **options: object) -> VlmSettings:
    chosen = EngineOptions(model=str(BASE), adapter=str(adapter), **options)  # type: ignore[arg-type]
    return settings(chosen, with_weights=True)


def test_a_scan_takes_words_and_picture_size_from_the_card(short: Path) -> None:
    card = read_card(short)
    assert card is not None
    found = _asked(short)
    assert (found.protocol.version, found.max_pixels) == (card.protocol_version, MAX_PIXELS)
    assert _asked(short, protocol="binary:ours-1,first").protocol.name == "binary:ours-1,first"


def test_the_texts_of_the_card_are_asked_with_every_reading(short: Path, tmp_path: Path) -> None:
    texts = 'ours_1: "Ist etwas Privates zu sehen?"'
    plain = _asked(short, protocol="binary:ours-1,first").protocol
    card = json.loads((short / "privsieve.json").read_text())
    shutil.copytree(short, tmp_path / "german")
    (tmp_path / "german" / "privsieve.json").write_text(json.dumps(card | {"prompt_file": texts}))
    german = _asked(tmp_path / "german", protocol="binary:ours-1,first").protocol
    assert german.version != plain.version
    assert "Ist etwas Privates zu sehen?" in str(german.prompt)


@pytest.mark.parametrize(
    ("change", "options", "problem"),
    [
        ({"protocol_version": "binary:ours-1-99 000000000000"}, {}, "was tuned on the texts of binary:ours-1-99"),
        ({"max_pixels": 0}, {}, "is damaged"),
        ({"format": 99}, {}, "has the format 99, and this privsieve reads format 1"),
        ({}, {"protocol": "slots"}, "was tuned to answer binary:ours-1"),
        ({}, {"max_pixels": 10_000}, "was tuned with pictures of at most"),
    ],
)
def test_a_scan_that_does_not_fit_the_card_is_refused(
    short: Path, tmp_path: Path, change: dict[str, object], options: dict[str, object], problem: str
) -> None:
    shutil.copytree(short, tmp_path / "adapter")
    card = json.loads((short / "privsieve.json").read_text())
    (tmp_path / "adapter" / "privsieve.json").write_text(json.dumps(card | change))
    with pytest.raises(EngineError, match=problem):
        _asked(tmp_path / "adapter", **options)


def test_another_base_model_is_refused(short: Path, tmp_path: Path) -> None:
    shutil.copytree(BASE, tmp_path / "other")
    weights = load_file(BASE / "model.safetensors")
    name = next(iter(weights))
    save_file(weights | {name: weights[name] + 0.5}, tmp_path / "other" / "model.safetensors", {"format": "pt"})
    chosen = settings(EngineOptions(model=str(tmp_path / "other"), adapter=str(short)), with_weights=True)
    with pytest.raises(EngineError, match="files differ from those of"):
        description("transformers", chosen, ())


def test_an_adapter_whose_tuning_has_not_ended_is_refused(short: Path, tmp_path: Path) -> None:
    shutil.copytree(short, tmp_path / "adapter")
    (tmp_path / "adapter" / BEGUN).write_text("{}")
    with pytest.raises(EngineError, match="has not ended"):
        _asked(tmp_path / "adapter")
