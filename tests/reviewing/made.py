"""A small run of drawn pictures, a server of it in this process, and people who talk to it as a browser does."""

import http.client
import io
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pdqhash
from PIL import Image

from jobs.runtime.progress import SILENT, Feedback
from jobs.serving.local_server import LocalServer
from jobs.serving.review.progress import ReviewPage
from jobs.serving.review.reviewing import ReviewRequest, serving
from tests.jobs.in_process import scan_in_process
from tests.tuning_sets.made import files, webdataset

EVERY = "index >= 0"


def run_of(folder: Path, pictures: dict[str, bytes] | None = None) -> Path:
    """A scanned corpus of tars."""
    scan_in_process(webdataset(folder / "corpus", pictures or files(6)), folder / "run")
    return folder / "run"


@contextmanager
def served(
    run: Path | str, queue: str | None = EVERY, feedback: Feedback = SILENT, **more: Any
) -> Iterator[LocalServer[ReviewPage]]:
    with serving(ReviewRequest(run=str(run), queue=queue, **more), feedback) as one, one.in_background():
        yield one


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    content: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.content)


@dataclass
class Person:
    """A browser that opened the printed address."""

    address: str
    name: str | None = None
    cookie: str = ""
    headers: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        entered = self.get(self.address.partition(self.host)[2])
        assert entered.status == 303
        self.cookie = entered.headers["set-cookie"].partition(";")[0]
        if self.name is not None:
            assert self.post("/api/name", {"name": self.name}).status == 200

    @property
    def host(self) -> str:
        return urlsplit(self.address).netloc

    def request(self, method: str, path: str, body: bytes | None = None, **headers: str) -> Answer:
        connection = http.client.HTTPConnection(self.host, timeout=60)
        sent = {"Cookie": self.cookie, **self.headers, **headers}
        connection.request(method, path, body, {name: value for name, value in sent.items() if value})
        found = connection.getresponse()
        answer = Answer(found.status, {name.lower(): value for name, value in found.getheaders()}, found.read())
        connection.close()
        return answer

    def get(self, path: str, **headers: str) -> Answer:
        return self.request("GET", path, None, **headers)

    def post(self, path: str, body: object, **headers: str) -> Answer:
        usual = {"Origin": f"http://{self.host}", "Content-Type": "application/json"}
        return self.request("POST", path, json.dumps(body).encode(), **{**usual, **headers})

    def next(self) -> list[int]:
        numbers: list[int] = self.get("/api/next").json["numbers"]
        return numbers

    def look(self, number: int) -> Image.Image | str:
        """The picture, or why it is not shown."""
        answer = self.get(f"/api/picture/{number}")
        if answer.headers["content-type"] != "image/jpeg":
            state: str = answer.json["state"]
            return state
        return Image.open(io.BytesIO(answer.content))

    def say(self, number: int, answer: str, **more: object) -> Answer:
        self.look(number)
        return self.post("/api/answer", {"number": number, "answer": answer, **more})

    def say_all(self, answer: str) -> int:
        """To every picture that is left; how many these were."""
        count = 0
        while numbers := [n for n in self.next() if not isinstance(self.look(n), str)]:
            for number in numbers:
                assert self.say(number, answer).status == 200
            count += len(numbers)
        return count


def source_of(run: Path) -> str:
    """The corpus of a run."""
    source: str = json.loads((run / "run.json").read_text())["source"]
    return source


def pdq(content: bytes) -> str:
    bits = pdqhash.compute(np.asarray(Image.open(io.BytesIO(content)).convert("RGB")))[0]
    return np.packbits(np.asarray(bits, np.uint8)).tobytes().hex()


def smaller_and_mirrored(content: bytes) -> bytes:
    buffer = io.BytesIO()
    image = Image.open(io.BytesIO(content)).convert("RGB").transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    image.resize((200, 200)).save(buffer, "JPEG", quality=60)
    return buffer.getvalue()
