"""Every protocol, by the names that a user would write."""

from scoring.assessment import Assessment, Outcome
from scoring.protocols import protocol
from scoring.protocols.interface import Prompt, Protocol, ProtocolOptions

ALL_NAMES = (
    "slots",
    "json",
    "two-pass",
    "severity:zero-shot",
    "severity:intuition",
    "severity:taxonomy",
    "severity:taxonomy,counterfactual",
    "binary:p1",
    "binary:p2",
    "binary:p3",
    "binary:p4",
    "binary:p1,classes",
    "binary:p1,reason",
    "binary:p1,lenient",
    "binary:p1,first",
    "binary:p2,classes,first",
)


def ask(name: str, **options: bytes | bool) -> Protocol:
    return protocol(name, ProtocolOptions(**options))  # type: ignore[arg-type]


def assessed(outcome: Outcome | Prompt) -> Assessment:
    assert isinstance(outcome, Assessment), outcome
    return outcome
