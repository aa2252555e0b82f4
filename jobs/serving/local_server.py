"""A server for one page on this machine, for `review` and `browse`. starlette and uvicorn (extra `review`) are imported
inside the functions."""

import secrets
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from ingest.errors import PrivsieveError
from ingest.machine import install_command
from ingest.storage.place import reason_of
from jobs.console.terminal import write_line

if TYPE_CHECKING:
    from starlette.types import ASGIApp
    from uvicorn import Server

Page = TypeVar("Page")


@dataclass(frozen=True)
class LocalServer(Generic[Page]):
    """A server that has its address."""

    page: Page
    """What it shows, and what it works with."""

    address: str
    """Address to open in a browser: it holds the token."""

    server: "Server"
    listening: socket.socket

    def run(self) -> None:
        """Serve until the process is interrupted, or `server.should_exit` is set."""
        self.server.run(sockets=[self.listening])

    @contextmanager
    def in_background(self) -> Iterator[None]:
        """Serve in a thread for the length of a `with` block."""
        thread = threading.Thread(target=self.run, name="privsieve-page")
        thread.start()
        try:
            yield
        finally:
            self.server.should_exit = True
            thread.join()

    def run_until_interrupted(self, ending: str) -> None:
        """Print the address, and serve until Ctrl-C. ending: says what that ends."""
        write_line(f"open {self.address}")
        write_line(f"Ctrl-C ends {ending}")
        with suppress(KeyboardInterrupt):
            self.run()


@contextmanager
def local_server(
    app: "ASGIApp", page: Page, command: str, port: int, reviewer: str | None = None
) -> Iterator[LocalServer[Page]]:
    """Start a server of 127.0.0.1 that answers only a browser which opened its address. PrivsieveError if the port is
    taken. command: the verb, which names the cookie. port: 0 for a free one. reviewer: see `handling.Session`."""
    import uvicorn

    from jobs.serving.handling import Guard

    with _bound(port) as listening:
        port = listening.getsockname()[1]
        token = secrets.token_urlsafe(32)
        guarded = Guard(app, token, f"privsieve-{command}-{port}", reviewer)
        config = uvicorn.Config(
            guarded,
            log_config=None,  # a line of its log could name what people look at
            log_level="critical",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            lifespan="off",
            timeout_graceful_shutdown=3,
        )
        yield LocalServer(page, f"http://127.0.0.1:{port}/enter?token={token}", uvicorn.Server(config), listening)


def refuse_missing(command: str) -> None:
    """Raise PrivsieveError in one line if the extra `review` is not installed."""
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ModuleNotFoundError as error:
        raise PrivsieveError(f"{command} needs the package {error.name}: {install_command('review')}") from None


@contextmanager
def _bound(port: int) -> Iterator[socket.socket]:
    with socket.socket() as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(("127.0.0.1", port))
        except OSError as error:
            raise PrivsieveError(
                f"port {port} cannot be used: {reason_of(error)}; give another --port, or leave it out"
            ) from None
        listening.listen(128)
        yield listening
