"""Paths and URLs as callers give them."""

import os

from ingest.errors import PrivsieveError
from ingest.storage.web import named

Url = str | os.PathLike[str]
"""A path of this machine, or an fsspec URL."""


def text(name: str, value: Url) -> str:
    """A path, or a URL as it may be written (`ingest.storage.web`). PrivsieveError where the value is neither."""
    if not isinstance(value, (str, os.PathLike)) or "\0" in os.fspath(value):
        raise PrivsieveError(f"{name}={value!r:.80}: give a path or URL")
    return named(os.fspath(value))


def text_or_none(name: str, value: Url | None) -> str | None:
    """As `text`; None stays None."""
    return None if value is None else text(name, value)
