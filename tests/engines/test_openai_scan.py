"""`scan --engine openai` end to end: through Ray to a server on this machine, to rows and reports."""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ingest.images.decode import DecodedImage, decode
from ingest.images.pixels import ImageLimits
from scoring.engines.openai.engine import jpeg_of
from scoring.engines.picture import DEFAULT_MAX_PIXELS
from scoring.taxonomy import KEYS
from tests.engines.chat_server import SECRET, ChatServer, Reply
from tests.jobs.made import jpeg, privsieve, rows, tar
from tests.making import Capture, Patch


@pytest.fixture
def server() -> Iterator[ChatServer]:
    running = ChatServer()
    running.keys = frozenset([f"Bearer {SECRET}"])
    yield running
    running.close()


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    for number in range(2):
        tar(folder / f"{number:05d}.tar", {f"{number}{n}.jpg": jpeg(40 * number + n) for n in range(5)})
    return folder


def sent(encoded: bytes) -> str:
    """The hash by which the server knows the picture of a file."""
    image = decode(encoded, ImageLimits(max_side_px=1024))
    assert isinstance(image, DecodedImage)
    return hashlib.sha256(jpeg_of(image.views[0], DEFAULT_MAX_PIXELS)).hexdigest()


def texts_below(folder: Path) -> str:
    return "".join(file.read_bytes().decode("latin-1") for file in folder.rglob("*") if file.is_file())


@pytest.mark.slow
def test_every_picture_is_a_row(
    server: ChatServer, corpus: Path, tmp_path: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    server.script = {
        sent(jpeg(0)): Reply(text=json.dumps(dict.fromkeys(KEYS, 0) | {"biometrics": 2})),
        sent(jpeg(1)): Reply(text="the secret is to be seen"),
        sent(jpeg(2)): Reply((429, 503)),
        sent(jpeg(3)): Reply(text=None, message={"refusal": "a secret"}),
        sent(jpeg(40)): Reply((500,), for_ever=True),
    }
    run = tmp_path / "run"
    arguments = ("--engine", "openai", "--endpoint", server.url, "--model", "tiny-vl", "--concurrency", 3)
    assert privsieve("scan", corpus, "--run", run, *arguments, "--num-engines", 1) == 0
    found = {str(row["key"]): row for row in rows(run)}
    assert sorted(found) == [f"{shard}{n}" for shard in range(2) for n in range(5)]
    assert {key: row["reason"] for key, row in found.items() if row["status"] == "quarantined"} == {
        "01": "unparsable",
        "03": "rejection",
        "10": "too_many_retries",
    }
    assert (found["00"]["biometrics"], found["00"]["gov_ids"]) == (1.0, 0.0)
    assert [found[key][name] for key in ("02", "14") for name in ("gov_ids", "location")] == [1.0, 0.5] * 2
    assert server.requests[sent(jpeg(2))] == 3
    assert server.most_at_once <= 3
    record = json.loads((run / "run.json").read_text())
    assert record["engine"]["name"] == "openai"
    assert f"model tiny-vl at {server.url}, 262144 pixels" in record["engine"]["protocol"]
    output = capsys.readouterr()
    for text in (output.out, output.err, texts_below(run)):
        assert SECRET not in text
        assert "secret" not in text


def test_a_wrong_key_stops_the_scan_in_one_line_before_there_is_a_run(
    server: ChatServer, corpus: Path, tmp_path: Path, monkeypatch: Patch, capfd: Capture
) -> None:
    wrong = SECRET[:-1]
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("OPENAI_API_KEY", wrong)
    run = tmp_path / "run"
    arguments = ("--engine", "openai", "--endpoint", server.url, "--model", "tiny-vl")
    assert privsieve("scan", corpus, "--run", run, *arguments, "--quiet") == 2
    (line,) = capfd.readouterr().err.splitlines()
    assert line.startswith("privsieve: ")
    assert "refuses access (401): the key is not accepted; set PRIVSIEVE_OPENAI_API_KEY or OPENAI_API_KEY" in line
    assert wrong not in line
    assert not run.exists()


def test_a_scan_that_is_done_asks_nobody(
    server: ChatServer, corpus: Path, tmp_path: Path, monkeypatch: Patch, capfd: Capture
) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    scan = ("scan", corpus, "--run", tmp_path / "run", "--engine", "openai", "--endpoint", server.url)
    assert privsieve(*scan, "--model", "tiny-vl", "--num-engines", 1, "--quiet") == 0
    server.keys = frozenset(["Bearer of another key"])
    asked = len(server.bodies)
    assert privsieve(*scan, "--model", "tiny-vl", "--num-engines", 1, "--quiet") == 0
    assert len(server.bodies) == asked
    assert "10 images in 2 of 2 shards: 10 scored" in capfd.readouterr().out
