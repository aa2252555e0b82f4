"""Web servers that send more than was asked for or less, or lead elsewhere."""

import gzip
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler

import pytest

from ingest.errors import StorageError
from ingest.storage.place import place
from tests.ingest.peak import peak_mb
from tests.weights.served import listening

CONTENT = bytes(range(200)) * 500
ZIPPED_ZEROS = gzip.compress(bytes(400 * 2**20), 1)


@contextmanager
def serving(elsewhere: str = "") -> Iterator[str]:
    """The address of a server; the name that is asked for says how it answers."""
    broken = list[str]()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self._answer()

        def do_GET(self) -> None:
            with suppress(OSError):  # the reader has gone
                self._answer()
                name = self.path.strip("/")
                if name.startswith("endless"):
                    for _ in range(2_000):
                        self.wfile.write(bytes(2**20))
                elif name == "zipped":
                    self.wfile.write(ZIPPED_ZEROS)
                elif name == "broken" and not broken:
                    broken.append(name)
                    self.wfile.write(CONTENT[:10])
                elif "redirected" not in name:
                    self.wfile.write(CONTENT)

        def _answer(self) -> None:
            name = self.path.strip("/")
            if "redirected" in name:
                self.send_response(302)
                self.send_header("Location", "/plain" if name == "redirected_here" else f"{elsewhere}/plain")
                self.send_header("Content-Length", "0")
            elif self.command == "GET" and name not in ("plain", "broken"):
                self.send_response(206 if name.endswith("part") else 200)
                if name == "zipped":
                    self.send_header("Content-Encoding", "gzip")
            else:
                self.send_response(200)
                self.send_header("Content-Length", str(len(CONTENT)))
            self.end_headers()

    with listening(Handler) as address:
        yield address


@pytest.mark.parametrize("name", ["endless_part", "endless", "zipped"])
@pytest.mark.parametrize("is_whole", [False, True], ids=["range", "whole"])
def test_an_answer_is_read_to_the_length_that_was_asked_for(name: str, is_whole: bool) -> None:
    with serving() as address:
        file, before = place(f"{address}/{name}"), peak_mb()
        if is_whole and name == "zipped":  # no length was asked for, and nothing is unpacked
            assert file.content() == ZIPPED_ZEROS
        else:
            with pytest.raises(
                StorageError, match=r"^cannot read \S+: the server sends more bytes than were asked for$"
            ):
                file.content() if is_whole else file.open().read()
        assert peak_mb() - before < 200


def test_a_redirection_stays_on_its_machine_and_port() -> None:
    with serving() as other, serving(other) as address:
        assert place(f"{address}/redirected_here").content() == CONTENT
        with pytest.raises(StorageError, match=r": the server leads to another address; give that one, if it is the"):
            place(f"{address}/redirected_there").content()
        with pytest.raises(StorageError, match=r": the server leads to another address; give that one, if it is the"):
            place(f"{address}/redirected_there").size()


def test_an_answer_that_breaks_off_is_asked_for_again() -> None:
    with serving() as address:
        assert place(f"{address}/broken").content() == CONTENT
