"""Hyper-parameters of a tuning run. The shipped ones are those of two papers; a user can give a file instead.

Fields that a paper does not give are our choice: a recipe lists them under `our_choices`, and the adapter's card marks
them.
"""

from collections.abc import Mapping
from importlib import resources
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from ingest.errors import LabelsError, did_you_mean
from scoring.yaml_files import load_yaml, shipped_or_given

SHIPPED = ("cprt", "cprt-80", "cprt-160", "privtune", "privtune-internvl")


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
    """Pictures per step."""

    epochs: Annotated[float, Field(gt=0, le=10_000)] | None = None
    """How often the training set is gone through; None if `max_steps` says how long."""

    max_steps: Annotated[int, Field(ge=1, le=10_000_000)] | None = None
    """Steps in all, whatever the size of the set; None if `epochs` says how long."""

    text_tokens: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Most tokens of a conversation with its prompt, without those of the picture; a longer one is refused. None: as
    many as the model takes."""

    weight_decay: Annotated[float, Field(ge=0)] = 0.0
    max_grad_norm: Annotated[float, Field(gt=0)] = 1.0
    vision: bool = False
    """Whether the vision tower is tuned too."""

    our_choices: Annotated[tuple[str, ...], Field(strict=False)] = ()
    """Fields that the source of the recipe does not give."""

    source: str = ""
    """Source of the other values."""

    def stored(self) -> dict[str, object]:
        """Return what a card or a run that was begun keeps of the recipe. JSON types."""
        return self.model_dump(mode="json", exclude_none=True)

    @model_validator(mode="after")
    def _has_one_length(self) -> Self:
        if (self.epochs is None) == (self.max_steps is None):
            raise ValueError("give epochs or max_steps, one of them")
        return self

    @field_validator("our_choices")
    @classmethod
    def _known(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if name not in cls.model_fields:
                raise ValueError(f'there is no field "{name:.40}"{did_you_mean(name, cls.model_fields)}')
        return names


def other_setting(former: Mapping[str, object], wanted: Mapping[str, object]) -> str | None:
    """Return the first field that decides what is tuned, and differs between two recipes (`Recipe.stored`)."""
    decides_nothing = ("our_choices", "source", "text_tokens")
    fields = (field for field in {**wanted, **former} if field not in decides_nothing)
    return next((field for field in fields if former.get(field) != wanted.get(field)), None)


def recipe(name_or_file: str) -> Recipe:
    """Load a shipped recipe, or that of a YAML file. LabelsError if there is none, or a field is wrong."""
    folder = resources.files("scoring.tuning") / "recipes"
    content = shipped_or_given("recipe", name_or_file, SHIPPED, folder, LabelsError)
    fields = load_yaml(content, f"the recipe {name_or_file}", LabelsError)
    if not isinstance(fields, dict):
        raise LabelsError(
            f"the recipe {name_or_file} must map names of fields to values; privsieve help tuning lists the fields"
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
        which = f"{where}{value} " if where else ""  # nothing if fields contradict each other
        reason = first["msg"].removeprefix("Value error, ")
        raise LabelsError(f"the recipe {name_or_file}: {which}{reason[0].lower()}{reason[1:]}") from None
