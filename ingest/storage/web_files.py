"""fsspec's file system of web servers, bounded: an answer is read to the length that was asked for and no further, and
a redirection does not lead from one machine into another one's private network.

The bytes of an answer are taken as they come. Servers are asked not to compress, and some files are stored so.
"""

import asyncio
import ipaddress
import re
import socket
from typing import Any

import aiohttp
import yarl
from fsspec.implementations.http import HTTPFileSystem

MAX_WHOLE_BYTES = 2**30
"""Limit of an answer to a request without a range."""
MAX_UNSTATED_BYTES = 64 * 2**20
"""The limit if the answer does not state its length."""

_RANGE = re.compile(r"bytes=(\d+)-(\d+)")
_INTERNET = ipaddress.ip_network("2000::/3")


class LongAnswerError(OSError):
    """A web server sends more bytes than were asked for."""


class RedirectedError(OSError):
    """A web server leads to another address that is not public, or not by https."""


class WebFiles(HTTPFileSystem):  # type: ignore[misc]
    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, get_client=_session, **options)


class _BoundedResponse(aiohttp.ClientResponse):
    async def read(self) -> bytes:
        """Read the answer. LongAnswerError if it is longer than was asked for."""
        if self._body is None:
            asked = _RANGE.fullmatch(self.request_info.headers.get("Range", ""))
            unstated = MAX_UNSTATED_BYTES if self.content_length is None else MAX_WHOLE_BYTES
            num_left = int(asked[2]) + 1 - int(asked[1]) if asked else unstated
            pieces = list[bytes]()
            async for piece in self.content.iter_any():
                pieces.append(piece)
                num_left -= len(piece)
                if num_left < 0:
                    self.close()
                    raise LongAnswerError
            self._body = b"".join(pieces)
        return self._body


async def _session(**options: Any) -> aiohttp.ClientSession:
    tracing = aiohttp.TraceConfig()
    tracing.on_request_redirect.append(_check_redirection)
    return aiohttp.ClientSession(
        response_class=_BoundedResponse,
        trace_configs=[tracing],
        auto_decompress=False,
        headers={"Accept-Encoding": "identity"},
        **options,
    )


async def _check_redirection(
    session: aiohttp.ClientSession, context: object, redirection: aiohttp.TraceRequestRedirectParams
) -> None:
    """Raise RedirectedError unless the new address has the same machine and port, or is a public one of https."""
    headers = redirection.response.headers
    target = redirection.url.join(yarl.URL(headers.get("Location") or headers.get("URI") or ""))
    is_same = all(getattr(target, part) == getattr(redirection.url, part) for part in ("host", "port", "scheme"))
    if not is_same and not (target.scheme == "https" and await _is_public(target)):
        redirection.response.close()
        raise RedirectedError


async def _is_public(url: yarl.URL) -> bool:
    """Return whether every address of the machine is of the public internet."""
    infos = await asyncio.get_running_loop().getaddrinfo(url.host, url.port, type=socket.SOCK_STREAM)
    addresses = [ipaddress.ip_address(str(address[0]).partition("%")[0]) for *_, address in infos]
    return all(
        address.is_global
        and not address.is_multicast
        and (
            isinstance(address, ipaddress.IPv4Address)
            or (address in _INTERNET and address.sixtofour is None and address.teredo is None)
        )
        for address in addresses
    )
