"""Any endpoint that speaks OpenAI's chat completions: `vllm serve`, another server of your own, a hosted model.

    settings.py   what the user said, checked      endpoint.py   HTTP: tries again, tells what is fatal
    chat.py       protocol prompt -> request, response -> answer      engine.py   views -> outcomes, several at once

What is asked and how the answer is read is the protocol's (`scoring.protocols`). The key comes from the environment
of the machine that asks (`endpoint.KEY_VARIABLES`) and is written nowhere.
"""

from typing import TYPE_CHECKING

from scoring.assessment import EngineDescription, EngineOptions
from scoring.engines.openai.settings import description, settings

if TYPE_CHECKING:
    from scoring.engines.openai.engine import OpenAIEngine


def describe(options: EngineOptions) -> EngineDescription:
    return description(settings(options))


def load(options: EngineOptions) -> "OpenAIEngine":
    """EngineError where an option or the key is wrong; the endpoint is first asked with the first view."""
    from scoring.engines.openai.engine import OpenAIEngine

    return OpenAIEngine(settings(options))
