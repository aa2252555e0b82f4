"""Every protocol, by the names that a user would write."""

import json

from scoring.assessment import Assessment, Outcome
from scoring.protocols import protocol
from scoring.protocols.interface import Prompt, Protocol, Text
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
)


def ask(name: str, prompts: bytes | None = None) -> Protocol:
    return protocol(name, prompts)


def assessed(outcome: Outcome | Prompt) -> Assessment:
    assert isinstance(outcome, Assessment), outcome
    return outcome


def texts_of(prompt: Prompt) -> str:
    return "\n".join(part.text for m in prompt.messages for part in m.parts if isinstance(part, Text))


def form(default: float = 0, **numbers: float) -> str:
    return json.dumps({key: numbers.get(key, default) for key in KEYS})
