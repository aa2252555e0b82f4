"""The user's choices for the endpoint, checked and completed."""

import math
from dataclasses import dataclass

from ingest.errors import EngineError
from scoring.assessment import ABOUT_THE_QUESTION, EngineDescription, EngineOptions
from scoring.endpoint import checked_url
from scoring.engines.picture import DEFAULT_MAX_PIXELS, max_side_px
from scoring.protocols import chosen_protocol
from scoring.protocols.interface import FirstToken, Protocol, Slots

NAME = "openai"
DEFAULT_PROTOCOL = "json"
DEFAULT_CONCURRENCY = 8
JPEG_QUALITY = 95
BATCH_VIEWS = 16
"""Typical number of views in one call of `assess`; with too few calls at once requests would come in waves."""
TAKEN = (*ABOUT_THE_QUESTION, "endpoint", "concurrency")


@dataclass(frozen=True)
class EndpointSettings:
    """The user's choices, checked."""

    endpoint: str
    """Base URL without a slash at its end."""

    model: str
    protocol: Protocol
    max_pixels: int
    concurrency: int
    """Requests of one engine at the same time."""


def settings(options: EngineOptions) -> EndpointSettings:
    """Check the options. EngineError in one line for anything wrong. The endpoint is not asked."""
    options.refuse_all_but(NAME, TAKEN)
    # No default: pictures must not be sent to a third party because an option was forgotten.
    if options.endpoint is None:
        raise EngineError("the openai engine needs --endpoint: the base URL, such as http://127.0.0.1:8000/v1")
    if options.model is None:
        raise EngineError("the openai engine needs --model: the name by which the endpoint knows the model")
    asked = chosen_protocol(options, DEFAULT_PROTOCOL)
    if isinstance(asked.prompt.wanted, Slots):
        raise EngineError(
            f"the {asked.name} protocol reads probabilities inside of the prompt, which a chat endpoint does not give; "
            "choose --protocol json"
        )
    if isinstance(asked.prompt.wanted, FirstToken):
        # It gives those of at most 20 tokens, among which the answers need not be, and some models think first.
        raise EngineError(
            f"the {asked.name} protocol needs the probabilities of chosen tokens before any answer, which a chat "
            "endpoint does not give; choose --protocol binary or binary:lenient"
        )
    return EndpointSettings(
        checked_url(options.endpoint, "--endpoint"),
        options.model,
        asked,
        options.max_pixels or DEFAULT_MAX_PIXELS,
        options.concurrency or DEFAULT_CONCURRENCY,
    )


def description(chosen: EndpointSettings) -> EngineDescription:
    """Describe the engine. The weights are unknown: only the endpoint knows which model has this name."""
    return EngineDescription(
        name=NAME,
        protocol=(
            f"{chosen.protocol.version}, model {chosen.model} at {chosen.endpoint}, {chosen.max_pixels} pixels, "
            f"JPEG quality {JPEG_QUALITY}"
        ),
        assessed=chosen.protocol.assessed,
        max_side_px=max_side_px(chosen.max_pixels),
        batches_at_once=1 + math.ceil(chosen.concurrency / BATCH_VIEWS),
    )
