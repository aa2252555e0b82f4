"""What an evaluation found, in sentences: they come before any table."""

from reports.evaluation.results import Comparison, Evaluation, PrivateResult
from reports.statistics.intervals import Interval
from reports.words import shortened


def findings(evaluation: Evaluation) -> tuple[str, ...]:
    """One sentence each; none where neither the run nor the labels say what they would need."""
    sentences = []
    if evaluation.private:
        sentences += _of_private(evaluation.private)
    if evaluation.score and evaluation.score.mae is not None:
        off = evaluation.score.bias or 0
        side = "neither too high nor too low" if abs(off) < 0.005 else f"on average too {'high' if off > 0 else 'low'}"
        sentences.append(f"Its severity score is off by {evaluation.score.mae:.2f} on average, {side}.")
    if evaluation.comparison:
        sentences += _of_comparison(evaluation.comparison)
    return tuple(sentences)


def _of_private(private: PrivateResult) -> list[str]:
    num_private = private.num_true_positive + private.num_false_negative
    num_public = private.num_true_negative + private.num_false_positive
    sentences = []
    if num_private:
        sentences.append(
            f"Of {_pictures(num_private, 'private')} the run finds {private.num_true_positive:,}"
            f"{_percent(private.recall, private.intervals.get('recall'))}."
        )
    if num_public:
        sentences.append(
            f"Of {_pictures(num_public, 'public')} it calls {private.num_true_negative:,} public"
            f"{_percent(private.specificity, private.intervals.get('specificity'))}."
        )
    if private.num_rejected:
        one = private.num_rejected == 1
        sentences.append(
            f"{_pictures(private.num_rejected, '')} without an answer {'is' if one else 'are'} counted as wrong."
        )
    return sentences


def _of_comparison(comparison: Comparison) -> list[str]:
    mcc = comparison.private.get("mcc")
    if mcc is None or mcc.difference is None or mcc.before is None or mcc.after is None:
        return []
    where = f"on the {_pictures(comparison.num_pictures, '')} of both runs"
    if mcc.interval is None:
        sure = ""
    elif mcc.interval.low > 0 or mcc.interval.high < 0:
        sure = ", more than chance explains"
    else:
        sure = ", which may be chance"
    way = "better" if mcc.difference > 0 else "worse" if mcc.difference < 0 else "neither better nor worse"
    return [
        f"It is {way} than {shortened(comparison.run)}{sure}: MCC {_number(mcc.before)} before, {_number(mcc.after)} "
        f"now, {where}."
    ]


def _pictures(num: int, which: str) -> str:
    return f"{num:,} {f'{which} ' if which else ''}picture{'' if num == 1 else 's'}"


def _percent(share: float | None, interval: Interval | None) -> str:
    if share is None:
        return ""
    within = f"; 95 % interval {100 * interval.low:.0f} – {100 * interval.high:.0f} %" if interval else ""
    return f" ({100 * share:.0f} %{within})"


def _number(value: float) -> str:
    return f"{value:.3f}".replace("-", "−")
