"""Views, and the openai engine that asks a `ChatServer` about them."""

import hashlib
from typing import Any

import numpy as np

from scoring.assessment import Assessment, EngineOptions, Outcome, Unscored, View
from scoring.endpoint import RetryPolicy
from scoring.engines.openai.engine import OpenAIEngine, jpeg_of, settings
from scoring.engines.picture import DEFAULT_MAX_PIXELS
from scoring.taxonomy import KEYS
from tests.engines.chat_server import ChatServer

QUICK = RetryPolicy(num_retries=3, num_timeouts=1, first_delay_s=0.02, max_delay_s=0.1, connect_s=10, read_s=30)


def view(shade: int, height: int = 24, width: int = 32) -> View:
    pixels = np.full((height, width, 3), shade, dtype=np.uint8)
    pixels[: height // 2] //= 2
    return View(pixels, frozenset(), f"{shade:064x}")


def sent(one: View, max_pixels: int = DEFAULT_MAX_PIXELS) -> str:
    """The hash by which the server knows the picture."""
    return hashlib.sha256(jpeg_of(one.pixels, max_pixels)).hexdigest()


def engine(server: ChatServer, retry_policy: RetryPolicy = QUICK, **chosen: Any) -> OpenAIEngine:
    options = EngineOptions(**({"endpoint": server.url, "model": "tiny-vl"} | chosen))
    return OpenAIEngine(settings(options), retry_policy)


def judged(outcome: Outcome) -> dict[str, float]:
    assert isinstance(outcome, Assessment), outcome
    return {key: float(value) for key, value in zip(KEYS, outcome.values, strict=True) if value}


def unscored(outcome: Outcome) -> Unscored:
    assert isinstance(outcome, Unscored), outcome
    assert "secret" not in outcome.message
    return outcome
