"""HTTP with one server that speaks OpenAI's chat completions.

Temporary errors are retried, errors of all requests end the scan, others cost one view. Answers are limited in time
and size, however they are sent. The key comes from the environment of the machine that asks and is not stored.
"""

import http.client
import io
import json
import logging
import math
import os
import re
import socket
import threading
import time
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    InvalidHeader,
    LocationValueError,
    MaxRetryError,
    NewConnectionError,
    ProxyError,
    ReadTimeoutError,
    SSLError,
)

from ingest.errors import EngineError
from scoring.assessment import ENGINE_ERROR, TOO_MANY_RETRIES

KEY_VARIABLES = ("PRIVSIEVE_OPENAI_API_KEY", "OPENAI_API_KEY")
"""Variables that may hold the key, in order. An endpoint may need none."""

PASSING_STATUS = frozenset([408, 409, 429, 500, 502, 503, 504, 529])
GIVE_UP_AFTER = 16
"""Views in a row without an answer after which the endpoint is at fault, not the views."""
MAX_ANSWER_BYTES = 8 * 2**20
"""Limit for an answer. One with the probabilities of all tokens has about 1.5 MB."""


@dataclass(frozen=True)
class RetryPolicy:
    """How often and how long a request is tried.

    Two rounds of a batch fit into the 600 s after which a scan considers its worker hung.
    """

    num_retries: int = 5
    """Number of retries of one request, after the first attempt."""

    num_timeouts: int = 1
    """Number of retries after attempts without a whole answer within `read_s`."""

    first_delay_s: float = 0.5
    """The first retry is at once, the next after twice as long and more each time, with a random part of up to this. A
    Retry-After header counts instead."""

    max_delay_s: float = 30.0
    connect_s: float = 10.0
    read_s: float = 120.0


class NoAnswerError(Exception):
    """This request got no answer: `reason` and `message` as in `Unscored`."""

    def __init__(self, reason: str, message: str):
        super().__init__(message)
        self.reason, self.message = reason, message


class RefusedError(Exception):
    """The endpoint calls the request wrong (400, 422).

    code, parameter: its own short names of the fault, empty if it gives none; to compare, never to show.
    """

    def __init__(self, status: int, code: str, parameter: str):
        super().__init__(f"HTTP {status}")
        self.status, self.code, self.parameter = status, code, parameter


def key_from_environment() -> str | None:
    """Read the key. EngineError if it cannot be a key, since HTTP libraries would show it in their error."""
    for variable in KEY_VARIABLES:
        if key := os.environ.get(variable, "").strip():
            if not re.fullmatch(r"[!-~]+", key):
                raise EngineError(f"{variable} holds spaces or characters that no key has; set it again")
            return key
    return None


def checked_url(url: str, option: str) -> str:
    """Check the URL, which goes to run.json and into messages, so it must not hold secrets. EngineError names the
    option."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise EngineError(f"{option} is not a valid URL; give one such as http://127.0.0.1:8000/v1") from None
    if "@" in parts.netloc:
        raise EngineError(f"{option} holds a user name or password; give a key by OPENAI_API_KEY instead")
    if parts.query or parts.fragment or "?" in url or "#" in url:
        raise EngineError(f"{option} must end with its path, without ? and #; give a key by OPENAI_API_KEY instead")
    if parts.scheme not in ("http", "https") or not host or not url.isascii() or any(c.isspace() for c in url):
        raise EngineError(f'{option} "{url}" is not an http or https URL; give one such as http://127.0.0.1:8000/v1')
    return url.rstrip("/").removesuffix("/chat/completions")


class Endpoint:
    """Safe to use from several threads.

    url: as `checked_url` returns it. num_connections: kept open at once. option: the one that gave the URL, for errors.
    """

    def __init__(
        self,
        url: str,
        model: str,
        num_connections: int,
        retry_policy: RetryPolicy | None = None,
        option: str = "--endpoint",
    ):
        self.url, self._model, self._option = url, model, option
        self._retry_policy = retry_policy or RetryPolicy()
        self._key = key_from_environment()
        self._pool = connections(url, num_connections)
        self._lock = threading.Lock()
        self._num_without_answer = 0
        # It would log every attempt with the address; the error names the endpoint once.
        logging.getLogger("urllib3").setLevel(logging.ERROR)

    def chat(self, body: dict[str, Any]) -> dict[str, Any]:
        """Request a chat completion and return the response.

        EngineError: no request would be answered. NoAnswerError: this one got no answer. RefusedError: this one is
        wrong, perhaps only in something that can be left out.
        """
        status, content = self._sent(json.dumps(body).encode())
        self._check(status, content)
        try:
            response = json.loads(content)
        except (ValueError, RecursionError):
            response = None
        if not isinstance(response, dict):
            raise NoAnswerError(ENGINE_ERROR, "what the endpoint sent is no chat completion")
        return response

    def unknown_model(self, status: int) -> EngineError:
        """Return the error to raise if the endpoint does not know the model."""
        return EngineError(
            f'{self.url} does not know the model "{self._model}", or is not a chat endpoint ({status}); check the '
            f"model ({self.url}/models lists them) and {self._option}, which mostly ends in /v1"
        )

    def answered(self) -> None:
        """Note that a view got an answer, so the endpoint works."""
        with self._lock:
            self._num_without_answer = 0

    def unanswered(self, message: str) -> None:
        """Note a view without an answer. EngineError if too many in a row: then the pictures are not the cause."""
        with self._lock:
            self._num_without_answer += 1
            if self._num_without_answer >= GIVE_UP_AFTER:
                raise EngineError(
                    f"{self.url} answered none of {self._num_without_answer} pictures in a row, at last: {message}"
                )

    def _sent(self, body: bytes) -> tuple[int, bytes]:
        retry_policy = self._retry_policy
        headers = {"Content-Type": "application/json", "Accept": "application/json", "User-Agent": "privsieve"}
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        retries = _Retry(
            total=retry_policy.num_retries,
            connect=min(2, retry_policy.num_retries),
            read=retry_policy.num_timeouts,
            redirect=0,
            status_forcelist=PASSING_STATUS,
            allowed_methods=None,
            backoff_factor=retry_policy.first_delay_s,
            backoff_jitter=retry_policy.first_delay_s,  # so that clients do not retry in step
            backoff_max=retry_policy.max_delay_s,
            retry_after_max=math.ceil(retry_policy.max_delay_s),
            raise_on_status=False,
        )
        try:
            response = self._pool.request(
                "POST",
                self.url + "/chat/completions",
                body=body,
                headers=headers,
                redirect=False,
                timeout=urllib3.Timeout(connect=retry_policy.connect_s, read=retry_policy.read_s),
                retries=retries,
                decode_content=False,  # it would be unpacked without a bound, and no packing was asked for
            )
            return response.status, response.data
        except MaxRetryError as error:
            raise self._without_answer(error.reason) from None
        except HTTPError as error:
            raise self._without_answer(error) from None

    def _without_answer(self, reason: Exception | None) -> EngineError | NoAnswerError:
        name = type(reason).__name__
        if isinstance(reason, SSLError):
            return EngineError(f"{self.url}: no secure connection ({name}); check {self._option} and the certificates")
        if isinstance(reason, (NewConnectionError, ConnectTimeoutError, LocationValueError, ProxyError)):
            return EngineError(f"{self.url} cannot be reached ({name}); check {self._option} and that the server runs")
        if isinstance(reason, ReadTimeoutError):
            return NoAnswerError(TOO_MANY_RETRIES, f"no answer within {self._retry_policy.read_s:g} s, tried again")
        if isinstance(reason, TooLongError):
            return NoAnswerError(ENGINE_ERROR, f"the endpoint sent more than {MAX_ANSWER_BYTES // 2**20} MiB")
        return NoAnswerError(TOO_MANY_RETRIES, f"the connection broke ({name})")

    def _check(self, status: int, content: bytes) -> None:
        """Raise the error of a status. Messages repeat nothing that the endpoint wrote, except names of its models."""
        if 200 <= status < 300:
            return
        if status in (401, 403):
            what = "no key is set" if self._key is None else "the key is not accepted"
            raise EngineError(f"{self.url} refuses access ({status}): {what}; set {' or '.join(KEY_VARIABLES)}")
        if status == 404:
            raise self.unknown_model(status)
        if 300 <= status < 400:
            raise EngineError(f"{self.url} redirects ({status}); give the address that it leads to as {self._option}")
        if status in (400, 422):
            raise RefusedError(status, *_code_and_parameter(content))
        if status in PASSING_STATUS:
            tried = f"{self._retry_policy.num_retries} times again"
            raise NoAnswerError(TOO_MANY_RETRIES, f"the endpoint answered HTTP {status}, tried {tried}")
        raise NoAnswerError(ENGINE_ERROR, f"the endpoint answered HTTP {status}")


def _code_and_parameter(content: bytes) -> tuple[str, str]:
    """Return (code, parameter) of an error in OpenAI's form."""
    try:
        error = json.loads(content)["error"]
        return str(error.get("code") or ""), str(error.get("param") or "")
    except (ValueError, RecursionError, LookupError, TypeError, AttributeError):
        return "", ""


class _Retry(urllib3.Retry):
    def get_retry_after(self, response: urllib3.BaseHTTPResponse) -> float | None:
        """Return the seconds that the endpoint asks for; None also if they cannot be read."""
        try:
            return super().get_retry_after(response)
        except (InvalidHeader, ValueError, OverflowError):
            return None


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
    parts = urlsplit(url)
    proxy = getproxies().get(parts.scheme)
    if not proxy or proxy_bypass(parts.hostname or ""):
        manager = urllib3.PoolManager(maxsize=num_connections, block=True)
    else:
        proxy = proxy if "://" in proxy else f"http://{proxy}"
        try:
            account = urllib3.util.parse_url(proxy).auth
            headers = urllib3.make_headers(proxy_basic_auth=unquote(account)) if account else None
            manager = urllib3.ProxyManager(proxy, maxsize=num_connections, block=True, proxy_headers=headers)
        except (HTTPError, UnicodeEncodeError):  # its text may hold the account
            variable = f"{parts.scheme.upper()}_PROXY"
            raise EngineError(
                f"{variable} names no http proxy, or its account is not in Latin-1; correct it, or set NO_PROXY"
            ) from None
    manager.pool_classes_by_scheme = {"http": _HttpPool, "https": _HttpsPool}
    return manager
