"""What the fields of requests and resources may hold; they are checked when a request is made."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

from pydantic import ConfigDict, Field, InstanceOf, ValidationError

from ingest.errors import PrivsieveError

STRICT = ConfigDict(strict=True)
"""Of pydantic's dataclasses: a value of another type is refused, not converted."""

Count = Annotated[int, Field(ge=1, lt=2**63)]
Name = InstanceOf[str]
"""A path or name as the system gives it. A plain `str` refuses lone surrogates, which stand for bytes of no UTF-8."""


@contextmanager
def refused_in_one_line() -> Iterator[None]:
    """PrivsieveError with name and value of the first wrong field, for callers whom no command line has checked."""
    try:
        yield
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise PrivsieveError(f"{first['loc'][0]}={first['input']!r:.80}: {first['msg'].lower()}") from None
