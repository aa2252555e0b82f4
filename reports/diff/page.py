"""Fills the page of a comparison. Names of corpora are hostile: Jinja escapes them, and the page may run no script."""

from reports.diff.results import LEVEL_STATES, PRIVATE_STATES, RunDifference
from reports.diff.words import findings, headlines, notes, tables
from reports.pages import fill
from reports.words import percent, shortened

MAX_GROUPS = 2_000
"""Number of groups on the page, which stays below 1.5 MB; JSON has all."""

MINOR = frozenset(
    ["pictures", "known", "only A", "only B", "doubt", "κ", "p", "in A, open in B", "in B, open in A", "95 % interval"]
)
"""Columns that a phone has no room for."""


def render(difference: RunDifference) -> str:
    """Return the comparison as one HTML page, which needs no other file and may load none."""
    return fill(
        "diff",
        {"percent": percent, "shortened": shortened},
        difference=difference,
        headlines=list(headlines(difference)),
        findings=list(findings(difference)),
        notes=list(notes(difference)),
        minor=MINOR,
        by=shortened(difference.by),
        tables=list(tables(difference, MAX_GROUPS)),
        level_states=LEVEL_STATES,
        private_states=PRIVATE_STATES,
    )
