"""A host on this machine that answers as hosts of crawled images do: well, badly, slowly and with ill will."""

import gzip
import io
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from tests.jobs.made import privsieve

MAX_BYTES = 300_000
"""The limit that the tests set; /huge and /endless send more."""


def picture(kind: str) -> bytes:
    out = io.BytesIO()
    Image.linear_gradient("L").convert("RGB").save(out, kind)
    return out.getvalue()


PICTURE = picture("JPEG")

PLAIN: dict[str, tuple[bytes, int, dict[str, str]]] = {
    "jpeg": (PICTURE, 200, {}),
    "png": (picture("PNG"), 200, {"Content-Type": "image/png"}),
    "page": (b"<!doctype html><html><body>This image was removed</body></html>", 200, {"Content-Type": "image/jpeg"}),
    "svg": (b'<?xml version="1.0"?><!-- a circle --><svg xmlns="http://www.w3.org/2000/svg"/>', 200, {}),
    "nothing": (b"", 200, {}),
    "no-ai": (PICTURE, 200, {"X-Robots-Tag": "noimageai"}),
    "no-index-for-us": (PICTURE, 200, {"X-Robots-Tag": "privsieve: noindex"}),
    "no-index-for-others": (PICTURE, 200, {"X-Robots-Tag": "othercrawler: noindex"}),
    "reserved": (PICTURE, 200, {"TDM-Reservation": "1"}),
    "moved": (b"", 302, {"Location": "/jpeg"}),
    "circle": (b"", 302, {"Location": "/circle"}),
    "to-ftp": (b"", 302, {"Location": "ftp://127.0.0.1/etc/passwd"}),
    "to-file": (b"", 301, {"Location": "file:///etc/passwd"}),
    "huge": (PICTURE + b"\0" * MAX_BYTES, 200, {}),
    "liar": (PICTURE, 200, {"Content-Length": str(10**15)}),
    # 10 MB in 10 KB.
    "compressed": (gzip.compress(PICTURE + b"\0" * 10_000_000), 200, {"Content-Encoding": "gzip"}),
}
"""Path -> content, status and headers of each answer that is sent as it is."""


class _Answers(BaseHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        name = self.path.strip("/").partition("?")[0].partition(".")[0]
        try:
            if hasattr(self, method := f"answer_{name.replace('-', '_')}"):
                getattr(self, method)()
            else:
                self._send(*PLAIN.get(name, (b"gone", 404, {})))
        except OSError:
            self.close_connection = True  # the other side has had enough

    def _send(self, content: bytes, status: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in ({"Content-Length": str(len(content))} | {**headers}).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def answer_cut(self) -> None:
        self._send(PICTURE[:-9], 200, {"Content-Length": str(len(PICTURE))})
        self.close_connection = True

    def answer_slow_circle(self) -> None:
        time.sleep(0.4)
        self._send(b"", 302, {"Location": f"/slow-circle?{time.monotonic()}"})

    def answer_endless(self) -> None:
        self.send_response(200)
        self.end_headers()
        while True:
            self.wfile.write(PICTURE)

    def answer_interim(self) -> None:
        while True:
            self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def answer_chunks(self) -> None:
        self._chunked(b"1000\r\n" + b"\0" * 0x1000 + b"\r\n")

    def answer_one_chunk(self) -> None:
        self._chunked(b"7fffffffffffffff\r\n")

    def _chunked(self, repeated: bytes) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            self.wfile.write(repeated)

    def answer_moved_with_more(self) -> None:
        self.send_response(302)
        self.send_header("Location", "/jpeg")
        self.end_headers()
        while True:
            self.wfile.write(b"\0" * 4_096)

    def answer_inward(self) -> None:
        """To another address of this machine, which the test takes for one of a private network."""
        self._send(b"", 302, {"Location": f"http://127.0.0.2:{self.connection.getsockname()[1]}/jpeg"})

    def answer_late(self) -> None:
        time.sleep(0.2)
        self._send(*PLAIN["jpeg"])

    def answer_silent(self) -> None:
        time.sleep(120)

    def answer_trickle(self) -> None:
        self.send_response(200)
        self.end_headers()
        for byte in PICTURE:
            self.wfile.write(bytes([byte]))
            time.sleep(0.2)

    def answer_trickling_headers(self) -> None:
        self.wfile.write(b"HTTP/1.0 200 OK\r\n")
        while True:
            self.wfile.write(b"X-More: x\r\n")
            time.sleep(0.2)


@contextmanager
def image_host() -> Iterator[str]:
    """Its address, as http://127.0.0.1:PORT."""
    server = ThreadingHTTPServer(("0.0.0.0", 0), _Answers)
    server.daemon_threads = True
    server.block_on_close = False
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


URLS = [f"https://images.example/{n}.jpg" for n in range(7)]
CAPTIONS = ["My Credit  Card", "a car", "a card game", "selfie at Essex", None, "cars", "toy cars and dolls"]
PUNSAFE = [0.0, 0.2, 0.4, 0.6, 0.8, 1.0, None]
LAION = pa.table({"URL": URLS, "TEXT": CAPTIONS, "WIDTH": pa.array(range(7), pa.int32()), "punsafe": PUNSAFE})


def select(metadata: Path | str, out: Path, foreign: Path, *options: object) -> pa.Table:
    """The selected rows, by the command itself."""
    assert privsieve("fetch", metadata, "--out", out, "--environment", foreign, *options) == 2
    return selected_rows(out) if out.exists() else None


def selected_rows(out: Path) -> pa.Table:
    return pq.read_table(sorted((out / "selected").glob("*.parquet")))
