"""Every protocol, by the names that a user would write."""

import json

from scoring.assessment import Assessment, Outcome
from scoring.protocols import protocol
from scoring.protocols.interface import Prompt, Protocol, ProtocolOptions, Text
from scoring.taxonomy import KEYS

ALL_NAMES = (
    "slots",
    "json",
    "slots:counterfactual",
    "slots:digits",
    "json:counterfactual",
    "two-pass",
    "severity:zero-shot",
    "severity:intuition",
    "severity:taxonomy",
    "severity:taxonomy,counterfactual",
    "binary:ours-1",
    "binary:ours-2",
    "binary:ours-3",
    "binary:ours-4",
    "binary:ours-1,classes",
    "binary:ours-1,reason",
    "binary:ours-1,lenient",
    "binary:ours-1,first",
    "binary:ours-2,classes,first",
    "binary:ours-1,class-names",
    "binary:ours-1,de",
    "binary:ours-3,ru,lenient",
    "binary:ours-1,zh,class-names,first",
)


def ask(name: str, **options: bytes | bool) -> Protocol:
    return protocol(name, ProtocolOptions(**options))  # type: ignore[arg-type]


def assessed(outcome: Outcome | Prompt) -> Assessment:
    assert isinstance(outcome, Assessment), outcome
    return outcome


def file_of(name: str) -> str:
    """Name of the file with the texts of a protocol, in the language of its variant."""
    base, _, variants = name.partition(":")
    language = {"de", "ru", "zh"} & set(variants.split(","))
    return "-".join([base, *language])


def texts_of(prompt: Prompt) -> str:
    return "\n".join(part.text for m in prompt.messages for part in m.parts if isinstance(part, Text))


def form(default: float = 0, **numbers: float) -> str:
    return json.dumps({key: numbers.get(key, default) for key in KEYS})
