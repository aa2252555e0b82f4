"""URLs with credentials in them: user names, passwords and queries are refused, and never repeated in a message."""

import re

from ingest.errors import StorageError

_URL = re.compile(r"(?:[a-z][a-z0-9+.-]*::)*[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_WEB = re.compile(r"https?://", re.IGNORECASE)
_LOCAL = re.compile(r"(?:file|local)://", re.IGNORECASE)
"""A query is part of the name of a local file."""

_USER = re.compile(r"([a-z][a-z0-9+.-]*://)(?:[^/?#]*@|[^/]*:[^/]*@|[^/:@]+:(?!\d+/)[^@]*@)", re.IGNORECASE)
"""A port is not a password; a secret may hold slashes."""

_CONTAINER = re.compile(r"(?:abfss?|adl|az)://[a-z0-9$-]{3,63}@[a-z0-9-]+\.", re.IGNORECASE)
"""Azure's own form: a container and an account, no user."""

_FIELD = re.compile(r"([?&](?!(?:versionid|generation)=)[a-z_][^=&/?]*=)[^&]*", re.IGNORECASE)
_QUERY_IN_TEXT = re.compile(r"(https?://[^\s?#\"'<>]*)[?#][^\s\"'<>]*", re.IGNORECASE)

_USER_IN_TEXT = re.compile(r"(https?://)[^\s/?#\"'<>]*@", re.IGNORECASE)


def refuse_credentials(url: str) -> None:
    """Raise StorageError if a URL has a user name, a password or a query."""
    chain = _chain(url)
    if any(map(_has_user, chain)):
        raise StorageError(
            "the URL holds a user name or password (what is before the @); give credentials by the environment instead"
        )
    if any(not _LOCAL.match(part) and (_FIELD.search(part) or (_WEB.match(part) and "?" in part)) for part in chain):
        raise StorageError(
            "the URL holds a query, which may be a key and would end in run.json; use a URL without one, or download "
            "the file"
        )


def named(url: str) -> str:
    """Return the URL for files, names and messages: one that `refuse_credentials` refuses is still refused, but without
    the credential. Other texts stay as they are."""
    return "::".join(map(_hidden, _chain(url))) or url


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
        return re.sub(r"\?.*", "?…", part.partition("#")[0])
    return part if _LOCAL.match(part) else _FIELD.sub(r"\1…", part)
