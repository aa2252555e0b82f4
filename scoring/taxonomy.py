"""The Compositional Privacy Risk Taxonomy, read from `taxonomy.yaml`, whose head names the source.

Everything else follows from it: columns, weights of the severity score, prompts, reports. The variable
`PRIVSIEVE_TAXONOMY` names the file of another taxonomy, which
`examples/papers/fit_bands.py` has written. Processes that a command starts, here and on machines of a cluster, get the
content of the file by `CARRIED_VARIABLES`.
"""

import base64
import hashlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib import resources
from typing import Any, Literal

import yaml

from ingest.errors import LabelsError
from ingest.storage.given_files import given_content
from ingest.storage.place import place

PUBLISHED = "cprt-"
"""Beginning of the versions of the published taxonomy."""

TAXONOMY_VARIABLE = "PRIVSIEVE_TAXONOMY"
CARRIED = "base64:"
"""Begins the value of the variable where it holds the content of the file."""
MAX_CARRIED_BYTES = 2**16
"""Limit of the file. Linux allows 128 KiB for a variable, and base64 makes 4 bytes of 3."""
MAX_COMBINATIONS = 2**15
"""`s_lex` is an int16."""


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


@dataclass(frozen=True)
class Level:
    """A level of severity."""

    name: str

    score: tuple[float, float] | None = None
    """Interval of severity scores whose most severe attribute is of this level; None before bands are fitted."""


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

    @cached_property
    def bands(self) -> tuple[tuple[float, float], ...]:
        """Interval of severity scores of each level in order; empty before they are fitted."""
        scores = [self.levels[number].score for number in sorted(self.levels)]
        known = tuple(score for score in scores if score is not None)
        return known if len(known) == len(scores) else ()

    @property
    def is_published(self) -> bool:
        return self.version.startswith(PUBLISHED)


def load_taxonomy(text: bytes) -> Taxonomy:
    """Parse the YAML of a taxonomy. TypeError for missing or unknown fields."""
    content = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    levels = {
        number: Level(level["name"], tuple(level["score"]) if "score" in level else None)
        for number, level in content["levels"].items()
    }
    attributes = {
        key: Attribute(key, **fields | {"laws": Laws(**fields.get("laws", {}))})
        for key, fields in content["attributes"].items()
    }
    return Taxonomy(content["version"], levels, attributes)


def given_taxonomy(url: str) -> Taxonomy:
    """Read the file of another taxonomy, with or without bands. LabelsError or StorageError in one line."""
    return _checked_taxonomy(given_content(place(url), url), url)


def _checked_taxonomy(content: bytes, url: str) -> Taxonomy:
    try:
        taxonomy = load_taxonomy(content)
        levels, keys = taxonomy.levels, list(taxonomy.attributes)
        texts = [taxonomy.version, *keys, *(level.name for level in levels.values())]
        texts += [text for a in taxonomy.attributes.values() for text in (a.title, a.shows, a.question)]
        is_sound = all(isinstance(text, str) for text in texts)
        is_sound &= all(len(band) == 2 and 0 <= band[0] < band[1] <= 1 for band in taxonomy.bands)
    except (yaml.YAMLError, TypeError, LookupError, AttributeError, ValueError, RecursionError):
        is_sound = False
    if not is_sound:
        raise LabelsError(f"{url} is not a taxonomy: write it like scoring/taxonomy.yaml, with the same fields")
    wrong = next((key for key in keys if not re.fullmatch("(?!prob_)[a-z][a-z0-9_]{0,59}", key)), None)
    if wrong is not None:
        raise LabelsError(
            f'{url}: the attribute "{wrong:.60}" is no name of small letters, digits and _, or begins with prob_'
        )
    if set(levels) != {1, 2, 3, 4} or {a.level for a in taxonomy.attributes.values()} != {1, 2, 3, 4}:
        raise LabelsError(f"{url}: a taxonomy has the levels 1 to 4, each with an attribute, and no others")
    if taxonomy.num_combinations > MAX_COMBINATIONS:
        raise LabelsError(
            f"{url}: {taxonomy.num_combinations:,} combinations of counts per level; {MAX_COMBINATIONS:,} are the most"
        )
    if taxonomy.is_published:
        raise LabelsError(
            f"{url}: versions that begin with {PUBLISHED} have the published bands; give your taxonomy another version"
        )
    return taxonomy


def fitted_version(content: Mapping[str, Any], version: str) -> str:
    """Return the version of a fitted taxonomy: the one that its author gave it, and part of a hash of its content."""
    text = yaml.safe_dump({**content, "version": version}, sort_keys=False, allow_unicode=True)
    return f"{version}-{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def _taxonomy_in_use() -> tuple[Taxonomy, bytes]:
    """Return the taxonomy, and the content of its file if the variable gives one."""
    if not (value := os.environ.get(TAXONOMY_VARIABLE, "")):
        return load_taxonomy(resources.files("scoring").joinpath("taxonomy.yaml").read_bytes()), b""
    if value.startswith(CARRIED):
        name = f"the content behind {CARRIED} ({TAXONOMY_VARIABLE})"
        try:
            content = base64.b64decode(value.removeprefix(CARRIED))
        except ValueError:
            raise LabelsError(f"{name} is damaged; name the file instead") from None
    else:
        name = f"{value} ({TAXONOMY_VARIABLE})"
        content = given_content(place(value), name, MAX_CARRIED_BYTES)
    taxonomy = _checked_taxonomy(content, name)
    if not taxonomy.bands:
        raise LabelsError(f"{name} has no bands yet; privsieve help taxonomy says how to fit them")
    if taxonomy.version != fitted_version(yaml.safe_load(content), taxonomy.version.rpartition("-")[0]):
        raise LabelsError(f"{name} was changed after its bands were fitted; fit them again")
    return taxonomy, content


TAXONOMY, _content = _taxonomy_in_use()

CARRIED_VARIABLES = {TAXONOMY_VARIABLE: CARRIED + base64.b64encode(_content).decode()} if _content else {}
"""Environment variables by which another process uses the taxonomy of this one; none for the published taxonomy."""

ATTRIBUTES = tuple(TAXONOMY.attributes.values())
KEYS = tuple(TAXONOMY.attributes)
LEVELS: dict[int, str] = {0: "none", **{number: level.name for number, level in TAXONOMY.levels.items()}}
"""Level number to its name; 0 means that no attribute is present."""
