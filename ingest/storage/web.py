"""URLs with credentials in them: user names and passwords are refused, queries of web servers stay in memory.

The query of an http(s) URL (`http://host/get?key=…`) may be a key. Files, names and messages have the URL with a hash
in place of the query (`named`), by which a continued run recognises its source. The query itself is kept by the process
that received it, and sent with each request (`open_web`). A variable passes it to other processes.
"""

import hashlib
import os
import re
from typing import TYPE_CHECKING

from ingest.errors import StorageError

if TYPE_CHECKING:
    import fsspec

URL_VARIABLE = "PRIVSIEVE_SOURCE_URL"
"""The URL with its query, for commands that read the source of a run."""

_MARK = "query-sha256="

_URL = re.compile(r"(?:[a-z][a-z0-9+.-]*::)*[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_WEB = re.compile(r"https?://", re.IGNORECASE)
_WITHOUT_KEYS = re.compile(r"(?:https?|file|local)://", re.IGNORECASE)
"""Queries of web servers stay in memory; those of local files are part of their names."""

_USER = re.compile(r"([a-z][a-z0-9+.-]*://)(?:[^/?#]*@|[^/]*:[^/]*@|[^/:@]+:(?!\d+/)[^@]*@)", re.IGNORECASE)
"""A port is not a password; a secret may hold slashes."""

_CONTAINER = re.compile(r"(?:abfss?|adl|az)://[a-z0-9$-]{3,63}@[a-z0-9-]+\.", re.IGNORECASE)
"""Azure's own form: a container and an account, no user."""

_FIELD = re.compile(r"([?&](?!(?:versionid|generation)=)[a-z_][^=&/?]*=)[^&]*", re.IGNORECASE)
_QUERY_IN_TEXT = re.compile(r"(https?://[^\s?#\"'<>]*)[?#](?!query-sha256=)[^\s\"'<>]*", re.IGNORECASE)

_USER_IN_TEXT = re.compile(r"(https?://)[^\s/?#\"'<>]*@", re.IGNORECASE)

_queries: dict[str, str] = {}
"""URL as returned by `named` -> its query."""


def refuse_credentials(url: str) -> None:
    """Raise StorageError if a URL has a user name or password, or a query that cannot stay in memory."""
    chain = _chain(url)
    if any(map(_has_user, chain)):
        raise StorageError(
            "the URL holds a user name or password (what is before the @); give credentials by the environment instead"
        )
    if len(chain) > 1 and any(_WEB.match(part) and "?" in part for part in chain):
        raise StorageError("the URL is a chain with a query, which may hold a key; use a URL without a query")
    if any(not _WITHOUT_KEYS.match(part) and _FIELD.search(part) for part in chain):
        raise StorageError("the URL holds a query, which may be a key and would end in run.json; use a URL without")


def named(url: str) -> str:
    """Return the URL for files, names and messages: with a hash in place of the query of a web server.

    URLs that `refuse_credentials` refuses are still refused, but without the credential. Other texts stay as they are.
    """
    chain = _chain(url)
    if len(chain) == 1 and _WEB.match(url) and not _has_user(url):
        return _named_query(url)
    return "::".join(map(_hidden, chain)) or url


def without_credentials(text: str) -> str:
    """Remove the queries and users of URLs from a message."""
    return _USER_IN_TEXT.sub(r"\1…@", _QUERY_IN_TEXT.sub(r"\1?…", text))


def _chain(url: str) -> list[str]:
    """Return the URLs of a chain (`x::y://`); none for a path."""
    return url.split("::") if _URL.match(url) else []


def _has_user(url: str) -> bool:
    return bool(_USER.match(url)) and not _CONTAINER.match(url)


def _hidden(part: str) -> str:
    """Replace credentials by a mark, by which the URL is still refused."""
    part = _USER.sub(r"\1…@", part) if _has_user(part) else part
    if _WEB.match(part):
        return re.sub(r"[?#].*", "?…", part)
    return part if _WITHOUT_KEYS.match(part) else _FIELD.sub(r"\1…", part)


def _named_query(url: str) -> str:
    path, _, query = url.partition("#")[0].partition("?")
    if not query or query.startswith(_MARK):
        return f"{path}?{query}" if query else path
    name = f"{path}?{_MARK}{hashlib.sha256(f'{path}?{query}'.encode('utf-8', 'surrogateescape')).hexdigest()[:16]}"
    _queries[name] = query
    return name


def open_web(url: str) -> "tuple[fsspec.AbstractFileSystem, str] | None":
    """Return the file system of an http(s) URL with a query, and the URL without it; None for other URLs.

    StorageError if the query is not known to this process.
    """
    if not _WEB.match(url) or "?" not in (name := named(url)):
        return None
    path = name.partition("?")[0]
    if name not in _queries and named(os.environ.get(URL_VARIABLE, "")) != name:
        raise StorageError(
            f"{path} was given with a query, which is not stored; give the whole URL in the variable "
            f"{URL_VARIABLE}, or download the file and scan that"
        )
    from ingest.storage.web_files import WebFiles  # here, since it loads aiohttp

    return WebFiles(query=_queries[name], use_listings_cache=False), path
