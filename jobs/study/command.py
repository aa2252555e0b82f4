"""`privsieve study …`: what tuning brings and costs, each figure measured through a scan."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from jobs.console.option_types import Numbers, WholeRange
from jobs.console.study_options import study_options, study_request_from_context
from jobs.console.terminal import write_json, write_line
from jobs.runtime.feedback import on_terminal
from jobs.runtime.last_word import command_session
from jobs.runtime.weights_progress import weights_shown

if TYPE_CHECKING:
    from jobs.study.points import PointResult


@click.group()
def study() -> None:
    """Measure what tuning brings, on which classes, and what it costs."""


FORMAT = click.option("--format", "output", type=click.Choice(["text", "json"]), default="text", show_default=True)
QUIET = click.option("--quiet", is_flag=True, help="No progress.")
MODEL = click.option("--model", required=True, help="A folder, a hub name such as owner/name, or a URL.")
MAX_PIXELS = click.option("--max-pixels", type=WholeRange(min=28 * 28), help="Width x height of pictures, as in scan.")
OUT = click.option("--out", required=True, help="Folder of the study; continued if it exists.")


@study.command()
@study_options
@FORMAT
@QUIET
@click.option("--sizes", type=Numbers(), default="0,10,50,100", show_default=True, help="Pictures; 0 is untuned.")
def curve(sizes: tuple[int, ...], output: str, quiet: bool) -> None:
    """Tune on more and more pictures of SOURCE, and evaluate each model."""
    from jobs.study.curve import run_curve

    with command_session(), weights_shown(on_terminal(quiet)):
        result = run_curve(study_request_from_context(), sizes, on_terminal(quiet))
    if output == "json":
        write_json(asdict(result), indent=1)
        return
    from jobs.study.findings import of_curve

    write_line(of_curve(result))
    _write_points(result.points)


@study.command(name="leave-one-class-out")
@study_options
@FORMAT
@QUIET
@click.option(
    "--class", "classes", multiple=True, help="A class to leave out; repeatable. Every private one by default."
)
def leave_one_class_out(classes: tuple[str, ...], output: str, quiet: bool) -> None:
    """Tune without one class of SOURCE at a time: is it still found?"""
    from jobs.study.leave_one_out import run_leave_one_out

    with command_session(), weights_shown(on_terminal(quiet)):
        result = run_leave_one_out(study_request_from_context(), classes, on_terminal(quiet))
    if output == "json":
        write_json(asdict(result), indent=1)
        return
    from jobs.console.tables import write_table
    from jobs.study.findings import of_leave_one_out

    write_line(of_leave_one_out(result))
    _write_points(result.points)

    rows = []
    for point in result.points:
        if point.left_out is not None:
            of_class = point.classes.get(point.left_out, {})
            figures = (point.mcc, of_class.get("recall"), of_class.get("mcc"), of_class.get("f1"))
            rows.append([point.left_out, str(point.seed), *map(_shown, figures)])
    write_line()
    write_table(["left out", "seed", "MCC of all", "recall of it", "MCC of it", "F1 of it"], rows, range(1, 6))


@study.command()
@click.argument("source")
@click.option("--labels", required=True, help="Labels of SOURCE.")
@MODEL
@click.option("--adapter", help="Folder of a tuned adapter.")
@click.option("--reading", type=click.Choice(["lenient", "first"]), help="How answers are read; strictly by default.")
@click.option(
    "--exclude", "evaluation", multiple=True, metavar="RUN|LABELS", help="An evaluation set; SOURCE must share nothing."
)
@MAX_PIXELS
@OUT
@FORMAT
@QUIET
def prompts(
    source: str,
    labels: str,
    model: str,
    adapter: str | None,
    reading: str | None,
    evaluation: tuple[str, ...],
    max_pixels: int | None,
    out: str,
    output: str,
    quiet: bool,
) -> None:
    """Ask in each of the four wordings of the binary protocol: how much do the answers differ?"""
    from jobs.study.prompts import PromptsRequest, run_prompts

    request = PromptsRequest(out, source, labels, model, adapter, reading, max_pixels, evaluation)
    with command_session(), weights_shown(on_terminal(quiet)):
        result = run_prompts(request, on_terminal(quiet))
    if output == "json":
        write_json(asdict(result), indent=1)
        return
    from jobs.console.tables import write_table
    from jobs.study.findings import of_prompts

    write_line(of_prompts(result))
    heads = ["figure", *(name.partition(":")[2] for name in result.wordings), "mean", "sd"]
    figures = [*result.spread.private.items(), *result.spread.score.items()]
    rows = [[name, *map(_shown, one.values), _shown(one.mean), _shown(one.sd)] for name, one in figures]
    write_table(heads, rows, range(1, len(heads)))


@study.command()
@click.argument("adapter")
@MODEL
@click.option("--pictures", required=True, help="Corpus of neutral pictures, unlike those of the tuning.")
@click.option("--n", "num_pictures", type=WholeRange(min=1), default=200, show_default=True)
@click.option("--seed", type=WholeRange(min=0), default=0, show_default=True, help="Of the draw of pictures.")
@MAX_PIXELS
@FORMAT
def cost(
    adapter: str, model: str, pictures: str, num_pictures: int, seed: int, max_pixels: int | None, output: str
) -> None:
    """How far ADAPTER moves the model's next word on pictures that have nothing to do with privacy."""
    from jobs.study.cost import CostRequest, run_cost

    with command_session(), weights_shown(on_terminal(quiet=False)):
        result = run_cost(CostRequest(adapter, model, pictures, num_pictures, seed, max_pixels))
    if output == "json":
        write_json(asdict(result), indent=1)
        return
    write_line(
        f"{result.num_pictures} pictures ({result.num_undecodable} more cannot be decoded), "
        f"{result.num_questions} questions: the next word's distribution moved by "
        f"{result.mean_kl:.4f} nats on average ({result.p95_kl:.4f} at the 95th percentile); the most probable word is "
        f"the same for {result.same_first_token:.1%}"
    )
    write_line("this says that the model has changed, not that it has become worse")


def _write_points(points: "Sequence[PointResult]") -> None:
    from jobs.console.tables import write_table

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
            *(_shown(getattr(point, name)) for name in used),
            "–" if point.num_rejected is None else str(point.num_rejected),
        ]
        for point in points
    ]
    write_table(heads, rows, range(1, len(heads)))
    for point in points:
        for caution in point.cautions:
            write_line(f"{point.name}: caution: {caution}")


def _shown(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"
