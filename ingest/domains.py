"""The registered domain of a URL, by the public suffix list that the package publicsuffixlist ships; no server is
asked.

Only suffixes of registries count, not those of providers: `alice.github.io` is `github.io`, since a person's own name
on a platform would name the person.
"""

import re
from functools import cache
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList

MAX_URL_CHARACTERS = 2**16
MAX_HOST_CHARACTERS = 253

_HOST = re.compile(r"[a-z0-9_-]{1,63}(?:\.[a-z0-9_-]{1,63})+")
"""Plain names, including punycode. An IP address matches too, but ends in no suffix of the list."""


def domain_of(url: bytes | str) -> str | None:
    """Return the column `domain`, in lower case and punycode; None for an address or an unknown suffix.

    >>> domain_of("https://user:secret@cdn.shop.example.co.uk:8080/a/b.jpg?key=1")
    'example.co.uk'
    """
    text = url.decode("utf-8", "replace") if isinstance(url, bytes) else url
    if len(text) > MAX_URL_CHARACTERS:
        return None
    try:
        host = (urlsplit(text.strip()).hostname or "").rstrip(".")
        if not host.isascii() and len(host) <= MAX_HOST_CHARACTERS:
            host = host.encode("idna").decode("ascii")
    except (ValueError, UnicodeError):
        return None
    host = host.lower()
    if len(host) > MAX_HOST_CHARACTERS or _HOST.fullmatch(host) is None:
        return None
    domain: str | None = _suffixes().privatesuffix(host)
    return domain


@cache
def _suffixes() -> "PublicSuffixList":
    from publicsuffixlist import PublicSuffixList

    return PublicSuffixList(accept_unknown=False, only_icann=True)
