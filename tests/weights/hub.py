"""A server that answers as the Hugging Face hub does, as far as models are fetched from it; it has one model."""

import hashlib
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.weights.served import QuietHandler, listening

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Hub:
    """What it gives and has seen; tests change the fields."""

    folder: Path
    """Of the model `owner/micro`."""

    address: str = ""
    fetched: list[str] = field(default_factory=list)

    def files(self) -> list[dict[str, object]]:
        listed = []
        for file in sorted(self.folder.iterdir()):
            entry: dict[str, object] = {"type": "file", "path": file.name, "rfilename": file.name}
            entry |= {"size": file.stat().st_size, "oid": git_hash(file), "blobId": git_hash(file)}
            if file.suffix == ".safetensors":
                entry["lfs"] = {"oid": sha256(file), "sha256": sha256(file), "size": entry["size"], "pointerSize": 134}
            listed.append(entry)
        return listed


def git_hash(file: Path) -> str:
    content = file.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _handler(hub: Hub) -> type[QuietHandler]:
    class Handler(QuietHandler):
        def answer(self, with_body: bool) -> None:
            path = self.path.partition("?")[0]
            if path.startswith("/api/models/owner/micro/tree/"):
                self._send(200, json.dumps(hub.files()).encode(), with_body)
            elif path.startswith("/api/models/owner/micro"):
                model = {"id": "owner/micro", "sha": COMMIT, "siblings": hub.files(), "tags": []}
                self._send(200, json.dumps(model).encode(), with_body)
            elif path.startswith(f"/owner/micro/resolve/{COMMIT}/"):
                file = hub.folder / path.rpartition("/")[2]
                mark = sha256(file) if file.suffix == ".safetensors" else git_hash(file)
                content, status = file.read_bytes(), 200
                if with_body:
                    hub.fetched.append(file.name)
                if span := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")):
                    content, status = content[int(span[1]) : int(span[2] or len(content)) + 1], 206
                self._send(status, content, with_body, {"ETag": f'"{mark}"', "X-Repo-Commit": COMMIT})
            else:
                self._send(404, b"{}", with_body)

        def _send(self, status: int, body: bytes, with_body: bool, more: dict[str, str] | None = None) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Content-Type", "application/json")
            for name, value in (more or {}).items():
                self.send_header(name, value)
            self.end_headers()
            if with_body:
                self.wfile.write(body)

    return Handler


@contextmanager
def serving_as_hub(folder: Path) -> Iterator[Hub]:
    hub = Hub(folder)
    with listening(_handler(hub)) as hub.address:
        yield hub
