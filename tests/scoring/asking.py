"""Every protocol, by the names that a user would write."""

import json

from scoring.assessment import Assessment, Outcome
from scoring.protocols import protocol
from scoring.protocols.interface import Prompt, Protocol, Text
from scoring.taxonomy import KEYS

VERSIONS = {
    "slots": "slots-1 065ccf43bc18",
    "json": "json-1 359aa63c87ac",
    "slots:counterfactual": "slots:counterfactual-1 c8c822b27d7f",
    "slots:digits": "slots:digits-1 dc75fe6e7e31",
    "json:counterfactual": "json:counterfactual-1 11bd6cea2285",
    "two-pass": "two-pass-1 b974ba4bbd51",
    "severity:zero-shot": "severity:zero-shot-1 ee5acc5057c1",
    "severity:intuition": "severity:intuition-1 2f0829f59ac0",
    "severity:taxonomy": "severity:taxonomy-1 f43d52936ace",
    "severity:taxonomy,counterfactual": "severity:taxonomy,counterfactual-1 ff3bbfdaac1a",
    "binary:ours-1": "binary:ours-1-1 41b697ee30b1",
    "binary:ours-2": "binary:ours-2-1 6487292abbcf",
    "binary:ours-3": "binary:ours-3-1 6046a8dfb203",
    "binary:ours-4": "binary:ours-4-1 6f727699365d",
    "binary:ours-1,classes": "binary:ours-1,classes-1 ed213cd9fa90",
    "binary:ours-1,reason": "binary:ours-1,reason-1 7496d00e1824",
    "binary:ours-1,lenient": "binary:ours-1,lenient-1 f7cff3cf7520",
    "binary:ours-1,first": "binary:ours-1,first-1 e1ead6389526",
    "binary:ours-2,classes,first": "binary:ours-2,classes,first-1 b6ee543b0218",
    "binary:ours-1,class-names": "binary:ours-1,class-names-1 908616ba79e9",
}
"""Name -> version that runs record. If one differs, the wording changed, and runs that began before cannot go on."""

ALL_NAMES = tuple(VERSIONS)


def ask(name: str, prompts: bytes | None = None) -> Protocol:
    return protocol(name, prompts)


def assessed(outcome: Outcome | Prompt) -> Assessment:
    assert isinstance(outcome, Assessment), outcome
    return outcome


def texts_of(prompt: Prompt) -> str:
    return "\n".join(part.text for m in prompt.messages for part in m.parts if isinstance(part, Text))


def form(default: float = 0, **numbers: float) -> str:
    return json.dumps({key: numbers.get(key, default) for key in KEYS})
