"""What a browser may send. Everything else is refused before it is used."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from scoring.labels.reviews import ANSWERS
from scoring.taxonomy import KEYS

MAX_BODY_BYTES = 2**16
MAX_BOXES = 64

Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PostedBox(_Strict):
    """Sides as fractions of the displayed picture."""

    attribute: str | None
    by: Literal["model", "person"]
    x_min: Share
    y_min: Share
    x_max: Share
    y_max: Share

    @field_validator("attribute")
    @classmethod
    def _known(cls, key: str | None) -> str | None:
        if key is not None and key not in KEYS:
            raise ValueError("no attribute")
        return key


class PostedAnswer(_Strict):
    number: Annotated[int, Field(ge=0)]
    """Number of the picture, as the server gave it."""

    answer: str
    """One of `scoring.labels.reviews.ANSWERS`."""

    values: dict[str, float | None] | None = None
    """Each of the 22 attributes -> 0, 0.5 or 1, None if the person cannot say."""

    boxes: Annotated[list[PostedBox], Field(max_length=MAX_BOXES)] | None = None
    """None if the person changed none."""

    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None

    @field_validator("answer")
    @classmethod
    def _answer(cls, answer: str) -> str:
        if answer not in ANSWERS:
            raise ValueError("no answer")
        return answer

    @field_validator("values")
    @classmethod
    def _attributes(cls, values: dict[str, float | None] | None) -> dict[str, float | None] | None:
        if values is not None and (set(values) != set(KEYS) or not set(values.values()) <= {0, 0.5, 1, None}):
            raise ValueError("every attribute once, 0, 0.5, 1 or null")
        return values


class PostedName(_Strict):
    name: Annotated[str, Field(max_length=1000)]
