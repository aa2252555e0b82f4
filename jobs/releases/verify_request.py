"""What `verify` is asked to do."""

from dataclasses import field
from typing import Annotated

from pydantic import Field

from ingest.errors import EngineError, PrivsieveError
from ingest.storage.place import place
from jobs.console.engine_options import HEADING, ChosenOptions
from jobs.console.requests import Option, PagePath, Seed, Url, checked_request
from scoring.assessment import EngineOptions
from scoring.engines import ENGINES

MAX_PER_RULE = 50
"""A pair takes up to 100 kB of the page."""


@checked_request
class VerifyRequest:
    release: Annotated[Url, Option(argument="RELEASE")]
    """Folder or fsspec URL of a release."""

    signer: Annotated[Url | None, Option(metavar="ALLOWED_SIGNERS")] = None
    """Who may have signed the release: file with a line `NAME KEYTYPE KEY` for each, as OpenSSH reads it."""

    labels: Annotated[Url | None, Option(metavar="FILE")] = None
    """Labels of released pictures that were drawn at random, or RUN/reviews: how many may be private after all."""

    contact_sheet: Annotated[PagePath | None, Option(metavar="FILE")] = None
    """Write a page with covered pictures before and after, by rule. It shows private pictures uncovered."""

    source: Url | None = None
    """Where the scanned pictures of --contact-sheet are now. [default: where they were scanned]"""

    per_rule: Annotated[Annotated[int, Field(ge=1, le=MAX_PER_RULE)] | None, Option(metavar="N")] = None
    """Pictures of each rule on --contact-sheet. [default: 12]"""

    seed: Seed | None = None
    """Seed of the draw of these pictures. [default: 0]"""

    rescan_engine: Annotated[str | None, Option(offers=tuple(ENGINES), fill=", ".join(ENGINES)), HEADING] = None
    """Look at the released pictures again with this engine: {}."""

    options: ChosenOptions = field(default_factory=EngineOptions)
    """Options of --rescan-engine."""

    def __post_init__(self) -> None:
        if self.rescan_engine is None and self.options != EngineOptions():
            raise EngineError("--model, --endpoint and other options of engines are for --rescan-engine; name it")
        if self.contact_sheet is None:
            if (self.source, self.per_rule, self.seed) != (None, None, None):
                raise PrivsieveError("--source, --per-rule and --seed are of --contact-sheet FILE; give it")
            return
        if place(str(self.contact_sheet)).is_within(place(self.release)):
            raise PrivsieveError(
                f"--contact-sheet {self.contact_sheet} is inside of the release, and the page shows private pictures "
                "uncovered; write it to another folder"
            )
