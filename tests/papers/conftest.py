from collections.abc import Iterator

import pytest

from tests.engines.chat_server import ChatServer
from tests.making import Patch


@pytest.fixture
def server(monkeypatch: Patch) -> Iterator[ChatServer]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    running = ChatServer()
    yield running
    running.close()
