"""Fills the page of a report. Names of the corpus are hostile: Jinja escapes them, and the page may run only its own
script."""

import base64
import hashlib
import json
from dataclasses import dataclass
from datetime import date
from itertools import groupby

from reports.pages import fill, text_of
from reports.report import words
from reports.report.answers import LAWS
from reports.report.results import HEADS, Report, group_rows
from reports.words import shortened
from scoring.taxonomy import ATTRIBUTES

MAX_GROUPS = 1_000
"""Number of groups on the page, highest first; all of them are in its CSV."""

MEANINGS = {
    1: "identify a person on their own, such as a face or a passport",
    2: "are sensitive, or identify a person together with other data",
    3: "identify a person only in combination",
    4: "are harmless in most contexts",
    0: f"nothing of the {len(ATTRIBUTES)} attributes was found",
}
"""What attributes of each level do, after the taxonomy's definitions."""

_TEMPLATES = "report/templates"


@dataclass(frozen=True)
class Digest:
    """A language model's summary of the stored kinds of evidence."""

    model: str
    by_group: tuple[tuple[str, str], ...]
    given: str = "the counts above"


def render(report: Report, digest: Digest | None = None, made_on: date | None = None) -> str:
    """Return the report as one HTML page, which needs no other file: style and script are inside, and it may load
    nothing."""
    from markupsafe import Markup

    script = text_of(_TEMPLATES, "page.js")
    return fill(
        f"{_TEMPLATES}/page.html.j2",
        report=report,
        digest=digest,
        made_on=made_on,
        words=words,
        headline=words.headline_of(report),
        shown=report.rates[:MAX_GROUPS],
        corrected={row.category: row for row in report.corrected_groups},
        corrected_by_key={row.subject: row for row in report.corrected if row.category is None},
        evidence=[(group, list(items)) for group, items in groupby(report.evidence, key=lambda item: item.group)],
        laws=LAWS,
        attributes={attribute.key: attribute for attribute in ATTRIBUTES},
        titles={attribute.key: attribute.title for attribute in ATTRIBUTES},
        meanings=MEANINGS,
        figures=Markup(_figures(report)),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def _figures(report: Report) -> str:
    """Return every figure of the groups in the table, for the CSV that a reader can save."""
    rows = [
        [
            shortened(value) if isinstance(value, str) else round(value, 6) if isinstance(value, float) else value
            for value in row
        ]
        for row in group_rows(report, MAX_GROUPS)
    ]
    # A "<" inside a script element could end it; JSON allows it to be escaped.
    return json.dumps({"heads": HEADS, "rows": rows}, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
