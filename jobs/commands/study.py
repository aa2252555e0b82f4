"""`privsieve study …`: what tuning brings and costs, each figure measured through a scan."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

import click

from jobs.console.commands import Commands
from jobs.console.request_options import QUIET, TEXT_OR_JSON, Numbers, takes
from jobs.console.terminal import write_line, write_table, wrote_json
from jobs.runtime.cluster import command_session
from jobs.runtime.progress import Feedback, on_terminal, weights_shown
from jobs.studies.asking_again import Kind, PromptsRequest, ReasonsRequest, prompts_finding, run_prompts, run_reasons
from jobs.studies.counterfactual import CounterfactualRequest, counterfactual_finding, run_counterfactual
from jobs.studies.label_quality import LabelQualityRequest, label_quality_finding, run_label_quality
from jobs.studies.points import PointResult, StudyRequest
from jobs.studies.studies import (
    CostRequest,
    curve_finding,
    leave_one_out_finding,
    run_cost,
    run_curve,
    run_leave_one_out,
)
from reports.evaluation.words import interval_cell
from reports.statistics.paired import interval_of_mean
from reports.words import number, percent

Result = TypeVar("Result")


@click.group(cls=Commands)
def study() -> None:
    """Measure what tuning brings, on which classes, and what it costs."""


def _measured(study_of: Callable[[Feedback], Result], output: str, quiet: bool) -> Result | None:
    """Return the result of a study; None if it was written as JSON."""
    feedback = on_terminal(quiet)
    with command_session(), weights_shown(feedback):
        result = study_of(feedback)
    return None if wrote_json(result, output) else result


@study.command()
@takes(StudyRequest)
@TEXT_OR_JSON
@QUIET
@click.option("--sizes", type=Numbers(), default="0,10,50,100", show_default=True, help="Pictures; 0 is untuned.")
def curve(request: StudyRequest, sizes: tuple[int, ...], output: str, quiet: bool) -> None:
    """Tune on more and more pictures of SOURCE, and evaluate each model."""
    if (result := _measured(partial(run_curve, request, sizes), output, quiet)) is None:
        return
    write_line(curve_finding(result))
    _write_points(result.points)


@study.command(name="leave-one-class-out")
@takes(StudyRequest)
@TEXT_OR_JSON
@QUIET
@click.option(
    "--class", "classes", multiple=True, help="A class to leave out; repeatable. Every private one by default."
)
def leave_one_class_out(request: StudyRequest, classes: tuple[str, ...], output: str, quiet: bool) -> None:
    """Tune without one class of SOURCE at a time: is it still found?"""
    if (result := _measured(partial(run_leave_one_out, request, classes), output, quiet)) is None:
        return
    write_line(leave_one_out_finding(result))
    _write_points(result.points)

    rows = []
    for point in result.points:
        if point.left_out is not None:
            of_class = point.classes.get(point.left_out, {})
            figures = (point.mcc, of_class.get("recall"), of_class.get("mcc"), of_class.get("f1"))
            rows.append([point.left_out, str(point.seed), *map(number, figures)])
    write_line()
    write_table(["left out", "seed", "MCC of all", "recall of it", "MCC of it", "F1 of it"], rows, range(1, 6))


@study.command()
@takes(PromptsRequest)
@TEXT_OR_JSON
@QUIET
def prompts(request: PromptsRequest, output: str, quiet: bool) -> None:
    """Ask in each of the four wordings of the binary protocol: how much do the answers differ?

    With --prompt-file, in the four wordings of a file: ours_1 to ours_4.
    """
    _asked_in_words(request, "prompts", output, quiet)


@study.command()
@takes(PromptsRequest)
@TEXT_OR_JSON
@QUIET
def languages(request: PromptsRequest, output: str, quiet: bool) -> None:
    """Ask in English, German, Russian and Chinese: how much do the answers differ?"""
    _asked_in_words(request, "languages", output, quiet)


def _asked_in_words(request: PromptsRequest, kind: Kind, output: str, quiet: bool) -> None:
    if (result := _measured(partial(run_prompts, request, kind=kind), output, quiet)) is None:
        return
    write_line(prompts_finding(result))
    heads = ["figure", *(name.partition(":")[2] for name in result.wordings), "mean", "sd"]
    figures = [*result.spread.private.items(), *result.spread.score.items()]
    rows = list[list[str]]()
    for name, figure in figures:
        rows.append([name, *map(number, figure.values), number(figure.mean), number(figure.sd)])
        if any(name in intervals for intervals in result.intervals):
            rows.append(["95 %", *(interval_cell(intervals.get(name)) for intervals in result.intervals), "", ""])
    rows.append(["no answer", *(number(num, ",d") for num in result.num_rejected), "", ""])
    write_table(heads, rows, range(1, len(heads)))


@study.command()
@takes(CounterfactualRequest)
@TEXT_OR_JSON
@QUIET
def counterfactual(request: CounterfactualRequest, output: str, quiet: bool) -> None:
    """Ask about the most certain pictures of level 1 again, with all faces to be taken as anonymised.

    The pictures are copied to the folder of the study.
    """
    if (result := _measured(partial(run_counterfactual, request), output, quiet)) is None:
        return
    write_line(counterfactual_finding(result))
    write_line(f"{result.num_candidates:,} pictures are of level 1 in all runs; {result.num_asked:,} were asked about")
    heads = ["protocol", "figure", "pictures of", "number", "before", "after", "change", "95 %"]
    rows = [
        [
            each.protocol,
            each.figure,
            each.group or "all",
            f"{each.num_pictures:,}",
            *map(number, (each.before, each.after, each.change)),
            "–" if each.low is None else f"{number(each.low)} to {number(each.high)}",
        ]
        for each in result.changes
    ]
    write_table(heads, rows, range(3, len(heads)))


@study.command()
@takes(ReasonsRequest)
@TEXT_OR_JSON
@QUIET
def reasons(request: ReasonsRequest, output: str, quiet: bool) -> None:
    """Ask why private pictures of each group are private, and have the model's sentences summed up.

    The sentences are stored nowhere. Those with signs of text that is read in a picture are not sent: quotations,
    numbers, words with a capital that may be names.
    """
    if (result := _measured(partial(run_reasons, request), output, quiet)) is None:
        return
    for each in result.groups:
        write_line(
            f"{each.group}: {each.num_drawn:,} private pictures, {each.num_sentences:,} sentences summed up; not sent, "
            f"since they may repeat text: {each.num_left_out:,}; pictures without a sentence: {each.num_without:,}"
            + (f"; withheld by the list of hashes: {each.num_withheld:,}" if each.num_withheld else "")
        )
        if each.num_sentences:
            write_line(
                f"  {result.digest_model}: {each.summary or '(not shown, since it may repeat text of a picture)'}"
            )


@study.command(name="label-quality")
@takes(LabelQualityRequest)
@TEXT_OR_JSON
def label_quality(request: LabelQualityRequest, output: str) -> None:
    """Draw labelled pictures for people to label again; then, with --answers, say how right the labels are.

    Right is what at least three people, and more than half of those who judged a picture, say of it.
    """
    result = run_label_quality(request)
    if wrote_json(result, output):
        return
    write_line(label_quality_finding(result))
    if not result.reviewers:
        write_line(f"next: privsieve labels export {request.out} --format label-studio --out tasks.json")
        return
    write_line(
        f"wrong: {result.num_private_wrong} labelled private, {result.num_public_wrong} labelled public; of "
        f"{result.num_drawn - result.num_judged} drawn pictures too few people say the same"
    )
    ends = result.fleiss_interval
    interval = "" if ends is None else f" (95 %: {number(ends.low)} to {number(ends.high)})"
    write_line(f"Fleiss' kappa of {len(result.reviewers)} people: {number(result.fleiss)}{interval}")


@study.command()
@takes(CostRequest)
@TEXT_OR_JSON
def cost(request: CostRequest, output: str) -> None:
    """How far ADAPTER moves the model's next word on pictures that have nothing to do with privacy.

    With --benchmark also how many of its questions are answered right before and after tuning.
    """
    if (result := _measured(lambda _: run_cost(request), output, quiet=False)) is None:
        return
    write_line(
        f"{result.num_pictures} pictures ({result.num_undecodable} more are missing or cannot be decoded), "
        f"{result.num_questions} questions: the next word's distribution moved by "
        f"{result.mean_kl:.4f} nats on average ({result.p95_kl:.4f} at the 95th percentile); the most probable word is "
        f"the same for {percent(result.same_first_token)}"
    )
    if result.accuracy_before is not None and result.accuracy_after is not None:
        change = result.accuracy_after - result.accuracy_before
        low, high = interval_of_mean(result.num_questions, change, result.change_deviation or 0.0)
        write_line(
            f"right answers: {percent(result.accuracy_before)} before tuning, {percent(result.accuracy_after)} after "
            f"it; change {number(100 * change, '+.1f')} points (95 %: {number(100 * low, '+.1f')} to "
            f"{number(100 * high, '+.1f')})"
        )
        return
    write_line("this says that the model has changed, not that it has become worse")


def _write_points(points: Sequence[PointResult]) -> None:
    names = {
        "mcc": "MCC",
        "f1": "F1",
        "recall": "recall",
        "specificity": "specificity",
        "spearman": "Spearman",
        "mae": "MAE",
        "macro_f1": "macro F1",
    }
    used = [name for name in names if any(getattr(point, name) is not None for point in points)]
    heads = ["point", "pictures", *(names[name] for name in used), "no answer"]
    rows = [
        [
            point.name,
            str(point.num_pictures),
            *(number(getattr(point, name)) for name in used),
            number(point.num_rejected, "d"),
        ]
        for point in points
    ]
    write_table(heads, rows, range(1, len(heads)))
    for point in points:
        for caution in point.cautions:
            write_line(f"{point.name}: caution: {caution}")
