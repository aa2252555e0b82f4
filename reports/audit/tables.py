"""An audit as tables of text for the terminal."""

from collections.abc import Iterator

from ingest.errors import number_of
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
    heads = ["", "raw", "corrected", "labels", "positive", "sensitivity", "specificity"]
    rows = [
        [
            one.subject,
            *map(_cell, (one.raw, one.corrected)),
            f"{one.num_labels:,}",
            f"{one.num_positive:,}",
            *map(_cell, (one.sensitivity, one.specificity)),
        ]
        for one in audit.subjects
        if one.num_labels
    ]
    title = "Share of the scored images, as the run answers and corrected by the labels (95 % intervals)"
    yield Table(title, heads, rows)
    found = [one for one in audit.categories if one.subject == PRIVATE and one.corrected.value is not None]
    if found:
        ranked = sorted(found, key=lambda one: (-(one.corrected.low or 0), one.category))
        shown = ranked[:MAX_CATEGORIES_SHOWN]
        more = f"; the first {len(shown)} of {len(found):,}, --format csv gives all" if len(found) > len(shown) else ""
        title = f"Private by category ({shown[0].method}), highest lower bound first{more}"
        heads = ["category", "scored", "raw", "corrected", "note"]
        yield Table(title, heads, [_category(one) for one in shown])


def endnotes(audit: Audit) -> tuple[str, ...]:
    """What a reader must know, one line each."""
    of_notes = dict[str, list[str]]()
    for one in audit.subjects:
        if one.note is not None:
            of_notes.setdefault(one.note, []).append(one.subject)
    lines = [
        f"{note}: {'all' if len(subjects) == len(audit.subjects) else ', '.join(subjects)}"
        for note, subjects in of_notes.items()
    ]
    lines += map(printable, audit.notes)
    private = audit.subjects[0]
    if private.shift_test is not None:
        test = private.shift_test
        if test.p_corrected is None:
            lines.append("That could not be tested: fewer than two categories have 5 labelled pictures of one kind.")
        else:
            end = "the labels contradict it" if test.p_corrected < 0.05 else "the labels do not contradict it"
            num_tests = sum(one.shift_test is not None and one.shift_test.p_value is not None for one in audit.subjects)
            lines.append(
                f"Tested for private on {test.num_categories} categories: p = {test.p_corrected:.3f} "
                f"(corrected for {number_of(num_tests, 'test')}), {end}."
            )
    if audit.num_quarantined and private.with_quarantined is not None:
        low, high = private.with_quarantined
        lines.append(
            f"{audit.num_quarantined:,} quarantined images are in no rate and were not drawn: most cannot be shown. "
            f"With them the private rate is between {low:.1%} (none of them private) and {high:.1%} (all)."
        )
    return tuple(lines)


def _category(one: CategoryRates) -> list[str]:
    cells = [_cell(one.raw), _cell(one.corrected), one.note or ""]
    return [shortened(printable(one.category)), f"{one.num_scored:,}", *cells]


def _cell(one: Estimate) -> str:
    """Share and interval; "–" where not known."""
    if one.value is None:
        return "–"
    interval = "" if one.low is None or one.high is None else f" ({100 * one.low:.1f}–{100 * one.high:.1f})"
    return f"{one.value:.1%}{interval}"
