"""A calibration as tables of text."""

from collections.abc import Iterator, Sequence

from reports.calibration.results import CalibrationReport, SubjectCalibration
from reports.labels.agreed import in_words
from reports.statistics.calibration import ReliabilityBin
from reports.words import Document, Table, number


def document(report: CalibrationReport, reliability_of: Sequence[str]) -> Document:
    """reliability_of: subjects that get a reliability table."""
    return Document(tuple(headlines(report)), tuple(tables(report, reliability_of)), tuple(notes(report)))


def headlines(report: CalibrationReport) -> Iterator[str]:
    """What a reader must know before any figure, one line each."""
    join = report.join
    yield from report.cautions
    yield f"run     {report.run}"
    yield f"engine  {report.engine}"
    yield (
        f"joined  {join.num_joined_rows:,} of {join.num_rows:,} rows have a label; "
        f"{join.num_labels_without_row:,} labels are of no row"
    )
    if report.drawn == "audit":
        yield (
            f"drawn   {report.num_labelled:,} of the {report.num_drawn:,} pictures of the audit sample have a label; "
            "each is weighted by 1 / probability, and those without are taken to be like the others"
        )
    else:
        yield f"drawn   {report.num_labelled:,} labelled pictures, each weighted the same; copies of one count once"


def tables(report: CalibrationReport, reliability_of: Sequence[str]) -> Iterator[Table]:
    """reliability_of: subjects that get a reliability table."""
    present = "present" if report.has_attributes else "private"
    yield Table(
        "Before → after. After: each picture by a map fitted on the other four fifths. "
        f"Threshold: {present} with a probability of {report.at:g} or more",
        ["subject", "pictures", present, "map", "Brier", "ECE", "wrong answers", "threshold"],
        [_row(one) for one in report.subjects],
        (0, 3),
    )
    for one in report.subjects:
        if one.subject in reliability_of:
            yield _reliability(one)


def notes(report: CalibrationReport) -> Iterator[str]:
    """What to know of single subjects, one line each."""
    for one in report.subjects:
        if one.pooled_with:
            yield f"{one.subject}: rare, so it shares its map with {', '.join(one.pooled_with)}"
        if one.note:
            yield f"{one.subject}: {one.note}"
        if one.subject == "private" and one.threshold is not None:
            if report.has_attributes:
                yield f"private: {one.probability} from {one.threshold:g} on; a thresholds file holds attributes only"
            else:
                yield f"private: {one.probability} from {one.threshold:g} on; {use_of(one.threshold)}"
    if report.num_open:
        yield (
            f"private: {report.num_open:,} pictures are left out, since not every attribute of level 1 and 2 is "
            "labelled; give the labels a column private to count them"
        )
    if "private" not in {one.subject for one in report.subjects} and report.num_labelled > report.num_open:
        yield "private: not calibrated, since the labels call too few pictures private, or too few public"
    if report.num_undecided:
        yield (
            f"left out as undecided, since people differ or cannot say: {in_words(report.num_undecided)}; these are "
            "hard pictures, so the model seems better than it is; the majority counts, so one more person decides"
        )
    if report.without and report.has_attributes:
        yield f"without a labelled picture that has a probability: {', '.join(report.without)}"


def use_of(threshold: float) -> str:
    """What to do with a threshold of `prob_private`."""
    return f"use it in evaluate --threshold {threshold:g}, or in a policy as when: prob_private >= {threshold:g}"


def _row(one: SubjectCalibration) -> list[str]:
    after = one.after
    return [
        one.subject,
        f"{one.num_pictures:,}",
        f"{one.num_present:,}",
        f"{one.method or '–'}{', pooled' if one.pooled_with else ''}",
        _change(one.before.brier, after.brier if after else None),
        _change(one.before.ece, after.ece if after else None),
        _change(one.wrong_before, one.wrong_after),
        number(one.threshold, "g"),
    ]


def _change(before: float | None, after: float | None) -> str:
    return f"{number(before)} → {number(after)}"


def _reliability(one: SubjectCalibration) -> Table:
    after: Sequence[ReliabilityBin | None] = one.after.bins if one.after else [None] * len(one.before.bins)
    return Table(
        f"Reliability of {one.subject} ({one.probability})",
        ["probability", "pictures", "mean", "share so", "pictures after", "mean after", "share so after"],
        [
            [f"{before.low:.1f}–{before.high:.1f}", *_cells(before), *_cells(later)]
            for before, later in zip(one.before.bins, after, strict=True)
        ],
    )


def _cells(one: ReliabilityBin | None) -> list[str]:
    if one is None:
        return ["–", "–", "–"]
    return [f"{one.num_pictures:,}", number(one.mean_probability), number(one.share)]
