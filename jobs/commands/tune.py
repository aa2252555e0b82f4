"""`privsieve tune SET --model M --out ADAPTER --recipe R`: a LoRA adapter that `scan --adapter` loads."""

from typing import TYPE_CHECKING

import click

from ingest.storage.web import named
from jobs.console.request_options import QUIET, takes
from jobs.console.terminal import write_line
from jobs.runtime.cluster import command_session
from jobs.runtime.progress import on_terminal
from scoring.engines.vlm.adapter import (
    Card,
    scan_command,
)

if TYPE_CHECKING:
    pass
from jobs.tuning.tuning import TuneRequest, run_tune


@click.command()
@takes(TuneRequest)
@QUIET
def tune(request: TuneRequest, quiet: bool) -> None:
    """Tune MODEL on a training set of tune-set.

    The same command continues a killed run at its last checkpoint, and ends with the same weights.
    """
    with command_session():
        card = run_tune(request, on_terminal(quiet))
    for line in _lines(card, request.model, request.out):
        write_line(line)


def _lines(card: Card, model: str, out: str) -> list[str]:
    held_back = "none were held back"
    if card.validation_accuracy is not None:
        held_back = f"{card.validation_accuracy:.3f} of the held-back ones"
    return [
        *(f"caution: {caution}" for caution in card.cautions),
        f"{card.num_steps} steps in {card.seconds:.0f} s on {card.device}; {card.num_parameters:,} parameters",
        f"right answers, by the trainer: {card.train_accuracy:.3f} of the training pictures, {held_back}",
        f"saved and loaded again, probabilities differ by at most {card.max_probability_difference:.1e}",
        f"next: {scan_command(named(model), out)}",
    ]
