"""`privsieve tune SET --model M --out ADAPTER --recipe R`: a LoRA adapter that `scan --adapter` loads."""

import click

from ingest.storage.web import named
from jobs.console.option_types import WholeRange
from jobs.console.terminal import write_line
from jobs.runtime.feedback import on_terminal
from jobs.runtime.last_word import command_session
from jobs.tune.run import TuneRequest, run_tune
from scoring.tuning.card import Card, scan_command
from scoring.tuning.recipe import SHIPPED


@click.command()
@click.argument("training_set", metavar="SET")
@click.option("--model", required=True, help="A folder, a hub name such as owner/name, or a URL.")
@click.option(
    "--out",
    required=True,
    help="Folder or URL of the adapter: a new one, or that of a killed run to continue. With several machines, a "
    "folder that all of them share.",
)
@click.option(
    "--recipe", required=True, help=f"Hyper-parameters: {', '.join(SHIPPED)}, or a YAML file (privsieve help tuning)."
)
@click.option(
    "--max-pixels",
    type=WholeRange(min=1),
    default=TuneRequest.max_pixels,
    show_default=True,
    help="Width x height to which pictures are downscaled, as in scan.",
)
@click.option("--seed", type=WholeRange(min=0, max=2**32 - 1), default=0, show_default=True)
@click.option(
    "--micro-batch-size",
    type=WholeRange(min=1),
    default=TuneRequest.micro_batch_size,
    show_default=True,
    help="Pictures at once on a device; the recipe's batch is made of several.",
)
@click.option(
    "--steps-per-checkpoint",
    type=WholeRange(min=1),
    help="After how many steps a killed run can continue; else ten times in a run, and at least every 100 steps.",
)
@click.option(
    "--num-gpus",
    "num_processes",
    type=WholeRange(min=1),
    default=TuneRequest.num_processes,
    show_default=True,
    help="GPUs that share the work, on Ray; processes if the cluster has no GPU.",
)
@click.option("--ray-address", help="Ray cluster, as of scan.")
@click.option("--keep-checkpoints", is_flag=True, help="Keep the checkpoints when the adapter is done.")
@click.option("--quiet", is_flag=True, help="No progress.")
def tune(
    training_set: str,
    model: str,
    out: str,
    recipe: str,
    max_pixels: int,
    seed: int,
    micro_batch_size: int,
    steps_per_checkpoint: int | None,
    num_processes: int,
    ray_address: str | None,
    keep_checkpoints: bool,
    quiet: bool,
) -> None:
    """Tune MODEL on a training set of tune-set.

    The same command continues a killed run at its last checkpoint, and ends with the same weights.
    """
    request = TuneRequest(
        training_set=training_set,
        model=model,
        out=out,
        recipe=recipe,
        max_pixels=max_pixels,
        seed=seed,
        micro_batch_size=micro_batch_size,
        steps_per_checkpoint=steps_per_checkpoint,
        num_processes=num_processes,
        ray_address=ray_address,
        keep_checkpoints=keep_checkpoints,
    )
    with command_session():
        card = run_tune(request, on_terminal(quiet))
    for line in _lines(card, model, out):
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
