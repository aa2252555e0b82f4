"""The openai engine against a real server on this machine: what comes back, what is tried again, what stops the job."""

import dataclasses
import gzip
import io
import json
import logging
import math
import re
import time
from typing import Any

import numpy as np
import pytest
from PIL import Image

from ingest.errors import EngineError
from scoring.assessment import Assessment, Unscored
from scoring.endpoint import GIVE_UP_AFTER, MAX_ANSWER_BYTES
from scoring.engines.openai.engine import jpeg_of
from scoring.taxonomy import KEYS
from tests.engines.asking import QUICK, engine, judged, sent, unscored, view
from tests.engines.chat_server import FORM, SECRET, ChatServer, Reply


def completion(text: str) -> bytes:
    return json.dumps({"choices": [{"message": {"content": text}, "finish_reason": "stop"}]}).encode()


def test_one_answer_per_view_in_order(server: ChatServer) -> None:
    views = [view(shade) for shade in range(0, 240, 12)]
    for number, one in enumerate(views):
        server.script[sent(one)] = Reply(text=json.dumps(dict.fromkeys(KEYS, 0) | {KEYS[number]: 2}))
    found = engine(server).assess(views)
    assert [judged(outcome) for outcome in found] == [{KEYS[number]: 1.0} for number in range(20)]


def test_what_is_sent(server: ChatServer) -> None:
    large = view(90, 600, 1200)
    engine(server, max_pixels=80_000).assess([large])
    (body,) = server.bodies
    assert (body["model"], body["temperature"], body["max_tokens"], body["top_logprobs"]) == ("tiny-vl", 0, 1024, 20)
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    schema = body["response_format"]["json_schema"]
    assert schema["strict"] is True
    assert schema["schema"]["properties"]["gov_ids"] == {"type": "integer", "enum": [0, 1, 2]}
    with Image.open(io.BytesIO(jpeg_of(large.pixels, 80_000))) as picture:
        assert (picture.format, picture.size) == ("JPEG", (400, 200))
    assert server.requests == {sent(large, 80_000): 1}


def test_probabilities_where_the_endpoint_gives_them(server: ChatServer) -> None:
    at = FORM.index('"gov_ids": 2') + len('"gov_ids": ')
    chances = [("2", 0.7), (" 2", 0.1), ("1", 0.1), ("{", 0.05)]
    listed = [{"token": word, "logprob": math.log(chance)} for word, chance in chances]
    server.logprobs = [
        {"token": FORM[:at], "logprob": -0.1, "top_logprobs": []},
        {"token": "2", "logprob": -0.1, "top_logprobs": listed},
        {"token": FORM[at + 1 :], "logprob": -0.1, "top_logprobs": []},
    ]
    (outcome,) = engine(server).assess([view(1)])
    assert isinstance(outcome, Assessment)
    assert outcome.probabilities is not None
    assert outcome.probabilities[KEYS.index("gov_ids")] == pytest.approx([0, 1 / 9, 8 / 9])
    assert np.isnan(outcome.probabilities[KEYS.index("location")]).all()
    assert outcome.evidence == ("gov_ids (moderate probability)",)


@pytest.mark.parametrize(
    "logprobs",
    [None, [], "nothing", [None], [{"token": 3}], [{"token": "{", "top_logprobs": [{"token": "2", "logprob": "x"}]}]],
)
def test_probabilities_that_are_none_leave_the_values(server: ChatServer, logprobs: Any) -> None:
    server.logprobs = logprobs
    (outcome,) = engine(server).assess([view(1)])
    assert isinstance(outcome, Assessment)
    assert outcome.probabilities is None
    assert judged(outcome) == {"gov_ids": 1.0, "location": 0.5}


def test_a_number_that_no_float_holds_costs_no_worker(server: ChatServer) -> None:
    at = FORM.index('"gov_ids": 2') + len('"gov_ids": ')
    listed = [{"token": "2", "logprob": -0.1}, {"token": "1", "logprob": -(10**400)}]
    server.logprobs = [{"token": FORM[:at]}, {"token": "2", "top_logprobs": listed}]
    asked = engine(server)
    (outcome,) = asked.assess([view(1)])
    assert isinstance(outcome, Assessment)
    assert outcome.probabilities is not None
    assert outcome.probabilities[KEYS.index("gov_ids")].tolist() == [0, 0, 1]
    server.logprobs = [{"token": FORM[:at]}, {"token": "2", "top_logprobs": listed[1:]}]
    (outcome,) = asked.assess([view(2)])
    assert isinstance(outcome, Assessment)
    assert outcome.probabilities is None
    assert judged(outcome) == {"gov_ids": 1.0, "location": 0.5}


def test_a_bad_answer_costs_its_view_only(server: ChatServer) -> None:
    replies = {
        "unparsable": Reply(text="I see a secret."),
        "rejection": Reply(text=None, message={"refusal": "I will not name the secret"}),
        "filtered": Reply(finish="content_filter"),
        "cut off": Reply(text=FORM[:40], finish="length"),
        "no text": Reply(text=None),
        "no completion": Reply(raw=b'{"secret": 1}'),
        "no JSON": Reply(raw=b"secret"),
        "policy": Reply((400,), for_ever=True, error={"code": "content_policy_violation"}),
        "too large": Reply((413,), for_ever=True),
        "good": Reply(),
    }
    views = [view(10 * number) for number in range(len(replies))]
    server.script = {sent(one): reply for one, reply in zip(views, replies.values(), strict=True)}
    found = engine(server).assess(views)
    assert judged(found[-1]) == {"gov_ids": 1.0, "location": 0.5}
    result = [(outcome.reason, outcome.message) for outcome in map(unscored, found[:-1])]
    assert result == [
        ("unparsable", "the answer is not valid JSON"),
        ("rejection", "the model refused to answer"),
        ("rejection", "a content filter of the endpoint withheld the answer"),
        ("unparsable", "the answer is not valid JSON; it was cut off at the token limit"),
        ("engine_error", "the endpoint sent an answer without text"),
        ("engine_error", "what the endpoint sent is no chat completion"),
        ("engine_error", "what the endpoint sent is no chat completion"),
        ("rejection", "a content filter of the endpoint refused the picture"),
        ("engine_error", "the endpoint answered HTTP 413"),
    ]


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 529])
def test_what_may_pass_is_tried_again(server: ChatServer, status: int) -> None:
    one = view(1)
    server.script[sent(one)] = Reply((status, status))
    assert judged(engine(server).assess([one])[0])
    assert server.requests[sent(one)] == 3


def test_what_never_passes_is_given_up_after_so_many_tries(server: ChatServer) -> None:
    views = [view(1), view(2)]
    server.script[sent(views[0])] = Reply((500,), for_ever=True)
    lost, good = engine(server).assess(views)
    assert unscored(lost) == Unscored("too_many_retries", "the endpoint answered HTTP 500, tried 3 times again")
    assert server.requests[sent(views[0])] == 4
    assert judged(good)


@pytest.mark.slow
def test_a_slow_answer_is_waited_for_twice(server: ChatServer) -> None:
    views = [view(1), view(2)]
    server.script[sent(views[0])] = Reply(delay_s=6)
    lost, good = engine(server, dataclasses.replace(QUICK, read_s=1.5)).assess(views)
    assert unscored(lost) == Unscored("too_many_retries", "no answer within 1.5 s, tried again")
    assert server.requests[sent(views[0])] == 2
    assert judged(good)


@pytest.mark.slow
def test_an_answer_that_trickles_is_given_up_as_one_that_does_not_come(server: ChatServer) -> None:
    views = [view(1), view(2)]
    server.script[sent(views[0])] = Reply(raw=completion(FORM), byte_s=0.3)
    lost, good = engine(server, dataclasses.replace(QUICK, read_s=3)).assess(views)
    assert unscored(lost) == Unscored("too_many_retries", "no answer within 3 s, tried again")
    assert server.requests[sent(views[0])] == 2
    assert judged(good)


def test_an_answer_without_end_or_packed_costs_its_view_only(server: ChatServer) -> None:
    too_long = completion(FORM) + b" " * MAX_ANSWER_BYTES
    replies = [Reply(raw=too_long), Reply(raw=gzip.compress(completion(FORM)), packing="gzip"), Reply()]
    views = [view(10 * number) for number in range(len(replies))]
    server.script = {sent(one): reply for one, reply in zip(views, replies, strict=True)}
    found = engine(server).assess(views)
    assert [(outcome.reason, outcome.message) for outcome in map(unscored, found[:-1])] == [
        ("engine_error", "the endpoint sent more than 8 MiB"),
        ("engine_error", "what the endpoint sent is no chat completion"),
    ]
    assert judged(found[-1])
    assert all(server.requests[sent(one)] == 1 for one in views)


def test_retry_after_is_honoured_and_bounded(server: ChatServer) -> None:
    server.retry_after = "1"
    server.script[sent(view(1))] = Reply((429,))
    began = time.monotonic()
    assert judged(engine(server, dataclasses.replace(QUICK, max_delay_s=5)).assess([view(1)])[0])
    assert time.monotonic() - began > 1
    server.retry_after = "86400"
    server.script[sent(view(2))] = Reply((503,))
    began = time.monotonic()
    assert judged(engine(server).assess([view(2)])[0])
    assert time.monotonic() - began < 300


@pytest.mark.parametrize("retry_after", ["soon", "-5", "9" * 5_000])
def test_a_retry_after_that_cannot_be_read_counts_as_none(server: ChatServer, retry_after: str) -> None:
    server.retry_after = retry_after
    server.script[sent(view(1))] = Reply((429, 503, 429))
    assert judged(engine(server).assess([view(1)])[0])
    assert server.requests[sent(view(1))] == 4


def test_no_more_requests_at_once_than_asked_for(server: ChatServer) -> None:
    server.default = Reply(delay_s=0.1)
    found = engine(server, concurrency=3).assess([view(shade) for shade in range(12)])
    assert len(list(map(judged, found))) == 12
    assert server.most_at_once == 3


def test_an_endpoint_that_answers_nobody_stops_the_job(server: ChatServer) -> None:
    server.default = Reply((500,), for_ever=True)
    asking = engine(server, dataclasses.replace(QUICK, num_retries=0))
    with pytest.raises(EngineError) as stopped:
        asking.assess([view(shade) for shade in range(GIVE_UP_AFTER + 4)])
    found = re.match(r"(\S+) answered none of (\d+) pictures in a row, at last: ", str(stopped.value))
    assert found is not None
    assert found[1] == server.url
    assert GIVE_UP_AFTER <= int(found[2]) <= GIVE_UP_AFTER + 4, "requests under way at the same time count too"


def test_a_wrong_key_stops_the_job(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server.keys = frozenset(["Bearer right"])
    with caplog.at_level(logging.DEBUG):
        with pytest.raises(EngineError, match=r"refuses access \(401\): no key is set; set PRIVSIEVE_OPENAI_API_KEY"):
            engine(server).assess([view(1)])
        monkeypatch.setenv("OPENAI_API_KEY", SECRET)
        with pytest.raises(EngineError, match=r"the key is not accepted; set .* or OPENAI_API_KEY$") as stopped:
            engine(server).assess([view(1), view(2)])
    assert SECRET not in str(stopped.value)
    assert SECRET not in caplog.text
    assert len(str(stopped.value).splitlines()) == 1


def test_the_own_variable_of_the_key_goes_first(server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.keys = frozenset(["Bearer right"])
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    monkeypatch.setenv("PRIVSIEVE_OPENAI_API_KEY", "right\n")
    assert judged(engine(server).assess([view(1)])[0])
    monkeypatch.setenv("PRIVSIEVE_OPENAI_API_KEY", "two words")
    with pytest.raises(EngineError, match=r"^PRIVSIEVE_OPENAI_API_KEY holds spaces or characters that no key has"):
        engine(server)


def test_an_unknown_model_stops_the_job(server: ChatServer) -> None:
    with pytest.raises(EngineError, match=r'does not know the model "tiny-lv", or is not a chat endpoint \(404\)'):
        engine(server, model="tiny-lv").assess([view(1)])
    server.default = Reply((400,), for_ever=True, error={"param": "model"})
    with pytest.raises(EngineError, match=r'does not know the model "tiny-vl", or is not a chat endpoint \(400\)'):
        engine(server).assess([view(1)])


def test_a_wrong_address_stops_the_job(server: ChatServer) -> None:
    with pytest.raises(EngineError, match="does not know the model"):
        engine(server, endpoint=f"{server.url}/v2").assess([view(1)])
    with pytest.raises(EngineError, match=r"127\.0\.0\.1:9/v1 cannot be reached \(NewConnectionError\); check"):
        engine(server, endpoint="http://127.0.0.1:9/v1").assess([view(1)])


def test_a_redirect_is_not_followed(server: ChatServer) -> None:
    server.default = Reply((308,), for_ever=True)
    with pytest.raises(EngineError, match=r"redirects \(308\); give the address that it leads to as --endpoint"):
        engine(server).assess([view(1)])


def test_a_proxy_of_the_environment(server: ChatServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server here stands in for the proxy too: it is asked for the whole address, with the account's name."""
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setenv("http_proxy", server.url.replace("127.0.0.1", f"me:{SECRET}@127.0.0.1").removesuffix("/v1"))
    with pytest.raises(EngineError, match=r"^http://far\.example/v1 does not know the model .*\(404\)"):
        engine(server, endpoint="http://far.example/v1").assess([view(1)])
    assert server.proxied == {f"me:{SECRET}"}
    for proxy in (f"socks5://me:{SECRET}@127.0.0.1:1", f"http://me:{SECRET}Ж@127.0.0.1:1"):
        monkeypatch.setenv("http_proxy", proxy)
        with pytest.raises(EngineError, match=r"^HTTP_PROXY names no http proxy, or .*; correct it, or set NO_PROXY$"):
            engine(server, endpoint="http://far.example/v1")


@pytest.mark.parametrize("host", ["a" * 64, "a..b"])
def test_a_host_that_cannot_be_is_an_address_that_cannot_be_reached(server: ChatServer, host: str) -> None:
    with pytest.raises(EngineError, match=rf"^http://{host}/v1 cannot be reached \(.*; check --endpoint and that"):
        engine(server, endpoint=f"http://{host}/v1").assess([view(1)])


def test_the_other_protocols(server: ChatServer) -> None:
    server.default = Reply(text="0.82")
    (outcome,) = engine(server, protocol="severity").assess([view(1)])
    assert isinstance(outcome, Assessment)
    assert outcome.holistic_score == 0.82
    assert server.bodies[-1]["structured_outputs"] == {"regex": r"0\.[0-9][0-9]|1\.00"}

    server.default = Reply(text="Yes.")
    listed = [{"token": word, "logprob": math.log(chance)} for word, chance in (("Yes", 0.6), ("No", 0.2))]
    server.logprobs = [{"token": "Yes", "top_logprobs": listed}, {"token": ".", "top_logprobs": []}]
    (outcome,) = engine(server, protocol="binary:ours-2").assess([view(1)])
    assert isinstance(outcome, Assessment)
    assert outcome.private is True
    assert outcome.prob_private == pytest.approx(0.75)
    assert not {"response_format", "structured_outputs"} & server.bodies[-1].keys()

    server.default = Reply(text="A secret is to be seen.")
    assert unscored(engine(server, protocol="binary").assess([view(1)])[0]).reason == "rejection"


def test_two_passes_of_which_the_second_sees_no_picture(server: ChatServer) -> None:
    server.default = Reply(text="\n".join(f"Level {level}: nothing of it" for level in (1, 2, 3, 4)))
    server.script["no picture"] = Reply(text=json.dumps(dict.fromkeys(KEYS, 0) | {"gov_ids": 0.5}))
    (outcome,) = engine(server, protocol="two-pass").assess([view(1)])
    assert judged(outcome) == {"gov_ids": 0.5}
    first, second = server.bodies
    assert "response_format" not in first
    properties = second["response_format"]["json_schema"]["schema"]["properties"]
    assert properties["gov_ids"] == {"type": "number", "enum": [0, 0.5, 1]}
    assert isinstance(second["messages"][-1]["content"], str)
