"""Connections whose answers are limited in time and size, however the endpoint sends them."""

import http.client
import io
import socket
import time
import zlib
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import DecodeError, HTTPError

from ingest.errors import EngineError

MAX_ANSWER_BYTES = 8 * 2**20
"""Limit for the answer as sent, and again when unpacked. One with the probabilities of all tokens has about 1.5 MB."""


class TooLongError(HTTPError):
    """The answer has more than `MAX_ANSWER_BYTES`."""


class _Bounded(io.RawIOBase):
    """An answer from a connection, limited in size and in time.

    The connection's timeout limits the whole answer; by default it would start again with each byte.
    """

    def __init__(self, raw: io.RawIOBase, connection: socket.socket):
        self._raw, self._connection = raw, connection
        self._limit_s = connection.gettimeout()
        self._began_s = time.monotonic()
        self._left_bytes = MAX_ANSWER_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int | None:
        if self._limit_s is None:
            return self._counted(self._raw.readinto(buffer))
        left_s = self._began_s + self._limit_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("timed out")
        self._connection.settimeout(left_s)
        try:
            return self._counted(self._raw.readinto(buffer))
        finally:
            self._connection.settimeout(self._limit_s)  # for the next request

    def _counted(self, num_bytes: int | None) -> int | None:
        self._left_bytes -= num_bytes or 0
        if self._left_bytes < 0:
            raise TooLongError
        return num_bytes

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Response(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, **rest: Any):
        super().__init__(sock, *args, **rest)
        self.fp = io.BufferedReader(_Bounded(self.fp.detach(), sock))


class _Http(HTTPConnection):
    response_class = _Response


class _Https(HTTPSConnection):
    response_class = _Response


class _HttpPool(HTTPConnectionPool):
    ConnectionCls = _Http


class _HttpsPool(HTTPSConnectionPool):
    ConnectionCls = _Https


def connections(url: str, num_connections: int) -> urllib3.PoolManager:
    """Make a pool with proxies of the environment (HTTPS_PROXY, NO_PROXY) and the system's certificates
    (SSL_CERT_FILE)."""
    manager = _manager(url, num_connections)
    manager.pool_classes_by_scheme = {"http": _HttpPool, "https": _HttpsPool}
    return manager


def unpacked(response: urllib3.BaseHTTPResponse) -> bytes:
    """Unpack the content of a response that was read as sent. TooLongError, or DecodeError."""
    packing = response.headers.get("Content-Encoding", "").strip().lower()
    if packing in ("", "identity"):
        return response.data
    if packing not in ("gzip", "deflate"):
        raise DecodeError
    unpacking = zlib.decompressobj(zlib.MAX_WBITS | 32)  # either of the two, recognised by its header
    try:
        content = unpacking.decompress(response.data, MAX_ANSWER_BYTES)
    except zlib.error:
        raise DecodeError from None
    if unpacking.unconsumed_tail:
        raise TooLongError
    return content


def _manager(url: str, num_connections: int) -> urllib3.PoolManager:
    parts = urlsplit(url)
    proxy = getproxies().get(parts.scheme)
    if not proxy or proxy_bypass(parts.hostname or ""):
        return urllib3.PoolManager(maxsize=num_connections, block=True)
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    try:
        account = urllib3.util.parse_url(proxy).auth
        headers = urllib3.make_headers(proxy_basic_auth=unquote(account)) if account else None
        return urllib3.ProxyManager(proxy, maxsize=num_connections, block=True, proxy_headers=headers)
    except HTTPError:  # its text may hold the account
        raise EngineError(f"{parts.scheme.upper()}_PROXY names no http proxy; correct it, or set NO_PROXY") from None
