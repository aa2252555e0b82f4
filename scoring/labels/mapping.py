"""Mappings: which of the 22 attributes a label of another source means; shipped as YAML, or a user's own."""

from collections.abc import Collection, Mapping
from importlib import resources
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from ingest.errors import LabelsError, did_you_mean
from scoring.taxonomy import KEYS
from scoring.yaml_files import load_yaml, shipped_or_given

SHIPPED = ("vispr", "privbench", "biv-priv", "privacyalert")

MAX_MAPPING_BYTES = 10 * 2**20

Text = Annotated[str, Field(min_length=1, max_length=200)]


class LabelMapping(BaseModel):
    """A mapping file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Text
    version: Annotated[int, Field(ge=1)]

    source: Text
    """The source of the labels, in words."""

    licence: Text
    """Licence of this file, not of the labels."""

    absent_is_zero: bool
    """Whether the source judged every picture for all of its labels: if so, attributes without any of their labels are
    0, else null."""

    safe: tuple[Text, ...] = ()
    """Labels that say that nothing private is shown. They map to no attribute and are not counted as unmapped."""

    only_affirmed: tuple[Text, ...] = ()
    """Attributes that are never 0, since the source has labels for a part of them only."""

    entries: Mapping[str, Mapping[str, float]]
    """Label of the source -> attributes that it means. An empty entry is a label that fits no attribute."""

    @field_validator("entries")
    @classmethod
    def _known(cls, entries: Mapping[str, Mapping[str, float]]) -> Mapping[str, Mapping[str, float]]:
        _refuse_unknown({key for entry in entries.values() for key in entry})
        if any(value not in (0.5, 1) for entry in entries.values() for value in entry.values()):
            raise ValueError("an entry gives an attribute 0.5 or 1; leave out attributes that its label does not mean")
        return entries

    @field_validator("only_affirmed")
    @classmethod
    def _known_affirmed(cls, keys: tuple[str, ...]) -> tuple[str, ...]:
        _refuse_unknown(keys)
        return keys

    @property
    def title(self) -> str:
        """Name and version, for the origin of labels."""
        return f"{self.name} {self.version}"

    @property
    def keys(self) -> tuple[str, ...]:
        """Attributes that any label means, in canonical order; all others are always null."""
        mapped = {key for entry in self.entries.values() for key in entry}
        return tuple(key for key in KEYS if key in mapped)

    def values(self, labels: Collection[str]) -> dict[str, float]:
        """Return attribute -> 0, 0.5 or 1, the highest of all labels. Missing attributes are null.

        A picture without any label was not judged, so all of its attributes are null.
        """
        if not labels:
            return {}
        values = dict.fromkeys(set(self.keys) - set(self.only_affirmed), 0.0) if self.absent_is_zero else {}
        for label in labels:
            for key, value in self.entries.get(label, {}).items():
                values[key] = max(values.get(key, 0.0), float(value))
        return values

    def unmapped(self, labels: Collection[str]) -> list[str]:
        """Return the labels that fit no attribute."""
        return [label for label in labels if not self.entries.get(label) and label not in self.safe]


def load_mapping(name: str) -> LabelMapping:
    """Load a shipped mapping by its name, or a YAML file by its path. LabelsError if it is neither or wrong."""
    folder = resources.files("scoring.labels") / "mappings"
    content = shipped_or_given("mapping", name, SHIPPED, folder, LabelsError, MAX_MAPPING_BYTES)
    try:
        return LabelMapping.model_validate(load_yaml(content, f"the mapping {name}", LabelsError))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        position = ".".join(str(part) for part in first["loc"]) or "the file"
        raise LabelsError(f'the mapping {name}: "{position:.80}": {first["msg"].lower()}') from None


def _refuse_unknown(keys: Collection[str]) -> None:
    for key in sorted(keys):
        if key not in KEYS:
            raise ValueError(f'there is no attribute "{key:.40}"{did_you_mean(key, KEYS)}')
