"""The endpoint is asked once before a scan begins: what would fail for every picture stops it before there is a run."""

import time

import pytest

from ingest.errors import EngineError
from scoring.assessment import EngineOptions
from scoring.engines import openai
from tests.engines.chat_server import SECRET, ChatServer, Reply
from tests.making import Patch


def asked(server: ChatServer, model: str = "tiny-vl") -> str:
    return openai.check(EngineOptions(endpoint=server.url, model=model))


def refused(server: ChatServer, model: str = "tiny-vl") -> str:
    with pytest.raises(EngineError) as stopped:
        asked(server, model)
    assert len(str(stopped.value).splitlines()) == 1
    assert SECRET not in str(stopped.value)
    return str(stopped.value).removeprefix(f"{server.url} ")


def test_one_made_picture_is_asked_for(server: ChatServer, monkeypatch: Patch) -> None:
    assert asked(server) == (
        "answers; no key is set (PRIVSIEVE_OPENAI_API_KEY or OPENAI_API_KEY); pictures and key travel unencrypted"
    )
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    assert asked(server) == "answers; a key is set; pictures and key travel unencrypted"
    assert [len(body["messages"]) for body in server.bodies] == [2, 2]
    assert len(server.requests) == 1, "the picture is the same one"


def test_an_answer_that_cannot_be_used_is_one(server: ChatServer) -> None:
    """A made picture can be refused, or described in words, by a model that does well on others."""
    server.default = Reply(text="I see bars and a secret disc.")
    assert asked(server).startswith("answers (for a made picture: the answer is not valid JSON); ")
    server.default = Reply(text=None, message={"refusal": "a secret"})
    assert asked(server).startswith("answers (for a made picture: the model refused to answer); ")


def test_what_would_fail_for_every_picture_is_reported(server: ChatServer, monkeypatch: Patch) -> None:
    assert refused(server, "tiny-lv").startswith('does not know the model "tiny-lv", or is not a chat endpoint (404)')
    server.refuses = {"temperature": "temperature"}
    assert "refuses temperature 0" in refused(server)
    server.refuses = {"messages": "messages.1.content.1.type"}
    assert refused(server) == "has no answer for a made picture: the endpoint refuses the messages (HTTP 400)"
    server.default, server.refuses = Reply((413,), for_ever=True), {}
    assert refused(server) == "has no answer for a made picture: the endpoint answered HTTP 413"
    server.keys = frozenset(["Bearer right"])
    assert refused(server).startswith("refuses access (401): no key is set; set PRIVSIEVE_OPENAI_API_KEY or ")
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    assert refused(server).startswith("refuses access (401): the key is not accepted; ")


def test_a_server_that_is_down_is_reported_in_seconds(server: ChatServer) -> None:
    server.close()
    began = time.monotonic()
    assert refused(server).startswith("cannot be reached (NewConnectionError); check --endpoint and that the server ")
    assert time.monotonic() - began < 300
