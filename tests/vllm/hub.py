"""A server that answers as the Hugging Face hub does, as far as models are fetched from it; it has one model."""

import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Hub:
    """What it gives and has seen; tests change the fields."""

    folder: Path
    """Of the model `owner/micro`."""

    address: str = ""
    wrong_hash: bool = False
    """The hub says that the weights have another SHA-256."""

    fetched: list[str] = field(default_factory=list)

    def tree(self) -> list[dict[str, object]]:
        found = []
        for file in sorted(self.folder.iterdir()):
            size, content = file.stat().st_size, file.read_bytes()
            entry: dict[str, object] = {"type": "file", "path": file.name, "size": size}
            entry["oid"] = hashlib.sha1(content).hexdigest()
            if file.suffix == ".safetensors":
                digest = "0" * 64 if self.wrong_hash else hashlib.sha256(content).hexdigest()
                entry["lfs"] = {"oid": digest, "size": size, "pointerSize": 134}
            found.append(entry)
        return found


def _handler(hub: Hub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path.startswith("/api/models/owner/micro/tree/"):
                self._send(200, json.dumps(hub.tree()).encode())
            elif path.startswith("/api/models/owner/micro"):
                self._send(200, json.dumps({"id": "owner/micro", "sha": COMMIT, "siblings": [], "tags": []}).encode())
            elif path.startswith(f"/owner/micro/resolve/{COMMIT}/"):
                name = path.rpartition("/")[2]
                hub.fetched.append(name)
                span = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
                assert span is not None
                self._send(206, (hub.folder / name).read_bytes()[int(span[1]) : int(span[2]) + 1])
            else:
                self._send(404, b"{}")

        def _send(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(body)

    return Handler


@contextmanager
def serving_as_hub(folder: Path) -> Iterator[Hub]:
    hub = Hub(folder)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(hub))
    hub.address = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
