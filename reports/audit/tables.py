"""An audit as tables of text for the terminal."""

from collections.abc import Iterator

from ingest.sample import printable
from reports.audit.estimates import Estimate
from reports.audit.results import Audit, CategoryRates
from reports.evaluation.tables import Table
from reports.summary import shortened
from scoring.runs.audit_sample import PRIVATE

MAX_CATEGORIES_SHOWN = 20


def headlines(audit: Audit) -> tuple[str, ...]:
    """What a reader must know before any figure, one line each."""
    counts = audit.labels
    return (
        *map(printable, audit.cautions),
        f"run      {printable(audit.run)}",
        f"private  {printable(audit.private)}",
        f"images   {audit.num_images:,}: {audit.num_scored:,} scored, {audit.num_quarantined:,} quarantined",
        f"labels   {counts.num_labelled:,} of {counts.num_drawn:,} pictures have a label; {counts.num_empty:,} rows "
        f"are empty, {counts.num_without_row:,} pictures have no row, {counts.num_outside:,} rows are of others",
    )


def tables(audit: Audit) -> Iterator[Table]:
    """Rates of the whole run, then the private rate of categories if there are any."""
    heads = ["", "raw", "95 %", "corrected", "95 %", "labels", "positive", "sensitivity", "95 %", "specificity", "95 %"]
    rows = [
        [
            one.subject,
            *_cells(one.raw),
            *_cells(one.corrected),
            f"{one.num_labels:,}",
            f"{one.num_positive:,}",
            *_cells(one.sensitivity),
            *_cells(one.specificity),
            one.note or "",
        ]
        for one in audit.subjects
        if one.num_labels
    ]
    yield Table("Share of the scored images, as the run answers and corrected by the labels", [*heads, "note"], rows)
    found = [one for one in audit.categories if one.subject == PRIVATE and one.corrected.value is not None]
    if found:
        ranked = sorted(found, key=lambda one: (-(one.corrected.low or 0), one.category))
        shown = ranked[:MAX_CATEGORIES_SHOWN]
        more = f"; the first {len(shown)} of {len(found):,}, --format csv gives all" if len(found) > len(shown) else ""
        title = f"Private by category ({shown[0].method}), highest lower bound first{more}"
        heads = ["category", "scored", "raw", "95 %", "corrected", "95 %", "note"]
        yield Table(title, heads, [_category(one) for one in shown])


def endnotes(audit: Audit) -> tuple[str, ...]:
    """What a reader must know, one line each."""
    lines = [printable(note) for note in audit.notes]
    if without := [one.subject for one in audit.subjects if not one.num_labels]:
        lines.insert(0, f"Without labels, so without a corrected rate: {', '.join(without)}.")
    private = audit.subjects[0]
    if private.shift_test is not None:
        test = private.shift_test
        if test.p_value is None:
            lines.append("That could not be tested: fewer than two categories have 5 labelled pictures of one kind.")
        else:
            end = "the labels contradict it" if test.p_value < 0.05 else "the labels do not contradict it"
            lines.append(f"Tested for private on {test.num_categories} categories: p = {test.p_value:.3f}, {end}.")
    if audit.num_quarantined and private.with_quarantined is not None:
        low, high = private.with_quarantined
        lines.append(
            f"{audit.num_quarantined:,} quarantined images are in no rate and were not drawn: most cannot be shown. "
            f"With them the private rate is between {low:.1%} (none of them private) and {high:.1%} (all)."
        )
    return tuple(lines)


def _category(one: CategoryRates) -> list[str]:
    cells = [*_cells(one.raw), *_cells(one.corrected), one.note or ""]
    return [shortened(printable(one.category)), f"{one.num_scored:,}", *cells]


def _cells(one: Estimate) -> list[str]:
    """Share and interval; "–" where not known."""
    interval = "–" if one.low is None or one.high is None else f"{100 * one.low:.1f}–{100 * one.high:.1f}"
    return ["–" if one.value is None else f"{one.value:.1%}", interval]
