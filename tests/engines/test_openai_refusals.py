"""Settings that an endpoint refuses: left out if it answers without them, else the scan ends with one line."""

import math

import pytest

from ingest.errors import EngineError
from scoring.assessment import Assessment, Unscored
from scoring.taxonomy import KEYS
from tests.engines.asking import engine, judged, sent, unscored, view
from tests.engines.chat_server import FORM, ChatServer, Reply


@pytest.mark.parametrize(
    ("refuses", "num_requests", "left"),
    [
        ({"response_format": "response_format"}, [2, 1], {"logprobs", "max_tokens"}),
        ({"response_format": "response_format.json_schema"}, [2, 1], {"logprobs", "max_tokens"}),
        ({"response_format": ""}, [2, 2], {"logprobs", "max_tokens"}),
        ({"logprobs": "top_logprobs"}, [2, 1], {"response_format", "max_tokens"}),
        ({"logprobs": ""}, [3, 3], {"max_tokens"}),
        ({"logprobs": "options"}, [3, 3], {"max_tokens"}),
        ({"logprobs": "top_logprobs[0]"}, [2, 1], {"response_format", "max_tokens"}),
        ({"logprobs": "logprobs", "response_format": ""}, [3, 2], {"max_tokens"}),
        ({"max_tokens": "max_tokens"}, [2, 1], {"response_format", "logprobs", "max_completion_tokens"}),
    ],
)
def test_what_an_endpoint_refuses_is_left_out_and_remembered_where_it_is_named(
    server: ChatServer, refuses: dict[str, str], num_requests: list[int], left: set[str]
) -> None:
    server.refuses = refuses
    asking, counts = engine(server), []
    for shade in (1, 2):
        before = len(server.bodies)
        assert judged(asking.assess([view(shade)])[0]) == {"gov_ids": 1.0, "location": 0.5}
        counts.append(len(server.bodies) - before)
    assert counts == num_requests
    optional = {"response_format", "logprobs", "max_tokens", "max_completion_tokens"}
    assert server.bodies[-1].keys() & optional == left


@pytest.mark.parametrize("parameter", ["messages", "messages[1].content[1].image_url", "messages.1.content"])
def test_refused_messages_cost_one_request_and_the_picture_that_they_hold(server: ChatServer, parameter: str) -> None:
    views = [view(1), view(2)]
    server.script[sent(views[0])] = Reply((400,), for_ever=True, error={"param": parameter})
    refused, good = engine(server).assess(views)
    assert unscored(refused) == Unscored("engine_error", "the endpoint refuses the messages (HTTP 400)")
    assert server.requests == {sent(views[0]): 1, sent(views[1]): 1}
    assert judged(good)


def test_a_refused_limit_on_tokens_stops_the_job(server: ChatServer) -> None:
    """Refused by its older name, then by its newer one: nothing is left that could be left out."""
    server.refuses = {"max_tokens": "max_tokens", "max_completion_tokens": "max_completion_tokens"}
    with pytest.raises(EngineError) as stopped:
        engine(server).assess([view(1)])
    assert str(stopped.value) == (
        'the model "tiny-vl" refuses max_completion_tokens 1024 (HTTP 400); choose another --model or --protocol'
    )
    assert len(server.bodies) == 2


def test_one_picture_that_is_refused_changes_nothing_for_the_others(server: ChatServer) -> None:
    views = [view(1), view(2)]
    server.script[sent(views[0])] = Reply((400,), for_ever=True)
    asking = engine(server)
    assert unscored(asking.assess(views[:1])[0]) == Unscored(
        "engine_error", "the endpoint refuses the request (HTTP 400)"
    )
    assert judged(asking.assess(views[1:])[0])
    assert "response_format" in server.bodies[-1]
    assert "logprobs" in server.bodies[-1]


def test_a_request_refused_without_a_reason_leaves_the_probabilities_of_the_others(server: ChatServer) -> None:
    views = [view(1), view(2)]
    server.script[sent(views[0])] = Reply((400, 400))
    listed = [{"token": word, "logprob": math.log(chance)} for word, chance in (("0", 0.6), ("2", 0.4))]
    place = FORM.index(f'"{KEYS[0]}": 0') + len(f'"{KEYS[0]}": ')
    server.logprobs = [{"token": FORM[:place], "top_logprobs": []}, {"token": "0", "top_logprobs": listed}]
    asking = engine(server)
    first, second = (asking.assess([one])[0] for one in views)
    assert isinstance(first, Assessment)
    assert isinstance(second, Assessment)
    assert first.probabilities is None
    assert second.probabilities is not None
    assert second.probabilities[0].tolist() == pytest.approx([0.6, 0, 0.4])
    assert server.requests == {sent(views[0]): 3, sent(views[1]): 1}


def test_a_model_that_answers_by_chance_stops_the_job(server: ChatServer) -> None:
    server.refuses = {"temperature": "temperature"}
    with pytest.raises(EngineError, match="refuses temperature 0"):
        engine(server).assess([view(1)])
