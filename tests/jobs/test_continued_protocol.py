"""A run that began with an earlier revision of a protocol is continued with its words, by the same command."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines.chat_server import ChatServer, Reply
from tests.jobs.made import jpeg, privsieve, rows, tar


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    running = ChatServer()
    running.default = Reply(text="0.30")
    yield running
    running.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("began_as", "goes_on_as", "words"),
    [
        ("severity:taxonomy-1", "severity", "decides first"),
        ("severity:intuition-1", "severity:intuition", "weighs more"),
        ("binary:p2", "binary:ours-2", "include information that is private"),
    ],
)
def test_the_same_words_are_asked(
    began_as: str,
    goes_on_as: str,
    words: str,
    server: ChatServer,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    corpus, run = tmp_path / "corpus", tmp_path / "run"
    corpus.mkdir()
    tar(corpus / "00000.tar", {"a.jpg": jpeg(1)})
    scan = ["scan", corpus, "--run", run, "--engine", "openai", "--endpoint", server.url, "--model", "tiny-vl"]
    scan += ["--executor", "inline", "--quiet", "--protocol"]
    if began_as.startswith("binary"):
        server.default = Reply(text="No")
    assert privsieve(*scan, began_as) == 0
    recorded = json.loads((run / "run.json").read_text())["engine"]["protocol"]
    capsys.readouterr()

    tar(corpus / "00001.tar", {"b.jpg": jpeg(2)})
    assert privsieve(*scan, goes_on_as) == 0
    assert f"is continued with {recorded.split()[0]}, with which it began" in capsys.readouterr().err
    assert [row["status"] for row in rows(run)] == ["scored", "scored"]
    asked = [json.dumps(body["messages"]) for body in server.bodies]
    assert len(asked) >= 2
    assert all(words in text for text in asked)
    assert json.loads((run / "run.json").read_text())["engine"]["protocol"] == recorded
