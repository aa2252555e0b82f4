"""The openai engine: a request per view and pass, so many at once and no more; a bad request costs its view only."""

import logging
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from ingest.errors import EngineError
from scoring.assessment import Outcome, Unscored, View
from scoring.engines.openai.chat import OPTIONAL, answer_of, body_of, jpeg_of, left_out, spent_on
from scoring.engines.openai.endpoint import Endpoint, NoAnswerError, Patience, RefusedError
from scoring.engines.openai.settings import Settings
from scoring.protocols.interface import Answer, Generate, Prompt, TextAnswer

FILTER_CODES = frozenset(["content_filter", "content_policy_violation", "moderation_blocked"])
"""How endpoints say that they do not want this picture."""


class OpenAIEngine:
    """`assess` may be called by several threads; the bound on requests holds for all of them together."""

    def __init__(self, chosen: Settings, patience: Patience | None = None):
        self._protocol = chosen.protocol
        self._model = chosen.model
        self._max_pixels = chosen.max_pixels
        self._endpoint = Endpoint(chosen.endpoint, chosen.model, chosen.concurrency, patience)
        self._threads = ThreadPoolExecutor(chosen.concurrency, thread_name_prefix="openai")
        self._lock = threading.Lock()
        self._without: frozenset[str] = frozenset()
        self._has_told_guess = False
        self.spent: Counter[str] = Counter()

    def assess(self, views: Sequence[View]) -> list[Outcome]:
        """EngineError where no view would get an answer: the key, the model's name or the address is wrong, or the
        endpoint does not answer any more."""
        return list(self._threads.map(self._outcome, views))

    def _outcome(self, view: View) -> Outcome:
        try:
            outcome = self._asked(view)
        except NoAnswerError as error:
            if error.reason != "rejection":
                self._endpoint.unanswered(error.message)
            return Unscored(error.reason, error.message)
        self._endpoint.answered()
        return outcome

    def _asked(self, view: View) -> Outcome:
        jpeg = jpeg_of(view.pixels, self._max_pixels)
        answers: list[Answer] = []
        prompt = self._protocol.prompt
        while True:
            answers.append(self._answer(prompt, jpeg))
            result = self._protocol.parse(answers)
            if not isinstance(result, Prompt):
                return result
            prompt = result

    def _answer(self, prompt: Prompt, jpeg: bytes) -> TextAnswer:
        """What the endpoint refuses and the protocol can do without is left out: in all requests from then on where it
        named the parameter, else in this one only, since it may have been the picture that was refused."""
        wanted = prompt.wanted
        assert isinstance(wanted, Generate), "settings() lets no other protocol pass"
        without, named = self._without, frozenset[str]()
        while True:
            body = body_of(prompt, wanted, self._model, jpeg, without)
            try:
                response = self._endpoint.chat(body)
            except RefusedError as refused:
                less = _next(refused, body, without)
                named |= {name for name in less - without if refused.parameter.split(".")[0] in OPTIONAL[name]}
                without = less
                continue
            self._remember(named, without)
            with self._lock:
                self.spent.update(spent_on(response))
            return answer_of(response, wanted)

    def _remember(self, named: frozenset[str], without: frozenset[str]) -> None:
        log = logging.getLogger(__name__)
        with self._lock:
            if more := named - self._without:
                self._without |= more
                log.warning("the endpoint refuses to give: %s", ", ".join(sorted(more)))
            if (guessed := without - self._without) and not self._has_told_guess:
                self._has_told_guess = True
                log.warning(
                    "the endpoint refused a request without saying why, and answered it without: %s; other requests "
                    "ask for everything again, which costs as many more where it refuses them all",
                    ", ".join(sorted(guessed)),
                )


def _next(refused: RefusedError, body: dict[str, object], without: frozenset[str]) -> frozenset[str]:
    if refused.code in FILTER_CODES:
        raise NoAnswerError("rejection", "a content filter of the endpoint refused the picture")
    if refused.code == "model_not_found":
        raise EngineError(f'the endpoint does not know the model "{body["model"]}"; check --model')
    if refused.parameter == "temperature":
        raise EngineError(
            f'the model "{body["model"]}" refuses temperature 0; choose one that can answer without chance'
        )
    less = left_out(body, without, refused.parameter)
    if less is None:
        raise NoAnswerError("engine_error", f"the endpoint refuses the request ({refused})")
    return less
