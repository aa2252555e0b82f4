"""A chat endpoint on this machine, and an environment that reaches it and holds no key."""

from collections.abc import Iterator

import pytest

from tests.engines.chat_server import ChatServer
from tests.making import Patch


@pytest.fixture
def server(monkeypatch: Patch) -> Iterator[ChatServer]:
    for variable in ("OPENAI_API_KEY", "PRIVSIEVE_OPENAI_API_KEY"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    running = ChatServer()
    yield running
    running.close()
