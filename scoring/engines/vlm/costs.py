"""Costs of a vision-language engine for plans."""

from scoring.assessment import EngineOptions
from scoring.engine_facts import Costs, RecordedHostCost, RecordedSpeed
from scoring.engines.picture import DEFAULT_MAX_PIXELS
from scoring.engines.vlm.settings import DEFAULT_PROTOCOL
from scoring.protocols import chosen_protocol

MACHINE = "one thread of an AMD EPYC with two cores, vLLM 0.32 and transformers 5.19"
"""Machine on which `python -m tests.benchmarks.host_cost` measured the `HOST_COST` of both engines."""


def costs_of(options: EngineOptions, host: RecordedHostCost, speed: RecordedSpeed | None) -> Costs:
    """Return the costs. EngineError for a wrong protocol, prompt file or thresholds file."""
    chosen_protocol(options, DEFAULT_PROTOCOL)
    return Costs(options.max_pixels or DEFAULT_MAX_PIXELS, host, speed)
