"""The Compositional Privacy Risk Taxonomy, read from `taxonomy.yaml`, whose head names the source.

Everything else follows from it: columns, weights of the severity score, prompts, reports.

`QUESTIONS` say on which level something belongs: the first of four questions that is answered yes decides.
Their source is Tsaprazlis et al., "Rethinking Visual Privacy", appendix B.1, in our own words. The paper does not say
what four times no means; here it means that the taxonomy has no place for it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from importlib import resources
from typing import Literal

import yaml

FIRST_VERSION = "cprt-1"


@dataclass(frozen=True)
class Laws:
    """Articles of laws that an attribute touches; None if nothing is mapped."""

    mapped_by: Literal["paper", "us"] | None = None
    gdpr: str | None = None
    hipaa: str | None = None
    eu_ai_act: str | None = None
    ccpa: str | None = None


@dataclass(frozen=True)
class Attribute:
    """One thing that an image can show about a person."""

    key: str
    """Column name."""

    level: Literal[1, 2, 3, 4]
    """1 (identifies on its own) to 4 (harmless context)."""

    title: str
    """Name in reports."""

    shows: str
    """What the image must show for a 1."""

    question: str
    """Question to a vision-language model."""

    ambiguous: str | None = None
    """When 0.5 is right: there is a cue, and it is unclear; with no cue at all it is 0. None if the taxonomy names no
    such case."""

    laws: Laws = field(default_factory=Laws)

    since: str = FIRST_VERSION
    """Version of the taxonomy that brought the attribute."""

    @property
    def is_later(self) -> bool:
        """Whether rows of older runs lack the attribute's columns."""
        return self.since != FIRST_VERSION


@dataclass(frozen=True)
class Level:
    """A level of severity."""

    name: str

    score: tuple[float, float]
    """Interval of severity scores whose most severe attribute is of this level."""


@dataclass(frozen=True)
class Taxonomy:
    """Levels and attributes, in canonical order."""

    version: str
    levels: dict[int, Level]
    attributes: dict[str, Attribute]

    @cached_property
    def level_sizes(self) -> tuple[int, ...]:
        """Number of attributes in levels 1 to 4."""
        return tuple(sum(a.level == level for a in self.attributes.values()) for level in sorted(self.levels))

    @cached_property
    def weights(self) -> tuple[int, ...]:
        """What one attribute of level 1…4 adds to s_lex: place values of a number whose digits are counts per level."""
        weights = [1]
        for size in reversed(self.level_sizes[1:]):
            weights.append(weights[-1] * (size + 1))
        return tuple(reversed(weights))

    @cached_property
    def num_combinations(self) -> int:
        """Number of different counts per level."""
        return self.weights[0] * (self.level_sizes[0] + 1)


def load_taxonomy(text: bytes) -> Taxonomy:
    """Parse the YAML of a taxonomy. TypeError for missing or unknown fields."""
    content = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    levels = {number: Level(level["name"], tuple(level["score"])) for number, level in content["levels"].items()}
    attributes = {
        key: Attribute(key, **fields | {"laws": Laws(**fields.get("laws", {}))})
        for key, fields in content["attributes"].items()
    }
    return Taxonomy(content["version"], levels, attributes)


TAXONOMY = load_taxonomy(resources.files("scoring").joinpath("taxonomy.yaml").read_bytes())

ATTRIBUTES = tuple(TAXONOMY.attributes.values())
KEYS = tuple(TAXONOMY.attributes)
LEVELS: dict[int, str] = {0: "none", **{number: level.name for number, level in TAXONOMY.levels.items()}}
"""Level number to its name; 0 means that no attribute is present."""


@dataclass(frozen=True)
class PlacingQuestion:
    """A question about one kind of information, such as a passport number."""

    level: int
    """The level of what is answered yes."""

    text: str
    worked_cases: tuple[str, ...]
    """What the paper answers with yes here, and with no before."""


QUESTIONS = (
    PlacingQuestion(
        1,
        "Does it belong to one person permanently, and is it enough to identify that person without anything else?",
        (
            "passport number",
            "recognisable face",
            "fingerprint",
            "driver's licence number",
            "social security number",
        ),
    ),
    PlacingQuestion(
        2,
        "Was it assigned to a person, or does it reveal something sensitive about one?",
        (
            "full legal name",
            "diagnosis",
            "pregnancy",
            "party membership",
            "sexual orientation (inferred)",
            "race or ethnicity",
            "mental condition, such as depression",
        ),
    ),
    PlacingQuestion(
        3,
        "Does it identify no one alone, and help to identify or profile somebody in combination with other things?",
        ("age", "gender", "occupation", "location at the level of a city", "hobby, such as running marathons"),
    ),
    PlacingQuestion(
        4,
        "Is it harmless in general, and private in some situations?",
        ("interior of a home", "expensive watch"),
    ),
)


def level_of_answers(answers: Iterator[bool]) -> int | None:
    """Take answers to `QUESTIONS` until one is yes: its level, 1–4. None if there are four times no.

    No further answer is taken, so an iterator can ask a person.
    """
    for question, is_yes in zip(QUESTIONS, answers, strict=False):
        if is_yes:
            return question.level
    return None


def placed(level: int | None) -> str:
    """Say where something belongs, in words."""
    if level is None:
        return "none of the four levels: the taxonomy has no place for it"
    return f"level {level}, {LEVELS[level]}"
