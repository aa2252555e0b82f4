"""What `report` takes from outside of the run: a hash list, a language model's words."""

import io
import json
import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import pdqhash
import pytest
from PIL import Image

from ingest.errors import EngineError, StorageError
from jobs.reporting.reporting import digest_of, evidence_lines
from reports.report.opened import open_run
from reports.run.figures import EvidenceCount
from tests.jobs.in_process import scan_in_process
from tests.jobs.made import privsieve, tar
from tests.making import Capture, Patch
from tests.reports.conftest import MakeRun, answer, make_run

__all__ = ["make_run"]


def photo(seed: int) -> bytes:
    """With EXIF that must not come along."""
    pixels = np.random.default_rng(seed).integers(0, 255, (60, 90, 3), np.uint8)
    exif = Image.Exif()
    exif[0x013B] = "An Author"
    stream = io.BytesIO()
    Image.fromarray(pixels).resize((900, 600)).save(stream, "JPEG", exif=exif)
    return stream.getvalue()


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "corpus").mkdir()
    tar(tmp_path / "corpus" / "a.tar", {f"{n}.jpg": photo(n) for n in range(4)})
    scan_in_process(tmp_path / "corpus", tmp_path / "run")
    return tmp_path / "run"


@pytest.mark.slow
def test_a_picture_on_the_hash_list_is_counted_and_not_named(run: Path, tmp_path: Path, capsys: Capture) -> None:
    with open_run(str(run)) as opened:
        (row,) = opened.sql('SELECT sha256, key FROM scored ORDER BY s_lex DESC, shard, "index" LIMIT 1').to_pylist()
    listed, key = row["sha256"], row["key"]
    (tmp_path / "hashes.txt").write_text(f"sha256 {listed}\n")
    page = tmp_path / "page.html"
    args = ("report", run, "--html", page, "--hash-list", tmp_path / "hashes.txt")
    assert privsieve(*args) == 0
    assert "most severe images left out: 1 image on the hash list" in capsys.readouterr().out
    assert "Left out: 1 image on the hash list." in page.read_text()
    assert f'<span class="key">{key}</span>' not in page.read_text()
    assert privsieve("report", run, "--hash-list", tmp_path / "hashes.txt", "--format", "json") == 0
    shown = json.loads(capsys.readouterr().out)["severest"]
    assert key not in {image["key"] for image in shown}
    assert len(shown) == 3
    assert privsieve("explain", run, listed.upper()) == 0
    assert capsys.readouterr().out.startswith(f"image        {key}\n")
    assert privsieve("explain", run, key, "--hash-list", tmp_path / "hashes.txt") == 2
    assert capsys.readouterr().err == "privsieve: this image is not explained: it is on the hash list\n"


@pytest.mark.slow
def test_a_copy_that_was_encoded_again_is_found_by_pdq_in_the_table_and_by_explain(
    run: Path, tmp_path: Path, capsys: Capture, monkeypatch: Patch
) -> None:
    smaller = Image.open(io.BytesIO(photo(2))).resize((450, 300)).transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    bits = pdqhash.compute(np.asarray(smaller))[0]
    (tmp_path / "hashes.txt").write_text(f"pdq {np.packbits(np.asarray(bits, np.uint8)).tobytes().hex()}\n")
    monkeypatch.setenv("PRIVSIEVE_HASH_LIST", str(tmp_path / "hashes.txt"))  # once for all commands
    assert privsieve("report", run, "--format", "json") == 0
    assert {image["key"] for image in json.loads(capsys.readouterr().out)["severest"]} == {"0", "1", "3"}
    assert privsieve("explain", run, "2") == 2
    assert "it is on the hash list" in capsys.readouterr().err
    assert privsieve("explain", run, "1") == 0
    assert "image        1\n" in capsys.readouterr().out
    (tmp_path / "corpus" / "a.tar").write_bytes(b"")  # nothing can be compared any more
    assert privsieve("report", run, "--format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["severest"] == []
    assert found["severest_note"] == "left out: 4 images that cannot be compared with it"


@pytest.fixture
def server() -> Iterator[tuple[str, list[dict[str, object]]]]:
    """Answers a chat completion, and keeps what it was asked."""
    asked: list[dict[str, object]] = []

    class Answers(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            content = {"choices": [{"message": {"content": "Mostly faces.\n<b>\x1b[31m"}}]}
            body = json.dumps(content if len(asked) < 3 else {"error": "secret"}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Answers) as serving:
        thread = threading.Thread(target=serving.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{serving.server_port}/v1", asked
        serving.shutdown()
        thread.join()


def test_a_model_gets_counts_alone_and_its_words_are_marked(
    make_run: MakeRun, tmp_path: Path, server: tuple[str, list[dict[str, object]]], capsys: Capture
) -> None:
    seen = replace(answer(biometrics=1), evidence=("face, 30 px wide", "date"))
    folder, page = make_run([("beach", seen), ("office", seen)]), tmp_path / "page.html"
    options = ["--html", page, "--digest-endpoint", server[0], "--digest-model", "some-model"]
    assert privsieve("report", folder, *options) == 0
    text = page.read_text()
    assert "Written by some-model from the counts above alone" in text
    assert "Mostly faces. &lt;b&gt; [31m" in text or "Mostly faces. &lt;b&gt;\\x1b[31m" in text
    assert [one["messages"][1]["content"] for one in server[1]] == [  # type: ignore[index]
        "date: 1 of 1 private images\nface: 1 of 1 private images"
    ] * 2
    assert "beach" not in json.dumps(server[1])
    page.unlink()
    capsys.readouterr()
    assert privsieve("report", folder, *options) == 2
    assert capsys.readouterr().err == "privsieve: --digest-endpoint: what the server sent is no chat completion\n"
    assert not page.exists()


def test_a_model_gets_the_kinds_of_random_images_together_if_asked(
    make_run: MakeRun, tmp_path: Path, server: tuple[str, list[dict[str, object]]]
) -> None:
    both = replace(answer(biometrics=1), evidence=("face, 30 px wide", "date"))
    face = replace(answer(biometrics=1), evidence=("face, 90 px wide",))
    folder, page = make_run([("beach", both), ("beach", face), ("beach", face)]), tmp_path / "page.html"
    options = ["--html", page, "--digest-endpoint", server[0], "--digest-model", "m", "--digest-sample"]
    assert privsieve("report", folder, *options, 250) == 0
    assert (
        "Written by m from the kinds of evidence of up to 250 random private images of each alone" in page.read_text()
    )
    given = [one["messages"][1]["content"] for one in server[1]]  # type: ignore[index]
    assert given == ["face: 2 of 3 private images drawn at random\ndate, face: 1 of 3 private images drawn at random"]
    assert privsieve("report", folder, *options, 2) == 0
    (drawn,) = [one["messages"][1]["content"] for one in server[1][1:]]  # type: ignore[index]
    assert all("of 2 private images drawn at random" in line for line in drawn.splitlines())


@pytest.mark.parametrize("url", ["http://[::1", "http://a b/v1", "http://127.0.0.1:x/v1", "http:///v1", "file:///etc"])
def test_an_address_that_is_no_base_url_is_one_line(url: str) -> None:
    with pytest.raises(EngineError, match=r"^--digest-endpoint .*; give one such as http://127.0.0.1:8000/v1$"):
        digest_of(evidence_lines([EvidenceCount("beach", "face", 1, 1)]), url, "m", "counts")


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (b"no HTTP at all\r\n\r\n", "the connection broke (ProtocolError)"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\nsecret", "the connection broke (ProtocolError)"),
    ],
)
def test_a_server_that_speaks_no_http_is_one_line_without_its_words(sent: bytes, reason: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(60)

        def answer() -> None:
            connection, _ = listening.accept()
            with connection:
                received = b""
                while not received.endswith(b"}") and (part := connection.recv(65_536)):  # the end of the request
                    received += part
                connection.sendall(sent)

        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        threads = [threading.Thread(target=answer) for _ in range(2)]  # it is tried again once
        for thread in threads:
            thread.start()
        with pytest.raises(StorageError) as caught:
            digest_of(evidence_lines([EvidenceCount("beach", "face", 1, 1)]), url, "m", "counts")
        for thread in threads:
            thread.join()
    assert str(caught.value) == f"--digest-endpoint: {url}: {reason}"
