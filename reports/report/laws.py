"""Rules of law to which attributes point: `laws.yaml` as data."""

from dataclasses import dataclass
from functools import cache
from importlib import resources

import yaml

LAWS = {"gdpr": "GDPR", "hipaa": "HIPAA", "eu_ai_act": "EU AI Act", "ccpa": "CCPA/CPRA"}
"""Field of `scoring.taxonomy.Laws` -> name of the law."""


@dataclass(frozen=True)
class LawRule:
    """A rule of law to which several attributes point."""

    law: str
    article: str
    about: str
    attributes: tuple[str, ...]
    """An image counts if it shows one of these, …"""

    together_with: tuple[str, ...] = ()
    """… and one of these, if there are any."""


@cache
def rules() -> tuple[LawRule, ...]:
    text = resources.files("reports").joinpath("report", "laws.yaml").read_text(encoding="utf-8")
    return tuple(
        LawRule(
            rule["law"],
            rule["article"],
            rule["about"],
            tuple(rule["attributes"]),
            tuple(rule.get("together_with", ())),
        )
        for rule in yaml.safe_load(text)["rules"]
    )
