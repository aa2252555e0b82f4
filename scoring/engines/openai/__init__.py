"""Any endpoint that speaks OpenAI's chat completions: `vllm serve`, another server of your own, a hosted model.

`engine.py`: the user's choices, checked; protocol prompt -> request, response -> answer; views -> outcomes, several at
once. The protocol defines the prompt and how the answer is read (`scoring.protocols`); `scoring.endpoint` talks HTTP.

May import: `ingest`, `scoring`, `scoring.engines`, `scoring.protocols`.
"""

from functools import partial

from scoring.assessment import EngineDescription, EngineOptions
from scoring.endpoint import KEY_VARIABLES, RetryPolicy, key_from_environment
from scoring.engine_facts import Preview, Requirements
from scoring.engines.openai.engine import NAME, OpenAIEngine, description, settings, size_as_sent
from scoring.protocols.interface import prompt_parts


def refuse_wrong(options: EngineOptions) -> None:
    settings(options)


def describe(options: EngineOptions) -> EngineDescription:
    return description(settings(options))


def requirements(options: EngineOptions) -> Requirements:
    return Requirements(extra=NAME)


def preview(options: EngineOptions) -> Preview:
    chosen = settings(options)
    return Preview(
        describe_picture=partial(size_as_sent, max_pixels=chosen.max_pixels),
        protocol=f"{chosen.protocol.name}, version {chosen.protocol.version}",
        parts=prompt_parts(chosen.protocol),
    )


def check(options: EngineOptions) -> str:
    """Ask the endpoint once, with a generated picture; return the result in one line.

    EngineError if it would answer for no picture: the address, the key, the model's name or a parameter is wrong, or
    there is no answer.
    """
    chosen = settings(options)
    result = OpenAIEngine(chosen, RetryPolicy(num_timeouts=0)).check()
    key = "a key is set" if key_from_environment() else f"no key is set ({' or '.join(KEY_VARIABLES)})"
    open_text = "" if chosen.endpoint.startswith("https://") else "; pictures and key travel unencrypted"
    return f"{result}; {key}{open_text}"


def load(options: EngineOptions) -> OpenAIEngine:
    """Make the engine. EngineError if an option or the key is wrong. The endpoint is not asked before the first
    view."""
    return OpenAIEngine(settings(options))
