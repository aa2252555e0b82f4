"""The program that downloads. It runs in the environment of img2dataset, never in privsieve's own.

`python -I program.py JSON` calls img2dataset's public `download` with its Ray distributor. It sets the limits that
img2dataset lacks, at urllib's own point of extension: every Ray worker installs an opener that speaks http and https
only, stops at a size and a time, and stays on the public internet. The rows and files are img2dataset's.
"""

import functools
import http.client
import io
import ipaddress
import json
import multiprocessing
import os
import re
import socket
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from typing import Any

# Possessive (`*+`), as in `ingest.images.decode`, which cannot be imported here. Otherwise a page of comments only
# would be tried in exponentially many ways.
IMAGE_HEADS = re.compile(
    rb"\xff\xd8\xff|\x89PNG|GIF8|BM|II[*+]\0|MM\0[*+]|RIFF....WEBP|....ftyp|P[1-7]\s"
    rb"|\xff\x0a|\0\0\0\x0c(?:JXL |jP  )|\xff\x4f\xff\x51"
    rb"|(?i:(?:\xef\xbb\xbf)?+\s*+(?:<\?.*?\?>\s*+|<!--.*?-->\s*+)*+"
    rb"(?:<!DOCTYPE\s+(?:[\w.-]+:)?svg\b|<(?:[\w.-]+:)?svg[\s/>]))",
    re.DOTALL,
)
"""How image files begin, also of formats that a scan will not decode: it separates error pages from pictures."""

_NAT64 = ipaddress.ip_network("64:ff9b::/96")
_COMPATIBLE = ipaddress.ip_network("::/96")
_LOCAL = (ipaddress.ip_network("64:ff9b:1::/48"), ipaddress.ip_network("fec0::/10"))
"""NAT64 within one network, and site-local addresses; `is_global` of Python 3.11 calls them public."""


@dataclass(frozen=True)
class Bounds:
    """Limits of a download."""

    max_bytes: int
    """Limit of one response."""

    timeout_seconds: float
    """Limit for one URL, from connecting to the last byte, redirections included."""

    private_addresses: bool
    """Whether hosts in private networks may be asked."""


class RefusedAddressError(OSError):
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
            raise RefusedAddressError("too_large")
        return num_bytes

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Buffered(io.BufferedReader):
    """Refuses a `read` above the limit: it would set memory aside for as much as a server says that it will send."""

    max_bytes = 0

    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > self.max_bytes:
            raise RefusedAddressError("too_large")
        return super().read(size)


class _Response(http.client.HTTPResponse):
    def __init__(self, bounds: Bounds, ends: float, sock: socket.socket, *args: Any, **rest: Any):
        super().__init__(sock, *args, **rest)
        self._bounds = bounds
        buffered = _Buffered(_Reader(self.fp.detach(), sock, bounds.max_bytes, ends))
        buffered.max_bytes = bounds.max_bytes
        self.fp = buffered

    def read(self, amt: int | None = None) -> bytes:
        content = super().read(amt)
        if amt is None and self.status == http.client.OK:
            if self.headers.get("TDM-Reservation", "").strip() == "1":  # W3C's text and data mining reservation
                raise RefusedAddressError("opted_out")
            if len(content) > self._bounds.max_bytes:
                raise RefusedAddressError("too_large")
            if not IMAGE_HEADS.match(content[:4096]):
                raise RefusedAddressError("not_an_image" if content else "empty")
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

    def http_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self._open(_Http, request)

    def https_open(self, request: urllib.request.Request) -> http.client.HTTPResponse:
        return self._open(_Https, request)

    def _open(self, kind: type[_Http], request: urllib.request.Request) -> http.client.HTTPResponse:
        ends = vars(request).setdefault("ends", time.monotonic() + self._bounds.timeout_seconds)
        only_public = not self._bounds.private_addresses and not request.has_proxy()  # a proxy may well be private
        return self.do_open(kind, request, bounds=self._bounds, ends=ends, only_public=only_public)  # type: ignore[arg-type]

    http_request = https_request = urllib.request.AbstractHTTPHandler.do_request_


class _Redirections(urllib.request.HTTPRedirectHandler):
    """Redirections share the time limit of their URL, and lead to http and https only."""

    def http_error_302(self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any) -> Any:
        target = urllib.parse.urljoin(req.full_url, headers.get("location") or "")
        kind = urllib.parse.urlsplit(target).scheme
        if kind not in ("http", "https"):
            raise urllib.error.URLError(f"unknown url type: {kind}")
        return super().http_error_302(req, fp, code, msg, headers)

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302

    def redirect_request(self, req: urllib.request.Request, *rest: Any) -> urllib.request.Request | None:
        following = super().redirect_request(req, *rest)
        if following is not None:
            vars(following)["ends"] = vars(req)["ends"]
        return following


def _left_seconds(ends: float) -> float:
    left = ends - time.monotonic()
    if left <= 0:
        raise TimeoutError("timed out")
    return left


def _connected(ends: float, only_public: bool, address: tuple[str, int], *_: Any) -> socket.socket:
    """Return a connection to the first address that takes one; its timeout is what is left of the URL's time."""
    error: OSError = RefusedAddressError("private_address")
    for family, kind, protocol, _name, target in socket.getaddrinfo(*address, type=socket.SOCK_STREAM):
        if only_public and not is_public(str(target[0])):
            continue
        connection = socket.socket(family, kind, protocol)
        try:
            connection.settimeout(_left_seconds(ends))
            connection.connect(target)
            connection.settimeout(_left_seconds(ends))  # of the handshake of https
        except OSError as failure:
            connection.close()
            error = failure
        else:
            return connection
    raise error


def is_public(address: str) -> bool:
    """Return whether the address is of the public internet. If it holds an IPv4 address, that one decides."""
    parsed = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(parsed, ipaddress.IPv4Address):
        return parsed.is_global and not parsed.is_multicast
    held = parsed.ipv4_mapped or parsed.sixtofour or (parsed.teredo or (None, None))[1]
    if parsed in _NAT64 or parsed in _COMPATIBLE:
        held = ipaddress.IPv4Address(int(parsed) & 0xFFFFFFFF)
    if held is not None:
        return is_public(str(held))
    return parsed.is_global and not parsed.is_multicast and not any(parsed in network for network in _LOCAL)


def bounded_opener(bounds: Bounds) -> urllib.request.OpenerDirector:
    """Return an opener without file:, ftp: and data:, which a list of URLs from anywhere may hold."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.UnknownHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        _Redirections(),
        urllib.request.HTTPErrorProcessor(),
        _Handler(bounds),
    ):
        opener.add_handler(handler)
    return opener


def _end_with_parent() -> None:
    """End when the parent ends: it holds our standard input open as long as it lives."""
    os.read(sys.stdin.fileno(), 1)
    _end_children()
    os._exit(1)


def _end_children() -> None:
    """Kill child processes. If a download failed, the logger of img2dataset waits forever for its last message."""
    for process in multiprocessing.active_children():
        process.kill()


def main() -> None:
    settings = json.loads(sys.argv[1])
    threading.Thread(target=_end_with_parent, daemon=True).start()
    bounds = Bounds(**settings["bounds"])

    def set_up_worker() -> None:
        urllib.request.install_opener(bounded_opener(bounds))

    import ray

    quiet = {"NO_ALBUMENTATIONS_UPDATE": "1"}  # each worker would ask the network for a newer version
    runtime_env = {"worker_process_setup_hook": set_up_worker, "env_vars": quiet, **settings["runtime_env"]}
    # img2dataset would let Ray attach to whatever cluster it finds.
    ray.init(runtime_env=runtime_env, include_dashboard=False, **settings["ray"])
    import img2dataset

    try:
        img2dataset.download(**settings["download"])
    finally:
        _end_children()
        ray.shutdown()


if __name__ == "__main__":
    main()
