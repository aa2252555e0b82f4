"""What `review` is asked for."""

from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass as checked_dataclass

from ingest.errors import PrivsieveError
from jobs.runtime.requests import STRICT, Name
from scoring.labels.attention import CHECKS

Judged = Literal["private", "attributes"]

MAX_NAME_CHARS = 80
MAX_PICTURES = 100_000


@checked_dataclass(frozen=True, config=STRICT)
class ReviewRequest:
    run_url: Name
    """Folder or fsspec URL of the run."""

    queue: Name | None = None
    """audit, borderline, or a SQL condition over the view `images`; None: audit if a sample was drawn, else
    borderline."""

    judged: Judged = "private"
    """Whether people say if a picture is private, or which of the 22 attributes it shows."""

    reviewer: Name | None = None
    """Who looks, and may see everybody's share of right answers; None: the page asks for a name."""

    num_pictures: Annotated[int, Field(ge=1, le=MAX_PICTURES)] | None = None
    """None: all of an audit sample, else `queue.DEFAULT_PICTURES`."""

    gold_url: Name | None = None
    """Labels of pictures of the run that are known to be right."""

    gold_share: Annotated[float, Field(ge=0, le=0.5)] = 0.05
    """Of the pictures that are asked, those with a known answer."""

    hash_list_url: Name | None = None
    """File of hashes of pictures that nobody may see."""

    again: bool = False
    """Ask what a person has answered before, too."""

    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    """Of the order and of every draw."""

    port: Annotated[int, Field(ge=0, le=65535)] = 0
    """0: a free one."""

    def __post_init__(self) -> None:
        if self.reviewer is not None:
            checked_name(self.reviewer)


def checked_name(name: str) -> str:
    """The name of a person, without spaces around it. PrivsieveError if it is none."""
    name = name.strip()
    if not name or len(name) > MAX_NAME_CHARS or not name.isprintable() or name == CHECKS:
        raise PrivsieveError(f"a reviewer's name has 1 to {MAX_NAME_CHARS} printable characters; give another one")
    return name
