"""What `review` is asked for."""

from typing import Annotated, Literal

from pydantic import Field

from ingest.errors import PrivsieveError
from jobs.console.requests import Count, HashListUrl, Name, Option, RunUrl, Seed, Url, checked_request
from scoring.labels.judgements import CHECKS

Judged = Literal["private", "votes", "attributes"]

MAX_NAME_CHARS = 80
MAX_PICTURES = 100_000


@checked_request
class ReviewRequest:
    run: RunUrl
    """Folder or fsspec URL of the run."""

    queue: Annotated[Name | None, Option(metavar="audit|borderline|SQL|LABELS")] = None
    """Which pictures: the drawn audit sample, those near the decision, a SQL condition such as "level = 1 AND
    biometrics IS NULL", or a labels file (.parquet, .csv) that names them. [default: audit if a sample was drawn, else
    borderline]"""

    judged: Annotated[Judged, Option("--for")] = "private"
    """What people say of a picture: whether it is private, one of four classes from clearly private to clearly public,
    or which attributes it shows."""

    reviewer: Annotated[Name | None, Option("--as", metavar="NAME")] = None
    """Who looks; without it the page asks for a name."""

    num_pictures: Annotated[Annotated[int, Field(ge=1, le=MAX_PICTURES)] | None, Option("--n")] = None
    """Pictures. [default: the audit sample, else 400]"""

    gold: Annotated[Url | None, Option(metavar="LABELS")] = None
    """Labels that are known to be right; such pictures are mixed in unmarked."""

    gold_share: Annotated[float, Field(ge=0, le=0.5)] = 0.05
    """Share of all pictures that these make up."""

    assign: Annotated[Url | None, Option(metavar="CSV")] = None
    """People, in a column `name`: each is asked about --per-person pictures, and each picture goes to nearly as many
    people, within every level too."""

    per_person: Count | None = None
    """Pictures of each person of --assign; gold pictures come on top."""

    hash_list: HashListUrl = None
    """File of hashes (sha256 or PDQ, one a line); a picture on it is never shown, and only counted."""

    again: bool = False
    """Ask what a person has answered before, too."""

    seed: Seed = 0
    """Seed of the order and of every draw."""

    port: Annotated[int, Field(ge=0, le=65535)] = 0
    """Port of this machine. [default: a free one]"""

    def __post_init__(self) -> None:
        if self.reviewer is not None:
            checked_name(self.reviewer)
        if (self.assign is None) != (self.per_person is None):
            raise PrivsieveError("--assign and --per-person belong together: give both, or neither")


def checked_name(name: str) -> str:
    """Return the name of a person, without spaces around it. PrivsieveError if it is none."""
    name = name.strip()
    if not name or len(name) > MAX_NAME_CHARS or not name.isprintable() or name == CHECKS:
        raise PrivsieveError(f"a reviewer's name has 1 to {MAX_NAME_CHARS} printable characters; give another one")
    return name
