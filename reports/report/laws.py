"""Which law each attribute touches: `laws.yaml` as data. Its head names the source, and what is our own mapping."""

from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any, Literal

import yaml

from scoring.taxonomy import KEYS

LAWS = {"gdpr": "GDPR", "hipaa": "HIPAA", "eu_ai_act": "EU AI Act", "ccpa": "CCPA/CPRA"}
"""Field of `Mapped` -> name of the law."""


@dataclass(frozen=True)
class Mapped:
    """What laws say of one attribute; None where nothing is mapped."""

    attribute: str
    mapped_by: Literal["paper", "us"] | None
    gdpr: str | None = None
    hipaa: str | None = None
    eu_ai_act: str | None = None
    ccpa: str | None = None


@dataclass(frozen=True)
class Rule:
    """A rule of law to which several attributes point."""

    law: str
    article: str
    about: str
    attributes: tuple[str, ...]
    """An image counts if it shows one of these, …"""

    together_with: tuple[str, ...] = ()
    """… and one of these, if there are any."""


@cache
def law_map() -> tuple[Mapped, ...]:
    """Every attribute, in the order of the taxonomy."""
    content = _content()["attributes"]
    return tuple(Mapped(key, **content[key]) for key in KEYS)


@cache
def rules() -> tuple[Rule, ...]:
    return tuple(
        Rule(
            rule["law"],
            rule["article"],
            rule["about"],
            tuple(rule["attributes"]),
            tuple(rule.get("together_with", ())),
        )
        for rule in _content()["rules"]
    )


@cache
def _content() -> dict[str, Any]:
    text = resources.files("reports").joinpath("report", "laws.yaml").read_text(encoding="utf-8")
    content: dict[str, Any] = yaml.safe_load(text)
    return content
