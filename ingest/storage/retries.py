"""Retries for remote stores: which errors are temporary, how often and how long to retry.

The drivers try again too, each in its own way (botocore five times for a 5xx answer or a broken connection, s3fs five
times for a timeout or a body that ends early); the retries here wrap them, the same for every store.
"""

import errno
import os
import random
import sys
import time
from collections.abc import Callable, Mapping
from itertools import chain
from typing import TypeVar

from ingest.errors import OutageError, StorageError

RETRY_VARIABLE = "PRIVSIEVE_RETRY_S"
DEFAULT_RETRY_S = 60.0
FIRST_DELAY_S, MAX_DELAY_S = 0.2, 10.0

_EREMOTEIO = 121
"""Error number that s3fs gives for a 500; not every system has its name."""
# fmt: off
_PASSING_ERRNOS = frozenset([
    _EREMOTEIO, errno.EBUSY, errno.EAGAIN, errno.ECONNRESET, errno.ECONNABORTED, errno.ECONNREFUSED, errno.EPIPE,
    errno.ETIMEDOUT, errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTUNREACH,
])
# fmt: on
_LASTING = (FileNotFoundError, PermissionError, FileExistsError, IsADirectoryError, NotADirectoryError)
_PASSING_STATUS = frozenset([408, 429, 500, 502, 503, 504])

# Some errors of drivers are not OSErrors. They are looked up only if the driver is loaded: it need not be installed.
_DRIVER_ERRORS = {
    "botocore.exceptions": ("BotoCoreError", "ClientError"),
    "aiohttp": ("ClientError",),
    "gcsfs.retry": ("HttpError",),
    "azure.core.exceptions": ("AzureError",),
    "huggingface_hub.errors": ("HfHubHTTPError",),
    "httpx2": ("HTTPError",),
}
_LASTING_DRIVER_ERRORS = {"aiohttp": ("ClientSSLError",)}
_PASSING_DRIVER_ERRORS = {
    "botocore.exceptions": ("ConnectionError", "HTTPClientError", "IncompleteReadError", "ResponseParserError"),
    "aiohttp": ("ClientConnectionError", "ClientPayloadError"),
    "azure.core.exceptions": ("ServiceRequestError", "ServiceResponseError"),
    "httpx2": ("TransportError",),
}
_WORDS = {
    "NoCredentialsError": "no credentials in the environment",
    "PartialCredentialsError": "the credentials in the environment are incomplete",
    "EndpointConnectionError": "the store cannot be reached",
    "ConnectTimeoutError": "the store cannot be reached",
    "ClientConnectorError": "the server did not answer",
    "ServerDisconnectedError": "the server did not answer",
    "ClientConnectionResetError": "the server ended the connection",
    "ClientPayloadError": "the server ended the connection",
    "ConnectionTimeoutError": "the server did not answer in time",
    "SocketTimeoutError": "the server did not answer in time",
    "ServerTimeoutError": "the server did not answer in time",
    "ClientConnectorCertificateError": "the certificate of the server is not trusted",
    "ClientConnectorSSLError": "the server gives no encrypted connection (https)",
    "ClientConnectorDNSError": "no machine of that name is known",
    "ReadTimeoutError": "the store did not answer in time",
    "LongAnswerError": "the server sends more bytes than were asked for",
    "RedirectedError": "the server leads to another address; give that one, if it is the right one",
    "gaierror": "no machine of that name is known",
}
_ERRNO_OF = {FileNotFoundError: errno.ENOENT, PermissionError: errno.EACCES, FileExistsError: errno.EEXIST}

Answer = TypeVar("Answer")


def retry_bound_s() -> float:
    """Return the seconds after which no attempt starts: `PRIVSIEVE_RETRY_S`, by default 60; 0 tries once. The last
    attempt may still take as long as the driver lets it. StorageError if the value is not a number."""
    text = os.environ.get(RETRY_VARIABLE, "")
    try:
        bound = float(text or DEFAULT_RETRY_S)
    except ValueError:
        bound = -1.0
    if not 0 <= bound <= 86_400:
        raise StorageError(f'{RETRY_VARIABLE} is "{text}"; give seconds from 0 to 86400')
    return bound


def retried(call: Callable[[], Answer]) -> Answer:
    """Return the result of `call`, retried while it fails with a temporary error. Raises the last error.

    Waits 0.2 s, then twice as long each time up to 10 s, each shortened by a random part of up to a half, since
    workers that were turned away together should not come back together. No attempt starts after `retry_bound_s`.
    """
    give_up_s = time.monotonic() + retry_bound_s()
    delay_s = FIRST_DELAY_S
    while True:
        try:
            return call()
        except store_errors() as shown:
            error = _not_masked(shown)
            wait_s = delay_s * random.uniform(0.5, 1)
            if not may_pass(error) or time.monotonic() + wait_s > give_up_s:
                raise error from error.__cause__  # whose HTTP status is shown
        time.sleep(wait_s)
        delay_s = min(2 * delay_s, MAX_DELAY_S)


def _not_masked(error: Exception) -> Exception:
    """Return the error itself, or what is behind it: fsspec calls a file of a web server missing, whatever failed.
    Where the server refuses to answer, the file stays missing: some servers answer so for a file that is not there."""
    cause = error.__cause__
    if not isinstance(error, FileNotFoundError) or not isinstance(cause, store_errors()):
        return error
    return cause if http_status(cause) is None or may_pass(cause) else error


def store_errors() -> tuple[type[Exception], ...]:
    """Return OSError and those errors of loaded drivers that are not OSErrors."""
    return (OSError, *_loaded(_DRIVER_ERRORS))


def may_pass(error: BaseException) -> bool:
    """Return whether the same call may work a moment later. Not found, forbidden and wrong credentials never do."""
    if isinstance(error, (*_LASTING, *_loaded(_LASTING_DRIVER_ERRORS))):
        return False
    if isinstance(error, _loaded(_PASSING_DRIVER_ERRORS)):  # aiohttp gives an answer that breaks off the status 400
        return True
    status = http_status(error)
    if status is not None:
        return status in _PASSING_STATUS
    if isinstance(error, (ConnectionError, TimeoutError)):
        return True
    return isinstance(error, OSError) and error.errno in _PASSING_ERRNOS


def storage_error(what: str, error: BaseException) -> StorageError:
    """Return the error for the user: what could not be done, and why. OutageError if it may work later."""
    kind = OutageError if may_pass(error) else StorageError
    return kind(f"{what}: {reason_of(error)}")


def http_status(error: BaseException | None) -> int | None:
    """Return the HTTP status of the store's answer, if the error or its cause has one."""
    while error is not None:
        response = getattr(error, "response", None)
        status_code = response.get("ResponseMetadata", {}).get("HTTPStatusCode") if isinstance(response, dict) else None
        names = () if isinstance(error, OSError) else ("status", "status_code", "code")
        statuses = (getattr(error, name, None) for name in names)
        for status in chain((status_code, getattr(response, "status_code", None)), statuses):
            if isinstance(status, int):
                return status
        error = error.__cause__
    return None


def reason_of(error: BaseException) -> str:
    """Describe the error in our own words: a driver's message may hold addresses, names or credentials."""
    name = type(error).__name__
    if name in _WORDS:
        return _WORDS[name]
    lasting = next((number for kind, number in _ERRNO_OF.items() if isinstance(error, kind)), None)
    status = http_status(error)
    if status is not None and lasting is None:
        return f"the store answered {status}"
    number = (error.errno if isinstance(error, OSError) else None) or lasting
    return os.strerror(number).lower() if number else name


def is_of_storage(error: BaseException) -> bool:
    """Return whether the store failed to read an existing file; errors of parsers over damage have no errno."""
    return isinstance(error, OSError) and error.errno not in (None, errno.ENOENT)


def _loaded(names: Mapping[str, tuple[str, ...]]) -> tuple[type[Exception], ...]:
    modules = [(sys.modules[module], kinds) for module, kinds in names.items() if module in sys.modules]
    return tuple(getattr(module, kind) for module, kinds in modules for kind in kinds if hasattr(module, kind))
