"""An audit as tables of text for the terminal."""

from collections.abc import Iterator, Mapping, Sequence

from ingest.errors import number_of
from ingest.sample import printable
from reports.audit.drawing import Expected
from reports.audit.results import ALL_LABELLED, FEW_LABELS, NO_LABELS, ONLY_PRESENT, Audit, LabelCounts, SubjectRates
from reports.statistics.agreement import MIN_TWICE
from reports.statistics.category_rates import MIN_LABELS
from reports.statistics.estimates import Estimate
from reports.statistics.shares import num_needed
from reports.words import Cell, Document, Table, decimals_of, percent, shortened, table
from scoring.runs.audit_files import PRIVATE, SUBJECTS

SENTENCES: Mapping[str, str] = {
    NO_LABELS: "No corrected rate, since no drawn picture is labelled for it (review --for attributes asks for "
    "attributes): {subjects}.",
    ONLY_PRESENT: "No corrected rate, since the labels say only where it is present, and leave other pictures open: "
    "{subjects}.",
    FEW_LABELS: f"Corrected by fewer than {MIN_LABELS} labels, so label more before you rely on it: {{subjects}}.",
    ALL_LABELLED: "Every image is labelled, so the corrected rate is that of the labels: {subjects}.",
}
"""Note -> what it means for the reader. The notes of the whole audit explain the others."""


def expectations(expected: Expected) -> Iterator[str]:
    """Yield what the labels of a sample can show, before there are any, one line each."""
    if expected.half_width is not None:
        yield (
            f"all labels together: expect about ± {100 * expected.half_width:.1f} points for the corrected private "
            "rate, a guess from the answers; people who differ widen it"
        )
    needed = ", ".join(f"{num_needed(share, 0.95)} for {100 * share:g} %" for share in (0.95, 0.99))
    yield (
        f"about {expected.num_private_even:,.0f} private pictures are expected for the guarantee of a policy and "
        f"screen fit, where with 95 % confidence a promise needs {needed}"
    )


def document(audit: Audit) -> Document:
    return Document(headlines(audit), tuple(tables(audit)), endnotes(audit))


def headlines(audit: Audit) -> tuple[str, ...]:
    counts = audit.labels
    screened = f"{audit.num_screened:,} screened out, " if audit.num_screened else ""
    return (
        *map(printable, audit.cautions),
        f"run      {printable(audit.run)}",
        f"private  {printable(audit.private)}",
        f"images   {audit.num_images:,}: {audit.num_scored:,} scored, {screened}{audit.num_quarantined:,} quarantined",
        f"labels   {_counted(counts)}",
    )


def _counted(counts: LabelCounts) -> str:
    others = {
        "undecided": counts.num_undecided,
        "without an answer": counts.num_empty,
        "not in the labels": counts.num_without_row,
    }
    parts = [f"{counts.num_labelled:,} of {counts.num_drawn:,} pictures have a label"]
    parts += [f"{number:,} {what}" for what, number in others.items() if number]
    if counts.num_outside:
        parts.append(f"{number_of(counts.num_outside, 'label')} of other pictures")
    return "; ".join(parts)


def tables(audit: Audit) -> Iterator[Table]:
    """Yield the rates of the whole run, then the private rates of categories if there are any."""
    heads = ["", "raw", "corrected", "labels", "positive", "sensitivity", "specificity"]
    rows: list[list[Cell]] = [
        [
            subject.subject,
            percent(subject.raw_rate, subject.is_raw_lower_bound),
            _cell(subject.corrected),
            subject.num_labels,
            subject.num_positive,
            *map(_cell, (subject.sensitivity, subject.specificity)),
        ]
        for subject in audit.subjects
        if subject.num_labels
    ]
    title = f"Share of the {audit.population}, as the run answers and corrected by the labels (95 % intervals)"
    if any(subject.is_raw_lower_bound for subject in audit.subjects if subject.num_labels):
        title += "; ≥: never ruled out, so at least"
    yield table(title, heads, rows)
    with_rate = [each for each in audit.categories if each.subject == PRIVATE and each.corrected.value is not None]
    if with_rate:
        ranked = sorted(with_rate, key=lambda category: (-(category.corrected.low or 0), category.category))
        shown, rest = ranked[:20], ranked[20:]
        more = f"; the first {len(shown)} of {len(ranked):,}, --format csv gives all" if rest else ""
        title = f"Private share of the {audit.category_population} by category, highest lower end first{more}"
        heads = ["category", "scored", "labels", "raw", "corrected", "sensitivity", "note"]
        yield table(title, heads, [_category(item) for item in shown], (0, heads.index("note")))


def endnotes(audit: Audit) -> tuple[str, ...]:
    """Return the notes for the reader, one line each."""
    of_notes = dict[str, list[str]]()
    for subject in audit.subjects:
        if subject.note is not None:
            of_notes.setdefault(subject.note, []).append(subject.subject)
    lines = [
        SENTENCES[note].format(subjects=_listed(subjects)) for note, subjects in of_notes.items() if note in SENTENCES
    ]
    lines += map(printable, audit.notes)
    if audit.num_quarantined:
        images = number_of(audit.num_quarantined, "quarantined image")
        lines.append(f"In no rate and not drawn, since most cannot be shown: {images}; report says what they change.")
    looks = audit.subjects[0].second_looks
    lines.append(label_errors(looks.num_pictures, looks.share_differing, looks.kappa, bool(looks.reach_high)))
    return tuple(lines)


def _listed(subjects: Sequence[str]) -> str:
    if len(subjects) == len(SUBJECTS):
        return "private and all attributes"
    if PRIVATE not in subjects and len(subjects) == len(SUBJECTS) - 1:
        return "all attributes"
    return ", ".join(subjects)


def _category(rates: SubjectRates) -> list[Cell]:
    name, note = shortened(printable(rates.category or "")), rates.note or ""
    raw = percent(rates.raw_rate, rates.is_raw_lower_bound)
    return [name, rates.num_scored, rates.num_labels, raw, _cell(rates.corrected), _cell(rates.sensitivity), note]


def _cell(estimate: Estimate) -> str:
    """Return the share and its interval as text, its bounds where nothing else is known; "–" where unknown."""
    value, low, high = estimate.value, estimate.low, estimate.high
    if low is None or high is None:
        return percent(value)
    decimals = decimals_of(low, high)
    if value is None:
        return f"{100 * low:.{decimals}f} to {percent(high, decimals=decimals)}"
    return f"{percent(value, decimals=decimals)} ({100 * low:.{decimals}f}–{100 * high:.{decimals}f})"


def label_gaps(num_drawn: int, num_without_label: int, undecided: str) -> Iterator[str]:
    """Yield what pictures without an answer mean for the corrected rates. undecided: counts in words, or empty."""
    if num_without_label:
        have = "has" if num_without_label == 1 else "have"
        yield (
            f"{num_without_label:,} of {num_drawn:,} drawn pictures {have} no label. The corrected rates hold only if "
            "chance decided which: label in the order of the list, and leave out no hard ones."
        )
    if undecided:
        yield (
            f"Undecided, since people differ, cannot say, or skipped them: {undecided}. The intervals cover all of "
            "them being so, and none."
        )


def label_errors(num_pictures: int, differing: float | None, kappa: float | None, is_allowed_for: bool) -> str:
    """Explain how wrong labels affect the rates. num_pictures: those that at least two people judged. is_allowed_for:
    whether the intervals are wider by these errors."""
    if num_pictures < MIN_TWICE or differing is None:
        few = f" (so far {num_pictures:,})" if num_pictures else ""
        return (
            "The labels count as the truth: 5 % wrong ones can turn a rate of 10 % into 14 %. How often they are wrong "
            f"shows if two people judge at least {MIN_TWICE} of the pictures{few}; those for it come first in a review."
        )
    several = (
        f"Several people judged {number_of(num_pictures, 'picture')}: {percent(differing)} of their answers differ"
    )
    if kappa is not None:
        several += f" (κ {kappa:.2f})".replace("-", "−")
    if not differing:
        return f"{several}. Errors that all of them make alike are not seen."
    end = "The intervals allow for as many wrong labels of pictures that one person judged." if is_allowed_for else ""
    return f"{several}, so at least {percent(differing / 2)} are wrong. {end}".rstrip()
