"""A real S3 server (moto) on a free port, and a proxy before it that fails on demand."""

import http.client
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import s3fs
from moto.server import ThreadedMotoServer

from ingest.storage.place import place
from tests.conftest import joined, ray_head
from tests.ingest import made
from tests.ingest.made import jpeg
from tests.making import Patch, Request

BUCKET = "corpora"
KEY_ID, SECRET = "AKIAFAKEKEYIDOFATEST", "fake/Secret+OfATestThatMustNotShow"

Fault = int | str
"""A status to answer with, or "reset" (the connection is cut), "short" (half of the body, then cut)."""


NUM_SHARDS, PER_SHARD = 2, 6


@dataclass
class Proxy:
    """Passes requests on; `fault` tells what goes wrong with one. seen: (method, path, Range header)."""

    address: str
    target: int
    fault: Callable[[str, str, str], Fault | None] = lambda method, path, span: None
    seen: list[tuple[str, str, str]] = field(default_factory=list)
    faults: int = 0

    def first(self, count: int, fault: Fault, method: str = "", part: str = "", ranged: bool = False) -> None:
        """The first `count` requests with this method, this part of the path, and a range if so asked, go wrong."""
        lock, left = threading.Lock(), [count]

        def decide(verb: str, path: str, span: str) -> Fault | None:
            with lock:
                if (method and verb != method) or part not in path or (ranged and not span) or not left[0]:
                    return None
                left[0] -= 1
                self.faults += 1
                return fault

        self.fault = decide


def _handler(proxy: Proxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            pass

        def _pass_on(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            span = self.headers.get("Range", "")
            proxy.seen.append((self.command, self.path, span))
            fault = proxy.fault(self.command, self.path, span)
            if fault == "reset":
                self.close_connection = True
                return
            if isinstance(fault, int):
                self.send_response(fault)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            self._answer(body, fault == "short")

        def _answer(self, body: bytes, short: bool) -> None:
            behind = http.client.HTTPConnection("127.0.0.1", proxy.target, timeout=300)
            behind.request(self.command, self.path, body, dict(self.headers))
            answer = behind.getresponse()
            content = answer.read()
            behind.close()
            self.send_response_only(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in ("connection", "transfer-encoding", "content-length"):
                    self.send_header(name, value)
            length = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(content))
            self.send_header("Content-Length", length or "0")
            self.end_headers()
            self.wfile.write(content[: len(content) // 2] if short else content)
            self.close_connection = short

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = _pass_on  # noqa: N815 - http.server's names

    return Handler


@pytest.fixture(scope="session")
def moto_port() -> Iterator[int]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    yield int(server.get_host_and_port()[1])
    server.stop()


@pytest.fixture(scope="session")
def proxy_server(moto_port: int) -> Iterator[Proxy]:
    proxy = Proxy("", moto_port)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(proxy))
    proxy.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield proxy
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="session")
def settings(proxy_server: Proxy) -> dict[str, str]:
    """What a user of the store has in the environment."""
    return {
        "AWS_ENDPOINT_URL": proxy_server.address,
        "AWS_ACCESS_KEY_ID": KEY_ID,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        # The driver's own attempts hide ours.
        "AWS_MAX_ATTEMPTS": "1",
        "PRIVSIEVE_RETRY_S": "20",
    }


@pytest.fixture(scope="package")
def head(settings: dict[str, str]) -> Iterator[str]:
    """A Ray head whose workers know the store. One CPU: for an engine, or for a task that copies shards."""
    with ray_head(settings, num_cpus=1) as address:
        yield address


@pytest.fixture(autouse=True)
def joining(request: Request) -> Iterator[None]:
    """Tests marked `ray` join the head, whose workers reach the store. All others scan in this process."""
    if request.node.get_closest_marker("ray") is None:
        yield
        return
    with joined(request.getfixturevalue("head")):
        yield


@pytest.fixture
def store(proxy_server: Proxy, settings: dict[str, str], monkeypatch: Patch) -> Iterator[Proxy]:
    """The store as a user sees it; the bucket is empty."""
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()
    proxy_server.fault = lambda method, path, span: None
    bucket = s3fs.S3FileSystem(use_listings_cache=False)
    bucket.mkdir(BUCKET)
    proxy_server.seen.clear()
    proxy_server.faults = 0
    yield proxy_server
    proxy_server.fault = lambda method, path, span: None
    bucket.rm(BUCKET, recursive=True)
    s3fs.S3FileSystem.clear_instance_cache()


def corpus(folder: Path, format_name: str) -> Path:
    pictures = [[jpeg(20 * shard + n) for n in range(PER_SHARD)] for shard in range(NUM_SHARDS)]
    return made.corpus(folder, format_name, pictures)


def upload(folder: Path, url: str) -> str:
    for file in sorted(f for f in folder.rglob("*") if f.is_file()):
        place(url).at(file.relative_to(folder).as_posix()).write(file.read_bytes())
    return url
