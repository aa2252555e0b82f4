"""A web server with folders of files: it lists them, gives ranges, counts what was asked for, and can stall."""

import hashlib
import re
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

BASE = Path(__file__).parents[2] / "jobs" / "demo" / "tuning" / "base"


@dataclass
class Served:
    """What the server gives and has seen; tests change the fields."""

    root: Path
    address: str = ""
    links: tuple[str, ...] = ()
    """Further links on every page."""

    sizes: dict[str, int] = field(default_factory=dict)
    """Name of a file -> the size that the server says it has."""

    stalled: str = ""
    """Name of a file whose bytes do not come before `released`."""

    released: threading.Event = field(default_factory=threading.Event)
    asked: list[str] = field(default_factory=list)
    """Name of the file of each GET."""

    num_heads: int = 0

    def num_gets(self) -> Counter[str]:
        return Counter(self.asked)

    def url(self, folder: str) -> str:
        return f"{self.address}/{folder}"


class QuietHandler(BaseHTTPRequestHandler):
    """Answers a HEAD as a GET without its body, and logs nothing."""

    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_HEAD(self) -> None:
        self.answer(with_body=False)

    def do_GET(self) -> None:
        self.answer(with_body=True)

    def answer(self, with_body: bool) -> None:
        raise NotImplementedError


@contextmanager
def listening(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """Yield the address of a server for the length of the block."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _handler(served: Served) -> type[QuietHandler]:
    class Handler(QuietHandler):
        def answer(self, with_body: bool) -> None:
            asked = urlsplit(self.path)
            file = served.root / asked.path.strip("/")
            if asked.query or not file.exists() or ".." in asked.path:
                self._send(404, b"", with_body)
            elif file.is_dir():
                names = [f"{f.name}/" if f.is_dir() else f.name for f in sorted(file.iterdir())]
                page = "".join(f'<a href="{link}">x</a>' for link in ("../", "?C=N;O=D", *names, *served.links))
                self._send(200, page.encode(), with_body, "text/html")
            else:
                self._give(file, with_body)

        def _give(self, file: Path, with_body: bool) -> None:
            size = served.sizes.get(file.name, file.stat().st_size)
            span = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
            start = int(span[1]) if span else 0
            end = min(int(span[2]) + 1, size) if span and span[2] else size
            if with_body:
                served.asked.append(file.name)
                if file.name == served.stalled:
                    served.released.wait()
            content = b""
            if with_body:
                with file.open("rb") as stream:
                    stream.seek(start)
                    content = stream.read(end - start)
            found = file.stat()
            served.num_heads += not with_body
            mark = hashlib.sha256(f"{found.st_mtime_ns} {size}".encode()).hexdigest()
            self._send(206 if span else 200, content, with_body, mark=mark, length=end - start)

        def _send(
            self, status: int, body: bytes, with_body: bool, kind: str = "", mark: str = "", length: int | None = None
        ) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body) if length is None else length))
            self.send_header("Accept-Ranges", "bytes")
            self.send_header("Content-Type", kind or "application/octet-stream")
            if mark:
                self.send_header("ETag", f'"{mark}"')
            self.end_headers()
            if with_body:
                self.wfile.write(body)

        def handle(self) -> None:
            with suppress(ConnectionResetError, BrokenPipeError):  # of a process that was killed
                super().handle()

    return Handler


@contextmanager
def serving(root: Path) -> Iterator[Served]:
    served = Served(root)
    with listening(_handler(served)) as served.address:
        try:
            yield served
        finally:
            served.released.set()
