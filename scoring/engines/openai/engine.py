"""The openai engine: the user's choices, checked; one request per view and pass, a limited number at once.

A bad request costs only its view.
"""

import base64
import logging
import math
import re
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import simplejpeg

from ingest.errors import EngineError
from ingest.images.pixels import Pixels
from scoring.assessment import (
    ABOUT_THE_QUESTION,
    ENGINE_ERROR,
    NO_ANSWER_REASONS,
    EngineDescription,
    EngineOptions,
    Outcome,
    Unscored,
    View,
)
from scoring.endpoint import Endpoint, NoAnswerError, RefusedError, RetryPolicy, checked_url
from scoring.engines.canary import canary
from scoring.engines.picture import DEFAULT_MAX_PIXELS, max_side_px, prepared
from scoring.protocols import chosen_protocol
from scoring.protocols.interface import Answer, FirstToken, Generate, Prompt, Protocol, Slots, Text, TextAnswer, Token

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
    protocol = chosen_protocol(options, DEFAULT_PROTOCOL)
    if isinstance(protocol.prompt.wanted, Slots):
        raise EngineError(
            f"the {protocol.name} protocol reads probabilities inside of the prompt, which a chat endpoint does not "
            "give; choose --protocol json"
        )
    if isinstance(protocol.prompt.wanted, FirstToken):
        # It gives those of at most 20 tokens, among which the answers need not be, and some models think first.
        raise EngineError(
            f"the {protocol.name} protocol needs the probabilities of chosen tokens before any answer, which a chat "
            "endpoint does not give; choose --protocol binary or binary:lenient"
        )
    return EndpointSettings(
        checked_url(options.endpoint, "--endpoint"),
        options.model,
        protocol,
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


MAX_TOP_LOGPROBS = 20
"""The most that OpenAI allows and vLLM gives by default. Other candidates count as impossible."""

LEAST_LOGPROB = -1000.0
"""Smallest log probability, in effect 0; JSON allows integers that are too long for `exp`."""

STRUCTURE, PROBABILITIES, MAX_TOKENS = "structure", "probabilities", "max_tokens"
OPTIONAL = {
    STRUCTURE: frozenset(["response_format", "structured_outputs"]),
    PROBABILITIES: frozenset(["logprobs", "top_logprobs"]),
    MAX_TOKENS: frozenset(["max_tokens"]),
}
"""Part of a request that an endpoint may refuse -> its parameters. Without MAX_TOKENS, the newer name of that
parameter is sent."""


def jpeg_of(pixels: Pixels, max_pixels: int) -> bytes:
    """Encode the picture as it is sent: at most max_pixels, colours in full resolution, since print is coloured too."""
    image = np.ascontiguousarray(prepared(pixels, max_pixels))
    encoded: bytes = simplejpeg.encode_jpeg(image, quality=JPEG_QUALITY, colorspace="RGB", colorsubsampling="444")
    return encoded


def size_as_sent(pixels: Pixels, max_pixels: int) -> str:
    """Describe the size for `Preview.describe_picture`."""
    picture = prepared(pixels, max_pixels)
    return f"sent at {picture.width}x{picture.height}, {len(jpeg_of(pixels, max_pixels)):,} bytes"


def body_of(prompt: Prompt, wanted: Generate, model: str, jpeg: bytes, without: frozenset[str]) -> dict[str, Any]:
    """Build the body of a request. without: keys of `OPTIONAL`."""
    body: dict[str, Any] = {
        "model": model,
        "temperature": 0,
        "max_completion_tokens" if MAX_TOKENS in without else "max_tokens": wanted.max_tokens,
        "messages": [{"role": message.role, "content": _content(message.parts, jpeg)} for message in prompt.messages],
    }
    if STRUCTURE not in without:
        body |= _structure(wanted)
    if wanted.probability_tokens and PROBABILITIES not in without:
        body |= {"logprobs": True, "top_logprobs": MAX_TOP_LOGPROBS}
    return body


def answer_of(response: Mapping[str, Any], wanted: Generate) -> TextAnswer:
    """Read a response. NoAnswerError: a refusal by the model or a filter, or not a chat completion."""
    try:
        choice = response["choices"][0]
        message, finish = choice["message"], choice.get("finish_reason")
        text, refusal = message.get("content"), message.get("refusal")
    except (LookupError, TypeError, AttributeError):
        raise NoAnswerError(ENGINE_ERROR, "what the endpoint sent is no chat completion") from None
    if finish == "content_filter":
        raise NoAnswerError("rejection", "a content filter of the endpoint withheld the answer")
    if refusal:
        raise NoAnswerError("rejection", "the model refused to answer")
    if not isinstance(text, str):
        raise NoAnswerError(ENGINE_ERROR, "the endpoint sent an answer without text")
    tokens = _tokens(text, choice, wanted.probability_tokens) if wanted.probability_tokens else ()
    return TextAnswer(text, tokens, is_cut_off=finish == "length")


def _content(parts: Sequence[object], jpeg: bytes) -> str | list[dict[str, Any]]:
    if len(parts) == 1 and isinstance(parts[0], Text):
        return parts[0].text
    url = "data:image/jpeg;base64," + base64.b64encode(jpeg).decode()
    return [
        {"type": "text", "text": part.text}
        if isinstance(part, Text)
        else {"type": "image_url", "image_url": {"url": url}}
        for part in parts
    ]


def _structure(wanted: Generate) -> dict[str, Any]:
    """Return a JSON schema in OpenAI's form; a regular expression in vLLM's, since OpenAI has none."""
    if wanted.json_schema is not None:
        properties = {  # some endpoints require the type of an enum's numbers
            key: {"type": "integer" if all(float(n).is_integer() for n in form["enum"]) else "number", **form}
            for key, form in wanted.json_schema["properties"].items()
        }
        form = {"name": "answer", "strict": True, "schema": {**wanted.json_schema, "properties": properties}}
        return {"response_format": {"type": "json_schema", "json_schema": form}}
    return {"structured_outputs": {"regex": wanted.regex}} if wanted.regex is not None else {}


def _tokens(text: str, choice: Mapping[str, Any], candidates: Sequence[str]) -> tuple[Token, ...]:
    """Return the tokens of `text` with the probabilities of the candidates. From where the endpoint's tokens are not
    those of the text (a character cut in two, thoughts before the answer) the rest is one token of unknown
    probability."""
    listed = (choice.get("logprobs") or {}).get("content") if isinstance(choice.get("logprobs"), dict) else None
    tokens: list[Token] = []
    num_read = 0
    for entry in listed if isinstance(listed, list) else []:
        written = entry.get("token") if isinstance(entry, dict) else None
        if not isinstance(written, str) or not text.startswith(written, num_read):
            break
        tokens.append(Token(written, _probabilities(entry, candidates)))
        num_read += len(written)
    if tokens and num_read < len(text):
        tokens.append(Token(text[num_read:]))
    return tuple(tokens)


def _probabilities(entry: Mapping[str, Any], candidates: Sequence[str]) -> tuple[float, ...] | None:
    """Return the probabilities; None if no candidate is listed. Tokens that differ only in spaces are one word."""
    by_candidate = dict.fromkeys(candidates, 0.0)
    listed = entry.get("top_logprobs")
    for other in listed if isinstance(listed, list) else []:
        written, logprob = (other.get("token"), other.get("logprob")) if isinstance(other, dict) else (None, None)
        if not isinstance(written, str) or not isinstance(logprob, int | float):
            continue
        if written.strip() in by_candidate and logprob <= 0:
            by_candidate[written.strip()] += math.exp(max(logprob, LEAST_LOGPROB))
    return tuple(by_candidate.values()) if any(by_candidate.values()) else None


FILTER_CODES = frozenset(["content_filter", "content_policy_violation", "moderation_blocked"])
"""Error codes of a content filter."""


class OpenAIEngine:
    """`assess` may be called by several threads; the bound on requests holds for all of them together."""

    def __init__(self, chosen: EndpointSettings, retry_policy: RetryPolicy | None = None):
        self._chosen = chosen
        self._endpoint = Endpoint(chosen.endpoint, chosen.model, chosen.concurrency, retry_policy)
        self._threads = ThreadPoolExecutor(chosen.concurrency, thread_name_prefix="openai")
        self._lock = threading.Lock()
        self._without: frozenset[str] = frozenset()

    def assess(self, views: Sequence[View]) -> list[Outcome]:
        """Answer views. EngineError if no view would get an answer: the key, the model's name or the address is wrong,
        or the endpoint no longer answers."""
        return self.assess_with(self._chosen.protocol, views)

    def assess_with(self, protocol: Protocol, views: Sequence[View]) -> list[Outcome]:
        """Answer as in `assess` for another protocol."""
        return list(self._threads.map(lambda view: self._outcome(protocol, view), views))

    def check(self) -> str:
        """Ask about one generated picture, before any of the corpus; return the result in a few words. EngineError as
        in `assess`, and if there is no answer."""
        (outcome,) = self.assess([canary()])
        if not isinstance(outcome, Unscored):
            return "answers"
        if outcome.reason in NO_ANSWER_REASONS:
            raise EngineError(f"{self._endpoint.url} has no answer for a made picture: {outcome.message}")
        return f"answers (for a made picture: {outcome.message})"

    def _outcome(self, protocol: Protocol, view: View) -> Outcome:
        try:
            outcome = self._asked(protocol, view)
        except NoAnswerError as error:
            if error.reason in NO_ANSWER_REASONS:
                self._endpoint.unanswered(error.message)
            return Unscored(error.reason, error.message)
        self._endpoint.answered()
        return outcome

    def _asked(self, protocol: Protocol, view: View) -> Outcome:
        jpeg = jpeg_of(view.pixels, self._chosen.max_pixels)
        answers: list[Answer] = []
        prompt = protocol.prompt
        while True:
            answers.append(self._answer(prompt, jpeg))
            result = protocol.parse(answers)
            if not isinstance(result, Prompt):
                return result
            prompt = result

    def _answer(self, prompt: Prompt, jpeg: bytes) -> TextAnswer:
        """Ask, again and again without one optional part more, while the endpoint refuses the request."""
        wanted = prompt.wanted
        assert isinstance(wanted, Generate), "no other protocol is given"
        without = self._without
        while True:
            body = body_of(prompt, wanted, self._chosen.model, jpeg, without)
            try:
                return answer_of(self._endpoint.chat(body), wanted)
            except RefusedError as refused:
                without |= {self._refused_part(refused, body)}

    def _refused_part(self, refused: RefusedError, body: Mapping[str, Any]) -> str:
        """Return the part of `OPTIONAL` to leave out: one that the endpoint names, from then on in all requests; else
        the next, in this request only, since it may have been the picture that was refused.

        EngineError if every request would be refused. NoAnswerError if only this one is and nothing can be left out:
        the messages, for example, hold the picture.
        """
        parameter = re.split(r"[.\[]", refused.parameter, maxsplit=1)[0]
        if refused.code in FILTER_CODES:
            raise NoAnswerError("rejection", "a content filter of the endpoint refused the picture")
        if refused.code == "model_not_found" or parameter == "model":
            raise self._endpoint.unknown_model(refused.status)
        if parameter in ("temperature", "max_completion_tokens"):
            raise EngineError(
                f'the model "{self._chosen.model}" refuses {parameter} {body.get(parameter)} ({refused}); choose '
                "another --model or --protocol"
            )
        parts = [name for name, parameters in OPTIONAL.items() if parameters & body.keys()]
        if parameter == "messages" or not parts:
            what = "the messages" if parameter == "messages" else "the request"
            raise NoAnswerError(ENGINE_ERROR, f"the endpoint refuses {what} ({refused})")
        named = next((name for name in parts if parameter in OPTIONAL[name]), None)
        with self._lock:
            if named is not None and named not in self._without:
                self._without |= {named}
                logging.getLogger(__name__).warning("the endpoint refuses to give: %s", named)
        return named or parts[0]
