from collections.abc import Iterator

import pytest

from tests.engines.chat_server import ChatServer


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    running = ChatServer()
    yield running
    running.close()
