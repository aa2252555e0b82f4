"""Only a browser that opened the printed address is answered, and no other page in it."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from jobs.serving.local_server import LocalServer
from jobs.serving.review.progress import ReviewPage
from tests.making import Folders
from tests.reviewing.made import Person, run_of, served

PATHS = ("/", "/review.js", "/api/state", "/api/next", "/api/picture/0", "/api/progress")


@pytest.fixture(scope="module")
def run(tmp_path_factory: Folders) -> Path:
    return run_of(tmp_path_factory.mktemp("guard"))


@pytest.fixture(scope="module")
def server(run: Path) -> Iterator[LocalServer[ReviewPage]]:
    with served(run, reviewer="ana") as one:
        yield one


def test_without_the_token_nothing_is_shown(server: LocalServer[ReviewPage]) -> None:
    person = Person(server.address)
    for path in PATHS:
        assert person.get(path).status == 200
        assert person.get(path, Cookie="").status == 403
        assert person.get(path, Cookie="privsieve-review-0=x").status == 403
    assert person.post("/api/answer", {"number": 0, "answer": "private"}, Cookie="").status == 403
    wrong = person.get("/enter?token=" + "x" * 43, Cookie="")
    assert (wrong.status, wrong.headers.get("set-cookie")) == (403, None)


def test_the_cookie_is_no_token_and_scripts_and_other_sites_cannot_use_it(server: LocalServer[ReviewPage]) -> None:
    person = Person(server.address)
    entered = person.get(person.address.partition(person.host)[2])
    cookie = entered.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert server.address.partition("token=")[2] not in entered.headers["set-cookie"]
    assert entered.headers["location"] == "/"


def test_a_name_that_leads_here_by_dns_is_refused(server: LocalServer[ReviewPage]) -> None:
    person = Person(server.address)
    for host in ("evil.example", "evil.example:80", f"127.0.0.1.evil.example:{person.host.partition(':')[2]}"):
        assert [person.get(path, Host=host).status for path in PATHS] == [421] * len(PATHS)
    assert person.get("/api/state", Host=person.host.replace("127.0.0.1", "localhost")).status == 200


def test_another_page_can_neither_read_nor_answer(server: LocalServer[ReviewPage], run: Path) -> None:
    person = Person(server.address)
    number = person.next()[0]
    person.look(number)
    body = {"number": number, "answer": "private"}
    for headers, status in (
        ({"Origin": ""}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Content-Type": "text/plain"}, 415),
    ):
        assert person.post("/api/answer", body, **headers).status == status
    assert person.get("/api/picture/0", **{"Sec-Fetch-Site": "same-site"}).status == 403
    assert person.request("OPTIONS", "/api/answer", Origin="http://evil.example").status == 405
    assert not list((run / "reviews").glob("*.parquet"))
    assert person.post("/api/answer", body).status == 200
    assert len(list((run / "reviews").glob("*.parquet"))) == 1


def test_every_answer_forbids_foreign_scripts_caches_and_frames(server: LocalServer[ReviewPage]) -> None:
    person = Person(server.address)
    for path in (*PATHS, "/enter?token=x", "/absent"):
        headers = person.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self'; img-src blob:" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["cache-control"] == "no-store"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["referrer-policy"] == "no-referrer"
        assert not [name for name in headers if name.startswith("access-control") or name == "server"]


@pytest.mark.parametrize("number", ["6", "9" * 5_000, "-1", "0.5", "²"], ids=lambda number: number[:5])
def test_a_number_of_no_picture_is_not_found(server: LocalServer[ReviewPage], number: str) -> None:
    answer = Person(server.address).get(f"/api/picture/{quote(number)}")
    assert (answer.status, answer.json) == (404, {"error": "there is no such picture"})


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"number": 10**6, "answer": "private"},
        {"number": -1, "answer": "private"},
        {"number": 0, "answer": "attributes", "values": {"age": 1}},
        {"number": 0, "answer": "public", "seconds": -1},
        {"number": 0, "answer": "public", "private": 1},
        {"number": 0, "answer": "x" * 70_000},
        {"number": 0, "answer": "public", "boxes": [{"attribute": "<b>", "by": "person"} | dict.fromkeys("abcd", 0)]},
    ],
    ids=lambda body: str(body)[:30],
)
def test_what_the_page_does_not_send_is_refused_in_one_line(server: LocalServer[ReviewPage], body: object) -> None:
    person = Person(server.address)
    person.look(0)
    answer = person.post("/api/answer", body)
    assert answer.status == 400
    assert set(answer.json) == {"error"}
    assert "\n" not in answer.json["error"]
