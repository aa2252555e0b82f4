"""A calibration as tables of text."""

from collections.abc import Iterator

from reports.calibration.results import CalibrationReport, SubjectCalibration
from reports.labels.agreed import in_words
from reports.words import Cell, Document, number, table
from scoring.table import Col


def document(report: CalibrationReport) -> Document:
    present = "present" if report.has_attributes else "private"
    subjects = table(
        "Before → after. After: each picture by a map fitted on the other four fifths. "
        f"Threshold: {present} with a probability of 0.5 or more",
        ["subject", "pictures", present, "Brier", "ECE", "by chance", "wrong answers", "threshold"],
        [_row(subject) for subject in report.subjects],
    )
    return Document(tuple(headlines(report)), (subjects,), tuple(notes(report)))


def headlines(report: CalibrationReport) -> Iterator[str]:
    join = report.join
    yield from report.cautions
    yield f"run     {report.run}"
    yield f"engine  {report.engine}"
    yield f"joined  {join.in_words}"
    if report.drawn == "audit":
        yield (
            f"drawn   {report.num_labelled:,} of the {report.num_drawn:,} pictures of the audit sample have a label; "
            "each is weighted by 1 / probability, and those without are taken to be like the others"
        )
    else:
        yield f"drawn   {report.num_labelled:,} labelled pictures, each weighted the same; copies of one count once"


def notes(report: CalibrationReport) -> Iterator[str]:
    """Yield notes on single subjects, one line each."""
    for subject in report.subjects:
        if subject.note:
            yield f"{subject.subject}: {subject.note}"
        if subject.subject == "private" and subject.threshold is not None:
            threshold = f"{subject.threshold:g}"
            use = f"use it in a policy as when: {Col.PROB_PRIVATE} >= {threshold}"
            yield f"private: {subject.probability} from {threshold} on{'' if report.has_attributes else f'; {use}'}"
    if report.num_open:
        yield (
            f"private: {report.num_open:,} pictures are left out, since not every attribute of level 1 and 2 is "
            "labelled; give the labels a column private to count them"
        )
    if "private" not in {subject.subject for subject in report.subjects} and report.num_labelled > report.num_open:
        yield "private: not calibrated, since the labels call too few pictures private, or too few public"
    if report.num_undecided:
        yield (
            f"left out as undecided, since people differ or cannot say: {in_words(report.num_undecided)}; these are "
            "hard pictures, so the model seems better than it is; the majority counts, so one more person decides"
        )
    if report.without and report.has_attributes:
        yield f"without a labelled picture that has a probability: {', '.join(report.without)}"


def _row(subject: SubjectCalibration) -> list[Cell]:
    after = subject.after
    return [
        subject.subject,
        subject.num_pictures,
        subject.num_present,
        _change(subject.before.brier, after.brier if after else None),
        _change(subject.before.ece, after.ece if after else None),
        _change(subject.before.ece_by_chance, after.ece_by_chance if after else None),
        _change(subject.wrong_before, subject.wrong_after),
        number(subject.threshold, "g"),
    ]


def _change(before: float | None, after: float | None) -> str:
    return f"{number(before)} → {number(after)}"
