"""How each kind of answer ends, through the opener that the workers of a fetch install."""

import http.client
import time
import urllib.error
from collections.abc import Iterator

import pytest

from jobs.fetching import program
from jobs.fetching.program import Bounds, bounded_opener, is_public
from tests.jobs.fetch_host import MAX_BYTES, image_host, picture
from tests.making import Patch

TIMEOUT_SECONDS = 1.0
PATIENCE_SECONDS = 60.0
"""For answers that come."""


@pytest.fixture(scope="module")
def host() -> Iterator[str]:
    with image_host() as address:
        yield address


def _fetched(url: str, private_addresses: bool = True, timeout_seconds: float = PATIENCE_SECONDS) -> bytes:
    opener = bounded_opener(Bounds(MAX_BYTES, timeout_seconds, private_addresses))
    with opener.open(url, timeout=timeout_seconds) as answer:
        content: bytes = answer.read()
    return content


def _failure(url: str, private_addresses: bool = True, timeout_seconds: float = PATIENCE_SECONDS) -> str:
    with pytest.raises((OSError, http.client.HTTPException), match=r".") as failed:
        _fetched(url, private_addresses, timeout_seconds)
    return str(failed.value)


def test_an_image_comes_byte_for_byte_also_after_a_redirection(host: str) -> None:
    assert _fetched(f"{host}/jpeg") == picture("JPEG")
    assert _fetched(f"{host}/png.jpg") == picture("PNG")
    assert _fetched(f"{host}/moved") == picture("JPEG")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("missing", "HTTP Error 404: Not Found"),
        ("page", "refused: not_an_image"),
        ("svg", "refused: not_an_image"),
        ("cut", "IncompleteRead"),
        ("nothing", "refused: empty"),
        ("reserved", "refused: opted_out"),
        ("huge", "refused: too_large"),
        ("endless", "refused: too_large"),
        ("liar", "refused: too_large"),
        ("interim", "refused: too_large"),
        ("chunks", "refused: too_large"),
        ("one-chunk", "refused: too_large"),
        ("moved-with-more", "refused: too_large"),
        ("compressed", "refused: not_an_image"),
        ("to-ftp", "unknown url type: ftp"),
        ("to-file", "Redirection to url 'file:///etc/passwd' is not allowed"),
    ],
)
def test_a_bad_answer_ends_with_its_reason(host: str, path: str, message: str) -> None:
    assert message in _failure(f"{host}/{path}")


@pytest.mark.parametrize("path", ["silent", "trickle", "trickling-headers", "slow-circle"])
def test_an_answer_that_does_not_come_to_its_end_times_out(host: str, path: str) -> None:
    started = time.monotonic()
    assert "timed out" in _failure(f"{host}/{path}", timeout_seconds=TIMEOUT_SECONDS)
    assert time.monotonic() - started < 100  # one of them is silent for longer


def test_a_circle_of_redirections_ends(host: str) -> None:
    with pytest.raises(urllib.error.HTTPError) as failed:
        _fetched(f"{host}/circle")
    assert "infinite loop" in str(failed.value)
    failed.value.close()


def test_only_http_is_spoken(host: str) -> None:
    for url in ("file:///etc/hostname", "ftp://127.0.0.1/x", "data:image/gif;base64,R0lGODlh"):
        assert "unknown url type" in _failure(url)


def test_private_addresses_are_not_asked_by_default(host: str) -> None:
    assert "refused: private_address" in _failure(f"{host}/jpeg", private_addresses=False)
    assert "refused: private_address" in _failure(host.replace("127.0.0.1", "localhost"), private_addresses=False)


def test_a_public_host_cannot_lead_into_a_private_network(host: str, monkeypatch: Patch) -> None:
    monkeypatch.setattr(program, "is_public", lambda address: address == "127.0.0.1")
    assert _fetched(f"{host}/moved", private_addresses=False) == picture("JPEG")
    assert _fetched(f"{host}/inward") == picture("JPEG")
    assert "refused: private_address" in _failure(f"{host}/inward", private_addresses=False)


PRIVATE = (
    "10.0.0.1 100.64.0.1 169.254.169.254 224.0.0.5 ::1 fe80::1%eth0 fec0::1 ff0e::1 ::10.0.0.1 ::ffff:169.254.169.254 "
    "64:ff9b::a9fe:a9fe 64:ff9b:1::808:808 2002:a00:1::1 2002:808:808::1 2001:0:808:808::f5ff:fffe"
)


@pytest.mark.parametrize("address", PRIVATE.split())
def test_an_address_that_leads_into_a_private_network_is_private(address: str) -> None:
    assert not is_public(address)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "64:ff9b::808:808"])
def test_an_address_of_the_public_internet_is_public(address: str) -> None:
    assert is_public(address)


def test_a_port_where_nothing_listens(host: str) -> None:
    assert "Connection refused" in _failure("http://127.0.0.1:9/x")
