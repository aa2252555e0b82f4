"""What notebooks show of results: pages of reports, evaluations and comparisons; lines of text for the others.

`_repr_html_` is the method that notebooks call (IPython, "rich display"). The classes get it here, since the rooms that
define results do not know the pages that show them.
"""

from collections.abc import Callable
from html import escape
from typing import Any

from reports.audit import words as audit_tables
from reports.audit.results import Audit
from reports.diff.results import RunDifference
from reports.diff.words import render as comparison_page
from reports.evaluation.results import Evaluation
from reports.evaluation.words import render as evaluation_page
from reports.report.explaining import Explanation, facts_in_words
from reports.report.page import render as report_page
from reports.report.results import Report

HEIGHT_PX = 700


def show_results_as_pages() -> None:
    """Give the classes of results their pages. Called once, when `privsieve` is imported."""
    pages: tuple[tuple[type, Callable[[Any], str]], ...] = (
        (Report, lambda result: framed(report_page(result))),
        (Evaluation, lambda result: framed(evaluation_page(result))),
        (RunDifference, lambda result: framed(comparison_page(result))),
        (Audit, audit_in_html),
        (Explanation, explanation_in_html),
    )
    for kind, show in pages:
        type.__setattr__(kind, "_repr_html_", show)


def framed(page: str) -> str:
    """Return a whole page inside another one. It may run its own script, and can access nothing outside."""
    return (
        f'<iframe sandbox="allow-scripts allow-downloads" srcdoc="{escape(page)}" '
        f'style="width: 100%; height: {HEIGHT_PX}px; border: 1px solid #ccc"></iframe>'
    )


def audit_in_html(audit_: Audit) -> str:
    parts = [f"<p>{escape(line)}</p>" for line in audit_tables.headlines(audit_)]
    for table in audit_tables.tables(audit_):
        heads = "".join(f"<th>{escape(head)}</th>" for head in table.heads)
        rows = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in table.rows)
        parts.append(f"<table><caption>{escape(table.title)}</caption><tr>{heads}</tr>{rows}</table>")
    return "".join([*parts, *(f"<p>{escape(line)}</p>" for line in audit_tables.endnotes(audit_))])


def explanation_in_html(explained: Explanation) -> str:
    facts = [
        *facts_in_words(explained),
        *((f"policy {decision.policy}", f"{decision.action}: {decision.reason}") for decision in explained.decisions),
    ]
    rows = (f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in facts)
    return f"<table>{''.join(rows)}</table>"
