"""Hyper-parameters of a tuning run. `cprt` and `privtune` are those of two papers; a user can give a file instead.

Fields that a paper does not give are our choice: a recipe lists them under `our_choices`, and the adapter's card marks
them.
"""

from importlib import resources
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from ingest.errors import LabelsError, MissingFileError, did_you_mean
from ingest.storage.given_files import given_content
from ingest.storage.place import place
from scoring.yaml_files import YamlError, load_yaml

SHIPPED = ("cprt", "privtune")
MAX_RECIPE_BYTES = 100_000


class Recipe(BaseModel):
    """The content of a recipe file."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)

    name: str
    rank: Annotated[int, Field(ge=1, le=512)]
    """Rank of the LoRA matrices."""

    alpha: Annotated[float, Field(gt=0)]
    """The update is scaled by alpha / rank."""

    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    learning_rate: Annotated[float, Field(gt=0, lt=1)]
    schedule: Literal["cosine", "linear", "constant"] = "cosine"
    warmup_share: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Share of the steps in which the learning rate rises from 0."""

    batch_size: Annotated[int, Field(ge=1, le=65536)]
    """Pictures per step, over all devices."""

    epochs: Annotated[float, Field(gt=0, le=10_000)]
    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    max_grad_norm: Annotated[float, Field(gt=0)] = 1.0
    vision: bool = False
    """Whether the vision tower is tuned too."""

    our_choices: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Fields that the source of the recipe does not give."""

    source: str = ""
    """Source of the other values."""

    @field_validator("our_choices")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if name not in cls.model_fields:
                raise ValueError(f'there is no field "{name:.40}"{did_you_mean(name, cls.model_fields)}')
        return names


def recipe(name_or_file: str) -> Recipe:
    """Load a shipped recipe, or that of a YAML file. LabelsError if there is none, or a field is wrong."""
    if name_or_file in SHIPPED:
        content = resources.files("scoring.tuning").joinpath(f"recipes/{name_or_file}.yaml").read_bytes()
    else:
        content = _given(name_or_file)
    try:
        fields = load_yaml(content, f"the recipe {name_or_file}")
    except YamlError as error:
        raise LabelsError(str(error)) from None
    if not isinstance(fields, dict):
        raise LabelsError(
            f"the recipe {name_or_file} must map names of fields to values; privsieve help tuning has an example"
        )
    for field in fields:
        if field not in Recipe.model_fields:
            near = did_you_mean(str(field), Recipe.model_fields)
            raise LabelsError(f'the recipe {name_or_file} has an unknown field "{field!s:.40}"{near}')
    try:
        return Recipe.model_validate(fields)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        has_value = first["type"] != "missing" and where != "our_choices"
        value = f" is {first['input']!r:.40};" if has_value else ":"
        reason = first["msg"].removeprefix("Value error, ")
        raise LabelsError(f"the recipe {name_or_file}: {where}{value} {reason[0].lower()}{reason[1:]}") from None


def _given(file: str) -> bytes:
    try:
        return given_content(place(file), f"--recipe {file}", MAX_RECIPE_BYTES)
    except MissingFileError:
        raise LabelsError(
            f'no recipe "{file}"{did_you_mean(file, SHIPPED)}; shipped are {", ".join(SHIPPED)}, or name a file'
        ) from None
