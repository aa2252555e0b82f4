"""An evaluation in words: its findings as sentences, then tables of text; and the page of these."""

from collections.abc import Iterator, Mapping

from ingest.errors import number_of
from reports.evaluation.metrics import SEVERITY_METRICS
from reports.evaluation.results import Comparison, Evaluation, PrivateResult, ScoreResult
from reports.pages import fill
from reports.statistics import binary
from reports.statistics.intervals import NUM_FEW, Interval
from reports.words import Document, Table, number, percent, shortened, table

NAMES = {
    "mcc": "MCC",
    "balanced_accuracy": "balanced accuracy",
    "f1": "F1",
    "spearman": "Spearman ρ",
    "pearson": "Pearson r",
    "mae": "mean absolute error",
    "bias": "bias (predicted − true)",
    "level_accuracy": "level accuracy",
}
"""Metric -> how it is shown; others are shown by their own name."""

_FEW = "few"
FEW_NOTE = (
    f"{_FEW}: fewer than {NUM_FEW} pictures are behind the figure, near duplicates counted as one. The interval holds, "
    "but more pictures would make it much narrower."
)


def document(evaluation: Evaluation) -> Document:
    lines = (*headlines(evaluation), "", *findings(evaluation))
    return Document(lines, tuple(tables(evaluation)), notes(evaluation))


def headlines(evaluation: Evaluation) -> tuple[str, ...]:
    join = evaluation.join
    by = f" by {shortened(', '.join(evaluation.annotators))}" if evaluation.annotators else ""
    return (
        *evaluation.cautions,
        f"run     {evaluation.run}",
        f"engine  {evaluation.engine}",
        f"labels  {number_of(join.num_labels, 'label')}{by}",
        f"joined  {join.in_words}",
    )


def tables(evaluation: Evaluation) -> Iterator[Table]:
    """Yield the tables for which the run and the labels have figures."""
    if evaluation.private:
        yield from _private(evaluation.private)
    for score in filter(None, (evaluation.score, evaluation.formula_score)):
        yield from _score(score)
    if evaluation.attribute_summary and evaluation.attributes:
        yield _attributes(evaluation)
    if evaluation.groups:
        yield _groups(evaluation)
    if evaluation.comparison:
        yield from _comparison(evaluation.comparison)


def notes(evaluation: Evaluation) -> tuple[str, ...]:
    """Return the notes that follow the figures, one or two sentences each."""
    of_run = (evaluation.private, evaluation.score, evaluation.formula_score, evaluation.attribute_summary)
    parts = (*of_run, *evaluation.attributes.values(), *evaluation.groups)
    intervals = [interval for part in parts if part for interval in part.intervals.values()]
    if evaluation.comparison:
        intervals += filter(None, (difference.interval for difference in evaluation.comparison.private.values()))
    return evaluation.notes + (FEW_NOTE,) * any(interval.is_few for interval in intervals)


def _private(private: PrivateResult) -> Iterator[Table]:
    answered = private.answered
    num_private = private.num_true_positive + private.num_false_negative
    num_public = private.num_true_negative + private.num_false_positive
    sides = f"{num_private:,} labelled private, {num_public:,} public"
    unanswered = "none is without an answer"
    if private.num_rejected:
        are, wrong = ("is", "counts") if private.num_rejected == 1 else ("are", "count")
        unanswered = (
            f"{private.num_rejected:,} {are} without an answer (quarantined, or unknown to the run) and {wrong} as "
            "answered wrong"
        )
    yield table(
        f"Private or public: {number_of(private.num_pictures, 'picture')}, {sides}; {unanswered}",
        ["metric", "value", "95 % interval", "of the answered"],
        [
            [_name(metric), getattr(private, metric), _interval(private.intervals, metric), getattr(answered, metric)]
            for metric in binary.METRICS
        ],
    )
    yield table(
        "Answers by label",
        ["label", "answered private", "answered public", "no answer"],
        [
            [label, num_yes, num_no, num - num_yes - num_no]
            for label, num_yes, num_no, num in (
                ("private", answered.num_true_positive, answered.num_false_negative, num_private),
                ("public", answered.num_false_positive, answered.num_true_negative, num_public),
            )
        ],
    )
    if private.classwise is not None:
        sides_of = {name: getattr(private.classwise, name) for name in ("private", "public", "overall")}
        yield table(
            "Precision, recall and F1 of both sides (overall: weighted by support)",
            ["side", "precision", "recall", "F1", "support"],
            [[name, side.precision, side.recall, side.f1, side.support] for name, side in sides_of.items()],
        )
    if private.per_class:
        yield table(
            "Each private class against all public pictures",
            ["class", "pictures", "recall", "F1", "MCC"],
            [[shortened(row.name), row.num_pictures, row.recall, row.f1, row.mcc] for row in private.per_class],
        )


def _score(score: ScoreResult) -> Iterator[Table]:
    missing = f"; {score.num_not_scored:,} more have no score" if score.num_not_scored else ""
    rows = [[_name(metric), getattr(score, metric), _interval(score.intervals, metric)] for metric in SEVERITY_METRICS]
    for name, pairs in (("across", score.pairwise_inter), ("inside of", score.pairwise_intra)):
        rows.append([f"pairs {name} levels in order ({pairs.num_pairs:,})", pairs.accuracy, "–"])
    yield table(
        f"Severity ({score.column}): {number_of(score.num_pictures, 'picture')}{missing}",
        ["metric", "value", "95 % interval"],
        rows,
    )
    yield table(
        f"Levels by {score.column}: true level (rows) against predicted level (columns)",
        ["level", *map(str, range(1, 5))],
        [[str(level), *counts] for level, counts in enumerate(score.confusion, 1)],
    )


def _attributes(evaluation: Evaluation) -> Table:
    summary = evaluation.attribute_summary
    assert summary is not None
    title = "Attributes of the pictures that were answered (0.5 counts as absent): "
    title += f"macro-F1 {number(summary.macro_f1)} ({_interval(summary.intervals, 'macro_f1')}) "
    title += f"over {number_of(summary.num_in_macro, 'attribute')}"
    rows = [
        [
            key,
            metrics.num_labelled,
            metrics.num_not_answered,
            metrics.num_present,
            metrics.num_present_not_answered,
            metrics.precision,
            metrics.recall,
            metrics.f1,
            _interval(metrics.intervals, "f1"),
            metrics.kappa,
        ]
        for key, metrics in evaluation.attributes.items()
    ]
    heads = ["attribute", "labelled", "no answer", "present", "of these no answer"]
    return table(title, [*heads, "precision", "recall", "F1", "95 % of F1", "κ"], rows)


def _groups(evaluation: Evaluation) -> Table:
    return table(
        f"By {evaluation.by} (pictures without an answer count as answered wrong)",
        [
            *("group", "pictures", "private", "no answer", "MCC", "F1", "recall", "95 % of recall"),
            *("specificity", "95 % of specificity", "error of score"),
        ],
        [
            [
                shortened(group.group),
                *(
                    ["–"] * 9
                    if (metrics := group.private) is None
                    else [
                        metrics.num_pictures,
                        metrics.num_true_positive + metrics.num_false_negative,
                        group.num_rejected,
                        metrics.mcc,
                        metrics.f1,
                        metrics.recall,
                        _interval(group.intervals, "recall"),
                        metrics.specificity,
                        _interval(group.intervals, "specificity"),
                    ]
                ),
                group.mae,
            ]
            for group in evaluation.groups
        ],
    )


def _comparison(comparison: Comparison) -> Iterator[Table]:
    pictures = number_of(comparison.num_pictures, "picture")
    if comparison.mcnemar:
        test = comparison.mcnemar
        tested = "there is nothing to test" if test.p_value is None else f"McNemar's exact test p = {test.p_value:.3g}"
        yield table(
            f"After (this run) against before ({shortened(comparison.run)}), on {pictures} of both: only after is "
            f"right in {test.num_only_after_right:,}, only before in {test.num_only_before_right:,}; {tested}",
            ["metric", "before", "after", "after − before", "95 % interval"],
            [
                [
                    _name(metric),
                    difference.before,
                    difference.after,
                    number(difference.difference, "+.3f"),
                    interval_cell(difference.interval, "+.3f"),
                ]
                for metric, difference in comparison.private.items()
            ],
        )


def _interval(intervals: Mapping[str, Interval], metric: str) -> str:
    return interval_cell(intervals.get(metric))


def interval_cell(interval: Interval | None, form: str = ".3f") -> str:
    """Return the interval as text, with the mark that `FEW_NOTE` explains; "–" without an interval."""
    if interval is None:
        return "–"
    return f"{number(interval.low, form)} … {number(interval.high, form)}" + f" ({_FEW})" * interval.is_few


def _name(metric: str) -> str:
    return NAMES.get(metric, metric)


def findings(evaluation: Evaluation) -> tuple[str, ...]:
    """Return what was found, one sentence each; findings without figures are left out."""
    sentences = _of_private(evaluation.private) if evaluation.private else []
    if evaluation.score and evaluation.score.mae is not None:
        off = evaluation.score.bias or 0
        side = "right" if abs(off) < 0.005 else f"too {'high' if off > 0 else 'low'}"
        sentences.append(
            f"Its severity score differs from the true one by {evaluation.score.mae:.2f} on average; the mean of its "
            f"scores is {side}."
        )
    if evaluation.comparison:
        sentences += _of_comparison(evaluation.comparison)
    return tuple(sentences)


def _of_private(private: PrivateResult) -> list[str]:
    num_private = private.num_true_positive + private.num_false_negative
    num_public = private.num_true_negative + private.num_false_positive
    sentences = []
    if num_private:
        sentences.append(
            f"Of {number_of(num_private, 'private picture')} the run finds {private.num_true_positive:,}"
            f"{_share(private.recall, private.intervals.get('recall'))}."
        )
    if num_public:
        sentences.append(
            f"Of {number_of(num_public, 'public picture')} it calls {private.num_true_negative:,} public"
            f"{_share(private.specificity, private.intervals.get('specificity'))}."
        )
    if private.num_rejected:
        are = "is" if private.num_rejected == 1 else "are"
        sentences.append(f"{number_of(private.num_rejected, 'picture')} without an answer {are} counted as wrong.")
    return sentences


def _of_comparison(comparison: Comparison) -> list[str]:
    mcc = comparison.private.get("mcc")
    if mcc is None or mcc.difference is None or mcc.before is None or mcc.after is None:
        return []
    where = f"on the {number_of(comparison.num_pictures, 'picture')} of both runs"
    sure = ""
    if mcc.interval is not None:
        is_sure = mcc.interval.low > 0 or mcc.interval.high < 0
        sure = ", more than chance explains" if is_sure else ", which may be chance"
    way = "better" if mcc.difference > 0 else "worse" if mcc.difference < 0 else "neither better nor worse"
    return [
        f"It is {way} than {shortened(comparison.run)}{sure}: MCC {number(mcc.before)} before, {number(mcc.after)} "
        f"now, {where}."
    ]


def _share(share: float | None, interval: Interval | None) -> str:
    if share is None:
        return ""
    within = f"; 95 % interval {100 * interval.low:.0f} – {100 * interval.high:.0f} %" if interval else ""
    return f" ({percent(share, decimals=0)}{within})"


def render(evaluation: Evaluation) -> str:
    """Return the evaluation as one HTML page, which needs no other file, may load none, and runs no script."""
    return fill(
        "evaluation/page.html.j2",
        evaluation=evaluation,
        tables=list(tables(evaluation)),
        findings=findings(evaluation),
        notes=notes(evaluation),
    )
