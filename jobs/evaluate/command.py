"""The verb `evaluate`: how good the answers of a run are, judged by labels."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from jobs.console.hash_list_option import hash_list_option
from jobs.console.option_types import FiniteRange, WholeRange
from jobs.console.terminal import write_json, write_line

if TYPE_CHECKING:
    from reports.evaluation.results import Evaluation


@click.command()
@click.argument("run")
@click.option("--labels", required=True, metavar="FILE", help="Labels as Parquet or CSV, one row per picture.")
@click.option("--split", metavar="NAME", help="Use only the labels of this split, such as test.")
@click.option(
    "--compare",
    metavar="BEFORE",
    help="The run before, on the same pictures: what changed, and by how much. Gains of RUN are positive.",
)
@click.option(
    "--runs",
    multiple=True,
    metavar="RUN3",
    help="One more run on the same pictures, such as another wording; may be given several times. Gives mean and "
    "standard deviation over all.",
)
@click.option("--by", type=click.Choice(["class", "category"]), help="Also per class of the labels, or category.")
@click.option(
    "--threshold",
    type=FiniteRange(min=0, max=1),
    help="Take a picture as private from this prob_private on.",
)
@click.option(
    "--ambiguous",
    type=click.Choice(["absent", "present"]),
    default="absent",
    show_default=True,
    help="What an attribute's 0.5 counts as, in labels and answers.",
)
@click.option(
    "--draws",
    type=WholeRange(min=0, max=100_000),
    default=1000,
    show_default=True,
    help="Draws for the intervals of metrics that are no shares; 0 for none of these.",
)
@click.option("--seed", type=WholeRange(min=0, max=2**63 - 1), default=0, show_default=True)
@click.option(
    "--errors",
    type=WholeRange(min=0, max=60),
    default=0,
    show_default=True,
    help="Name so many wrong answers, those first of which the run was most sure; --html shows their pictures, blurred "
    "until held.",
)
@hash_list_option("is not among the errors")
@click.option(
    "--html",
    "html_path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write one self-contained page as well.",
)
@click.option("--format", "output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def evaluate(
    run: str,
    labels: str,
    split: str | None,
    compare: str | None,
    runs: tuple[str, ...],
    by: Literal["class", "category"] | None,
    threshold: float | None,
    ambiguous: Literal["absent", "present"],
    draws: int,
    seed: int,
    errors: int,
    hash_list: str | None,
    html_path: Path | None,
    output: str,
) -> None:
    """Judge the answers of RUN by labels: private or public, severity score, attributes.

    Labels are joined by sha256, else by key. A picture without an answer (quarantined, or unknown to the run) counts as
    answered wrong; a column shows the figures of the answered pictures alone. All intervals are 95 % intervals.
    """
    from jobs.evaluate.run import EvaluateRequest, run_evaluate
    from jobs.runtime.feedback import on_terminal
    from jobs.runtime.requests import refused_in_one_line

    with refused_in_one_line():
        request = EvaluateRequest(
            run_url=run,
            labels_url=labels,
            split=split,
            compare_url=compare,
            further_urls=runs,
            by=by,
            threshold=threshold,
            ambiguous=ambiguous,
            num_draws=draws,
            seed=seed,
            num_errors=errors,
            hash_list_url=hash_list,
        )
    feedback = on_terminal(quiet=True)
    evaluation = run_evaluate(request, feedback)
    if html_path is not None:
        from jobs.evaluate.errors import pictures_of
        from reports.evaluation.page.render import write_page

        write_page(evaluation, html_path, pictures_of(run, evaluation.errors, feedback))
    if output == "json":
        from reports.evaluation.results import as_json

        write_json(as_json(evaluation), indent=1)
        return
    _write_text(evaluation)
    if html_path is not None:
        write_line(f"page written to {html_path}")


def _write_text(evaluation: "Evaluation") -> None:
    from jobs.console.tables import write_table
    from reports.evaluation.findings import findings
    from reports.evaluation.tables import headlines, notes, tables

    for line in headlines(evaluation):
        write_line(line)
    write_line()
    for sentence in findings(evaluation):
        write_line(sentence)
    for table in tables(evaluation):
        write_line()
        write_line(table.title, nl=False)
        write_table(table.heads, table.rows, range(1, len(table.heads)))
    for note in notes(evaluation):
        write_line(note)
