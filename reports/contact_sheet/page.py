"""Fills the page of a contact sheet. Names and reasons are hostile: Jinja escapes them, and the page runs no script."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ingest import __version__
from ingest.errors import number_of
from ingest.formats.released import CoverStep
from reports.pages import fill
from reports.words import percent


@dataclass(frozen=True)
class CoveredPicture:
    """One picture of the sheet."""

    name: str
    """SHARD/KEY."""

    before: bytes | None
    """A JPEG; None if the source no longer holds the picture as it was scanned."""

    after: bytes | None
    """A JPEG; None if the released picture cannot be decoded."""

    steps: tuple[CoverStep, ...]
    """How it was covered; it was released as it was after the last one."""


@dataclass(frozen=True)
class CoveredByRule:
    """What one rule of the policy covered."""

    rule: str
    reason: str

    last_steps: Mapping[str, int]
    """Name of the step that cleared a picture -> number of pictures."""

    pictures: Sequence[CoveredPicture]
    """Those that were drawn."""

    @property
    def num_covered(self) -> int:
        """Return the number of released pictures that the rule covered."""
        return sum(self.last_steps.values())


def render(release: str, rules: Sequence[CoveredByRule], seed: int) -> str:
    """Return the contact sheet as one HTML page, which needs no other file and may load none."""
    return fill(
        "contact_sheet",
        release=release,
        rules=rules,
        seed=seed,
        step_in_words=step_in_words,
        version=__version__,
    )


def step_in_words(step: CoverStep) -> str:
    """Return what a step covered, and what the second look then found.

    >>> step_in_words(CoverStep("boxes", 2, 0.081, ("faces",)))
    'boxes: 2 areas, 8.1 % of the picture; still found: faces'
    """
    areas = f"{step.name}: {number_of(step.num_areas, 'area')}, {percent(float(step.share_covered))} of the picture"
    if not step.is_examined:
        return f"{areas}; not examined afterwards"
    left = f"still found: {', '.join(step.left)}" if step.left else "nothing found afterwards"
    return f"{areas}; {left}"
