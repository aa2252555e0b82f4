"""Recipes: the shipped ones, and files of users."""

from pathlib import Path

import pytest

from ingest.errors import LabelsError, PrivsieveError, StorageError
from ingest.storage.given_files import MAX_SETTINGS_BYTES
from scoring.tuning.recipe import SHIPPED, Recipe, other_setting, recipe

GOOD = {"name": "mine", "rank": 8, "alpha": 16, "learning_rate": 0.001, "batch_size": 4, "epochs": 2}


def written(tmp_path: Path, **fields: object) -> str:
    file = tmp_path / "mine.yaml"
    given = {name: value for name, value in {**GOOD, **fields}.items() if value is not None}
    file.write_text("\n".join(f"{name}: {value}" for name, value in given.items()))
    return str(file)


def test_the_shipped_recipes_have_the_values_of_the_papers() -> None:
    cprt, cprt_80, cprt_160, privtune, internvl = (recipe(name) for name in SHIPPED)
    assert (cprt.rank, cprt.learning_rate, cprt.batch_size, cprt.epochs) == (64, 1e-5, 128, 5)
    assert (privtune.rank, privtune.alpha, privtune.learning_rate) == (32, 64, 2e-5)
    assert (privtune.batch_size, privtune.epochs, privtune.warmup_share) == (8, 20, 0.03)
    assert privtune.schedule == "cosine"
    assert "schedule" not in privtune.our_choices
    assert {"alpha", "schedule", "learning_rate"} <= set(cprt.our_choices)
    assert (cprt_80.max_steps, cprt_160.max_steps, cprt_80.epochs, cprt.max_steps) == (80, 160, None, None)
    assert other_setting(cprt_80.stored(), cprt_160.stored() | {"name": "cprt-80"}) == "max_steps"
    assert (internvl.rank, internvl.text_tokens, privtune.text_tokens) == (16, 8192, 3072)
    assert "alpha" in internvl.our_choices


@pytest.mark.parametrize("name", SHIPPED)
def test_what_a_shipped_recipe_does_not_give_is_marked_as_our_choice(name: str) -> None:
    from importlib import resources

    from scoring.yaml_files import load_yaml

    given = load_yaml(resources.files("scoring.tuning").joinpath(f"recipes/{name}.yaml").read_bytes(), name)
    assert len({"epochs", "max_steps"} & set(given)) == 1
    assert set(Recipe.model_fields) - set(given) - {"epochs", "max_steps"} <= set(given["our_choices"])
    assert given["source"]


def test_a_recipe_of_a_user_has_defaults(tmp_path: Path) -> None:
    found = recipe(written(tmp_path, learning_rate="2e-3", our_choices="[alpha, epochs]"))
    assert (found.rank, found.learning_rate, found.epochs, found.dropout) == (8, 2e-3, 2.0, 0.0)
    assert found.our_choices == ("alpha", "epochs")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"learning_rat": 1}, 'has an unknown field "learning_rat" (did you mean "learning_rate"?)'),
        ({"1": 1}, 'has an unknown field "1"'),
        ({"rank": None}, "rank: field required"),
        ({"learning_rate": ".nan"}, "learning_rate is nan; input should be"),
        ({"learning_rate": -0.1}, "learning_rate is -0.1; input should be greater than 0"),
        ({"learning_rate": 1}, "learning_rate is 1; input should be less than 1"),
        ({"alpha": ".inf"}, "alpha is inf; input should be a finite number"),
        ({"max_grad_norm": ".inf"}, "max_grad_norm is inf; input should be a finite number"),
        ({"weight_decay": "-1"}, "weight_decay is -1; input should be greater than or equal to 0"),
        ({"rank": 0}, "rank is 0; input should be greater than or equal to 1"),
        ({"rank": 8.5}, "rank is 8.5; input should be a valid integer"),
        ({"rank": "yes"}, "rank is True; input should be a valid integer"),
        ({"epochs": "'2'"}, "epochs is '2'; input should be a valid number"),
        ({"batch_size": 10**9}, "batch_size is 1000000000; input should be less than or equal to 65536"),
        ({"schedule": "cosin"}, "schedule is 'cosin'; input should be 'cosine', 'linear' or 'constant'"),
        ({"vision": 1}, "vision is 1; input should be a valid boolean"),
        ({"our_choices": "[alfa]"}, 'our_choices: there is no field "alfa" (did you mean "alpha"?)'),
        ({"name": "[a, b]"}, "name is ['a', 'b']; input should be a valid string"),
        ({"epochs": None}, ": give epochs or max_steps, one of them"),
        ({"max_steps": 3}, ": give epochs or max_steps, one of them"),
        ({"epochs": None, "max_steps": 0}, "max_steps is 0; input should be greater than or equal to 1"),
    ],
    ids=str,
)
def test_a_wrong_field_is_named_with_its_value(tmp_path: Path, fields: dict[str, object], message: str) -> None:
    file = written(tmp_path, **fields)
    with pytest.raises(LabelsError) as error:
        recipe(file)
    assert str(error.value).startswith(f"the recipe {file}")
    assert message in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "must map names of fields to values"),
        (b"- a\n- b", "must map names of fields to values"),
        (b"rank: [", "is not valid YAML at line"),
        (b"rank: 1\nrank: 2", 'the key "rank" occurs twice'),
        (b"\xff\xfe\x00", "is not valid YAML"),
        (b"!!python/object/apply:os.system [id]", "is not valid YAML"),
        (b"a" * (MAX_SETTINGS_BYTES + 1), "has more than 1,048,576 bytes, the most that such a file may have"),
    ],
)
def test_a_file_that_is_no_recipe_is_refused(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "odd.yaml"
    file.write_bytes(content)
    with pytest.raises(PrivsieveError, match=message):
        recipe(str(file))


def test_a_recipe_that_is_not_there_is_refused_with_the_near_name(tmp_path: Path) -> None:
    with pytest.raises(
        LabelsError,
        match=r'there is no recipe ptivtune \(did you mean "privtune"\?\); give a YAML file, .* shipped: cprt',
    ):
        recipe("ptivtune")
    with pytest.raises(StorageError, match="cannot be read: is a directory"):
        recipe(str(tmp_path))
