"""The openai engine: one request per view and pass, a limited number at once; a bad request costs only its view."""

import logging
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from ingest.errors import EngineError
from scoring.assessment import Outcome, Unscored, View
from scoring.endpoints.endpoint import Endpoint, NoAnswerError, RefusedError, RetryPolicy
from scoring.engines.canary import canary
from scoring.engines.openai.chat import OPTIONAL, answer_of, body_of, jpeg_of, left_out, needed, top_level, usage_of
from scoring.engines.openai.settings import EndpointSettings
from scoring.protocols.interface import Answer, Generate, Prompt, Protocol, TextAnswer

FILTER_CODES = frozenset(["content_filter", "content_policy_violation", "moderation_blocked"])
"""Error codes of a content filter."""
WITHOUT_ANSWER = frozenset(["engine_error", "too_many_retries"])


class OpenAIEngine:
    """`assess` may be called by several threads; the bound on requests holds for all of them together."""

    def __init__(self, chosen: EndpointSettings, retry_policy: RetryPolicy | None = None):
        self._protocol = chosen.protocol
        self._model = chosen.model
        self._max_pixels = chosen.max_pixels
        self._endpoint = Endpoint(chosen.endpoint, chosen.model, chosen.concurrency, retry_policy)
        self._threads = ThreadPoolExecutor(chosen.concurrency, thread_name_prefix="openai")
        self._lock = threading.Lock()
        self._without: frozenset[str] = frozenset()
        self._has_logged_guess = False
        self.usage: Counter[str] = Counter()

    def assess(self, views: Sequence[View]) -> list[Outcome]:
        """Answer views. EngineError if no view would get an answer: the key, the model's name or the address is wrong,
        or the endpoint no longer answers."""
        return self.assess_with(self._protocol, views)

    def assess_with(self, protocol: Protocol, views: Sequence[View]) -> list[Outcome]:
        """Answer as in `assess` for another protocol."""
        return list(self._threads.map(lambda view: self._outcome(protocol, view), views))

    def check(self) -> str:
        """Ask about one generated picture, before any of the corpus; return the result in a few words. EngineError as
        in `assess`, and if there is no answer."""
        (outcome,) = self.assess([canary()])
        if not isinstance(outcome, Unscored):
            return "answers"
        if outcome.reason in WITHOUT_ANSWER:
            raise EngineError(f"{self._endpoint.url} has no answer for a made picture: {outcome.message}")
        return f"answers (for a made picture: {outcome.message})"

    def _outcome(self, protocol: Protocol, view: View) -> Outcome:
        try:
            outcome = self._asked(protocol, view)
        except NoAnswerError as error:
            if error.reason != "rejection":
                self._endpoint.unanswered(error.message)
            return Unscored(error.reason, error.message)
        self._endpoint.answered()
        return outcome

    def _asked(self, protocol: Protocol, view: View) -> Outcome:
        jpeg = jpeg_of(view.pixels, self._max_pixels)
        answers: list[Answer] = []
        prompt = protocol.prompt
        while True:
            answers.append(self._answer(prompt, jpeg))
            result = protocol.parse(answers)
            if not isinstance(result, Prompt):
                return result
            prompt = result

    def _answer(self, prompt: Prompt, jpeg: bytes) -> TextAnswer:
        """Ask without optional parts that the endpoint refuses: in all requests from then on if it
        named the parameter, else in this one only, since it may have been the picture that was refused."""
        wanted = prompt.wanted
        assert isinstance(wanted, Generate), "no other protocol is given"
        without, named = self._without, frozenset[str]()
        while True:
            body = body_of(prompt, wanted, self._model, jpeg, without)
            try:
                response = self._endpoint.chat(body)
            except RefusedError as refused:
                less = self._next(refused, body, without)
                named |= {name for name in less - without if top_level(refused.parameter) in OPTIONAL[name]}
                without = less
                continue
            self._remember(named, without)
            with self._lock:
                self.usage.update(usage_of(response))
            return answer_of(response, wanted)

    def _remember(self, named: frozenset[str], without: frozenset[str]) -> None:
        log = logging.getLogger(__name__)
        with self._lock:
            if more := named - self._without:
                self._without |= more
                log.warning("the endpoint refuses to give: %s", ", ".join(sorted(more)))
            if (guessed := without - self._without) and not self._has_logged_guess:
                self._has_logged_guess = True
                log.warning(
                    "the endpoint refused a request without saying why, and answered it without: %s; later requests "
                    "include it again, which doubles their number if it refuses them all",
                    ", ".join(sorted(guessed)),
                )

    def _next(self, refused: RefusedError, body: dict[str, object], without: frozenset[str]) -> frozenset[str]:
        """Choose the parts to omit from the next attempt.

        EngineError if every request would be refused. NoAnswerError if only this one is and nothing can be left out:
        the messages, for example, hold the picture.
        """
        parameter = top_level(refused.parameter)
        if refused.code in FILTER_CODES:
            raise NoAnswerError("rejection", "a content filter of the endpoint refused the picture")
        if refused.code == "model_not_found" or parameter == "model":
            raise self._endpoint.unknown_model(refused.status)
        if parameter == "temperature":
            raise EngineError(
                f'the model "{self._model}" refuses temperature 0; choose one that can answer without chance'
            )
        if needed(body, parameter) and parameter != "messages":
            raise EngineError(
                f'the model "{self._model}" refuses {parameter} {body[parameter]} ({refused}); choose another --model '
                "or --protocol"
            )
        less = None if needed(body, parameter) else left_out(body, without, parameter)
        if less is None:
            what = "the messages" if parameter == "messages" else "the request"
            raise NoAnswerError("engine_error", f"the endpoint refuses {what} ({refused})")
        return less
