"""The program that downloads. It runs in the environment of img2dataset, never in privsieve's own.

`python -I program.py JSON` calls img2dataset's public `download`. It sets the limits that img2dataset lacks, at
urllib's own point of extension: every process installs an opener that speaks http and https only, stops at a size and
a time, and stays on the public internet. The rows and files are img2dataset's.
"""

import functools
import http.client
import io
import ipaddress
import json
import multiprocessing
import os
import re
import signal
import socket
import sys
import threading
import time
import urllib.request
from dataclasses import dataclass
from typing import Any

IMAGE_HEADS = re.compile(
    rb"\xff\xd8\xff|\x89PNG|GIF8|BM|II[*+]\0|MM\0[*+]|RIFF....WEBP|....ftyp|P[1-7]\s"
    rb"|\xff\x0a|\0\0\0\x0c(?:JXL |jP  )|\xff\x4f\xff\x51|\0\0\x01\0[^\0]\0",
    re.DOTALL,
)
"""How image files begin, also of formats that a scan will not decode: it separates error pages from pictures."""

_NAT64, _INTERNET = ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("2000::/3")


@dataclass(frozen=True)
class Bounds:
    max_bytes: int
    """Limit of one response."""

    timeout_seconds: float
    """Limit for one URL, from connecting to the last byte, redirections included."""

    private_addresses: bool
    """Whether hosts in private networks may be asked."""


class RefusedError(OSError):
    """The message is `refused: ` and a reason of `jobs.fetching.outcome`."""

    def __init__(self, reason: str):
        super().__init__(f"refused: {reason}")


class _Reader(io.RawIOBase):
    """A connection's bytes up to the deadline and the size limit; slow answers cannot hold a thread forever."""

    def __init__(self, raw: io.RawIOBase, connection: socket.socket, max_bytes: int, ends: float):
        self._raw, self._connection, self._ends = raw, connection, ends
        self._left_bytes = max_bytes + 2**16  # the headers come through here too

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        self._connection.settimeout(_left_seconds(self._ends))
        num_bytes = self._raw.readinto(buffer)
        self._left_bytes -= num_bytes or 0
        if self._left_bytes < 0:
            raise RefusedError("too_large")
        return num_bytes

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Response(http.client.HTTPResponse):
    def __init__(self, bounds: Bounds, ends: float, sock: socket.socket, *args: Any, **rest: Any):
        super().__init__(sock, *args, **rest)
        self._max_bytes = bounds.max_bytes
        self.fp = io.BufferedReader(_Reader(self.fp.detach(), sock, bounds.max_bytes, ends))

    def read(self, amt: int | None = None) -> bytes:
        if amt is not None:
            return super().read(amt)
        if (self.length or 0) > self._max_bytes:
            raise RefusedError("too_large")
        # In pieces: a whole read would set memory aside for as much as a server says that a chunk has.
        content = b"".join(iter(functools.partial(super().read, 2**16), b""))
        if self.length:
            raise http.client.IncompleteRead(content, self.length)
        if self.status == http.client.OK:
            if self.headers.get("TDM-Reservation", "").strip() == "1":  # W3C's text and data mining reservation
                raise RefusedError("opted_out")
            if len(content) > self._max_bytes:
                raise RefusedError("too_large")
            if not IMAGE_HEADS.match(content):
                raise RefusedError("not_an_image" if content else "empty")
        return content


class _Http(http.client.HTTPConnection):
    def __init__(self, host: str, bounds: Bounds, ends: float, only_public: bool, **rest: Any):
        super().__init__(host, **rest)
        self._create_connection = functools.partial(_connected, ends, only_public)
        self.response_class = functools.partial(_Response, bounds, ends)  # type: ignore[assignment]


class _Https(_Http, http.client.HTTPSConnection):
    pass


class _Handler(urllib.request.AbstractHTTPHandler):
    def __init__(self, bounds: Bounds):
        super().__init__()
        self._bounds = bounds

    def _open(self, kind: type[_Http], request: urllib.request.Request) -> http.client.HTTPResponse:
        ends = vars(request).setdefault("ends", time.monotonic() + self._bounds.timeout_seconds)
        only_public = not self._bounds.private_addresses and not request.has_proxy()  # a proxy may well be private
        return self.do_open(kind, request, bounds=self._bounds, ends=ends, only_public=only_public)  # type: ignore[arg-type]

    http_open = functools.partialmethod(_open, _Http)
    https_open = functools.partialmethod(_open, _Https)
    http_request = https_request = urllib.request.AbstractHTTPHandler.do_request_


class _Redirections(urllib.request.HTTPRedirectHandler):
    """Redirections share the time limit of their URL."""

    def redirect_request(self, req: urllib.request.Request, *rest: Any) -> urllib.request.Request | None:
        following = super().redirect_request(req, *rest)
        if following is not None:
            vars(following)["ends"] = vars(req)["ends"]
        return following


def _left_seconds(ends: float) -> float:
    remaining_s = ends - time.monotonic()
    if remaining_s <= 0:
        raise TimeoutError("timed out")
    return remaining_s


def _connected(ends: float, only_public: bool, address: tuple[str, int], *_: Any) -> socket.socket:
    """Return a connection to the first address that takes one; its timeout is what is left of the URL's time."""
    error: OSError = RefusedError("private_address")
    for *_info, target in socket.getaddrinfo(*address, type=socket.SOCK_STREAM):
        if only_public and not is_public(str(target[0])):
            continue
        try:
            connection = socket.create_connection((str(target[0]), int(target[1])), _left_seconds(ends))
            connection.settimeout(_left_seconds(ends))  # of the handshake of https
        except OSError as failure:
            error = failure
        else:
            return connection
    raise error


def is_public(address: str) -> bool:
    """Return whether the address is of the public internet. The IPv4 address in one of NAT64 decides; other addresses
    that hold one lead through tunnels, and are not."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    if parsed in _NAT64:
        parsed = ipaddress.IPv4Address(int(parsed) & 0xFFFFFFFF)
    if isinstance(parsed, ipaddress.IPv6Address) and (parsed not in _INTERNET or parsed.sixtofour or parsed.teredo):
        return False
    return parsed.is_global and not parsed.is_multicast


def bounded_opener(bounds: Bounds) -> urllib.request.OpenerDirector:
    """Return an opener without file:, ftp: and data:, which a list of URLs from anywhere may hold."""
    opener = urllib.request.OpenerDirector()
    opener.add_handler(_Redirections())
    opener.add_handler(_Handler(bounds))
    for handler in ("ProxyHandler", "UnknownHandler", "HTTPDefaultErrorHandler", "HTTPErrorProcessor"):
        opener.add_handler(getattr(urllib.request, handler)())
    return opener


def _end_with_parent() -> None:
    """End when the parent ends: it holds our standard input open as long as it lives."""
    os.read(sys.stdin.fileno(), 1)
    _end_children()
    os._exit(1)


def _end_with_killed_child() -> None:
    """End when a child was killed, as where memory runs out: a pool would wait for its shard forever."""
    children = set[Any]()
    while not any(child.exitcode in (-signal.SIGKILL, -signal.SIGSEGV, -signal.SIGBUS) for child in children):
        children = {child for child in children if child.exitcode != 0} | set(multiprocessing.active_children())
        time.sleep(0.5)
    _end_children()
    os._exit(1)


def _end_children() -> None:
    """Kill child processes. If a download failed, the logger of img2dataset waits forever for its last message."""
    for process in multiprocessing.active_children():
        process.kill()


def main() -> None:
    for watch in (_end_with_parent, _end_with_killed_child):
        threading.Thread(target=watch, daemon=True).start()
    import img2dataset

    try:
        img2dataset.download(**SETTINGS["download"])
    finally:
        _end_children()


if __name__ in ("__main__", "__mp_main__"):  # also in the processes that img2dataset starts
    SETTINGS = json.loads(sys.argv[1])
    urllib.request.install_opener(bounded_opener(Bounds(**SETTINGS["bounds"])))

if __name__ == "__main__":
    main()
