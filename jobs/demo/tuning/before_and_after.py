"""Prints how good the micro model is before and after tuning, and writes it down.

python -m jobs.demo.tuning.before_and_after RUN-BEFORE RUN-AFTER --labels FILE --out tune.json
"""

import json
from pathlib import Path

import click

from jobs.console.terminal import write_line
from reports.evaluation.compute import EvaluationOptions, evaluate_run
from scoring.labels.table import read_labels


@click.command(help=__doc__)
@click.argument("before")
@click.argument("after")
@click.option("--labels", required=True)
@click.option("--out", required=True, type=click.Path(dir_okay=False, path_type=Path))
def main(before: str, after: str, labels: str, out: Path) -> None:
    truth = read_labels(labels)
    results = {}
    for name, run in (("before", before), ("after", after)):
        private = evaluate_run(run, truth, EvaluationOptions(num_draws=0)).private
        assert private is not None
        results[name] = {"mcc": private.mcc, "num_rejected": private.num_rejected, "num_pictures": private.num_pictures}
        mcc = "undefined" if private.mcc is None else f"{private.mcc:.3f}"
        write_line(
            f"{name} tuning: MCC {mcc}, {private.num_rejected} of {private.num_pictures} pictures without an answer"
        )
    out.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
