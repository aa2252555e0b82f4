"""A server that speaks the chat completions of OpenAI and vLLM, scripted by the hash of the picture it is sent."""

import base64
import hashlib
import json
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from scoring.taxonomy import KEYS

FORM = json.dumps(dict.fromkeys(KEYS, 0) | {"gov_ids": 2, "location": 1})
SECRET = "sk-test-0123456789"


@dataclass
class Reply:
    """What a picture gets: statuses of its first requests, then 200 (the last one stays if `for_ever`).

    packing: the header that names how `raw` is packed. byte_s: the wait before each byte of it.
    """

    statuses: tuple[int, ...] = ()
    for_ever: bool = False
    text: str | None = FORM
    message: dict[str, Any] = field(default_factory=dict)
    finish: str = "stop"
    delay_s: float = 0.0
    error: dict[str, Any] = field(default_factory=dict)
    raw: bytes | None = None
    packing: str = ""
    byte_s: float = 0.0


class ChatServer(ThreadingHTTPServer):
    """`script`: sha256 of the JPEG -> reply; `by_words`: words of the question -> reply, before `script`; `refuses`:
    parameters that every request is refused for; `models`: what it answers for."""

    daemon_threads = True
    # More than the default of 5: many connections come at once.
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.script: dict[str, Reply] = {}
        self.by_words: dict[str, Reply] = {}
        self.default = Reply()
        self.refuses: dict[str, str] = {}
        self.keys: frozenset[str] = frozenset()
        self.models = ["tiny-vl"]
        self.retry_after = ""
        self.logprobs: Any = None
        self.proxied: set[str] = set()
        self.bodies: list[dict[str, Any]] = []
        self.requests: Counter[str] = Counter()
        self.at_once = self.most_at_once = 0
        self.lock = threading.Lock()
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"

    def close(self) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class _Handler(BaseHTTPRequestHandler):
    server: ChatServer
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.at_once += 1
            self.server.most_at_once = max(self.server.most_at_once, self.server.at_once)
            self.server.bodies.append(body)
            if account := self.headers.get("Proxy-Authorization"):
                self.server.proxied.add(base64.b64decode(account.removeprefix("Basic ")).decode())
        try:
            self._answer(body)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the client waited long enough
        finally:
            with self.server.lock:
                self.server.at_once -= 1

    def _may_come_in(self) -> bool:
        if self.server.keys and self.headers.get("Authorization", "") not in self.server.keys:
            self._send(401, {"error": {"message": f"wrong key {SECRET}", "code": "invalid_api_key"}})
            return False
        return True

    def _answer(self, body: dict[str, Any]) -> None:
        if self.path != "/v1/chat/completions":
            self._send(404, {"error": {"message": "no such path"}})
            return
        if not self._may_come_in():
            return
        if body["model"] not in self.server.models:
            self._send(404, {"error": {"message": "no such model", "code": "model_not_found"}})
            return
        sha256 = _sha256_of_picture(body)
        reply = self.server.script.get(sha256, self.server.default)
        if self.server.by_words:
            asked = json.dumps(body["messages"], ensure_ascii=False)
            reply = next((reply for words, reply in self.server.by_words.items() if words in asked), reply)
        for parameter in self.server.refuses.keys() & body.keys():
            named = self.server.refuses[parameter]
            self._send(400, {"error": {"message": "unsupported", "param": named, "code": "unsupported_parameter"}})
            return
        with self.server.lock:
            number = self.server.requests[sha256]
            self.server.requests[sha256] += 1
        time.sleep(reply.delay_s)
        if number < len(reply.statuses) or reply.for_ever:
            status = reply.statuses[min(number, len(reply.statuses) - 1)]
            self._send(status, {"error": {"message": "the picture shows a secret"} | reply.error})
        elif reply.raw is not None:
            self._send_bytes(200, reply.raw, reply.packing, reply.byte_s)
        else:
            message = {"role": "assistant", "content": reply.text} | reply.message
            choice = {"index": 0, "message": message, "finish_reason": reply.finish}
            if self.server.logprobs is not None and body.get("logprobs"):
                choice["logprobs"] = {"content": self.server.logprobs}
            self._send(200, {"object": "chat.completion", "choices": [choice]})

    def _send(self, status: int, content: object) -> None:
        self._send_bytes(status, json.dumps(content).encode())

    def _send_bytes(self, status: int, content: bytes, packing: str = "", byte_s: float = 0.0) -> None:
        self.send_response(status)
        if packing:
            self.send_header("Content-Encoding", packing)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if self.server.retry_after and status in (429, 503):
            self.send_header("Retry-After", self.server.retry_after)
        self.end_headers()
        for start in range(0, len(content) if byte_s else 0):
            time.sleep(byte_s)
            self.wfile.write(content[start : start + 1])
        if not byte_s:
            self.wfile.write(content)


def _sha256_of_picture(body: dict[str, Any]) -> str:
    parts = body["messages"][-1]["content"]
    if isinstance(parts, str):
        return "no picture"
    assert [part["type"] for part in parts] == ["text", "image_url"]
    _, _, encoded = parts[-1]["image_url"]["url"].partition("data:image/jpeg;base64,")
    return hashlib.sha256(base64.b64decode(encoded)).hexdigest()
