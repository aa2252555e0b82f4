"""What does tuning bring: with more and more pictures, and for a class that no picture taught?

    python examples/papers/tuning.py curve PICTURES LABELS OTHERS OTHER-LABELS FOLDER --model MODEL --recipe privtune
    python examples/papers/tuning.py left-out PICTURES LABELS OTHERS OTHER-LABELS FOLDER --model MODEL --recipe privtune

Samson et al., "Privacy-Aware Visual Language Models": the amount of tuning data, and Table 4 (one class left out). The
untuned model and each tuned one scan OTHERS; no picture of OTHERS, nor a near duplicate, is tuned on. Of one seed, a
larger draw contains a smaller one. The same command continues what was interrupted.

The paper's Table 4 prints the MCC of all pictures next to the F1 of the class. The first can be high while the class is
missed altogether, so `left-out` gives MCC and F1 of the class as well, against as many public pictures.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

import privsieve
from scoring.engines.picture import DEFAULT_MAX_PIXELS
from scoring.labels.table import LabelsOrigin, read_labels, write_labels


@dataclass(frozen=True)
class Experiment:
    """What all models of an experiment share."""

    pictures: str
    labels: str
    others: str
    other_labels: str
    folder: Path
    options: privsieve.EngineOptions
    """Model and protocol; the adapter is that of each point."""

    recipe: str
    max_pixels: int
    """Width x height of pictures."""

    seed: int = 0

    def measured(self, name: str, adapter: Path | None = None) -> privsieve.Evaluation:
        """Scan the other pictures with the model, and judge the answers."""
        options = replace(self.options, adapter=None if adapter is None else str(adapter), max_pixels=self.max_pixels)
        run = self.folder / name / "run"
        privsieve.scan(self.others, run, engine="transformers", options=options)
        return privsieve.evaluate(run, self.other_labels)

    def draw(self, name: str, num_pictures: int | None = None, leave_out: Sequence[str] = ()) -> None:
        """Draw the training set of a point, without the pictures that the untuned model has scanned."""
        training_set = self.folder / name / "set"
        if not (training_set / "set.json").exists():
            labels = read_labels(self.labels)
            is_taught = pc.invert(pc.is_in(labels["class"], pa.array(leave_out, pa.string())))
            taught = self.folder / name / "labels.parquet"
            write_labels(labels.filter(is_taught), str(taught), LabelsOrigin("tuning.py"))
            privsieve.tune_set(
                self.pictures,
                taught,
                training_set,
                target="binary",
                num_pictures=num_pictures,
                validation_share=0.0,
                seed=self.seed,
                exclude=[self.folder / "untuned" / "run"],
            )

    def tuned(self, name: str) -> privsieve.Evaluation:
        """Tune on the set of a point, and measure the tuned model."""
        point = self.folder / name
        privsieve.tune(
            point / "set",
            str(self.options.model),
            point / "adapter",
            recipe=self.recipe,
            max_pixels=self.max_pixels,
            seed=self.seed,
        )
        return self.measured(name, point / "adapter")


def curve(experiment: Experiment, sizes: Sequence[int]) -> dict[int, privsieve.Evaluation]:
    """Return number of pictures -> evaluation; 0 is the untuned model."""
    found = {0: experiment.measured("untuned")}
    for size in sizes:
        experiment.draw(f"n{size}", num_pictures=size)  # all sets are drawn before the first tuning
    return found | {size: experiment.tuned(f"n{size}") for size in sizes}


def left_out(experiment: Experiment, classes: Sequence[str] = ()) -> dict[str, privsieve.Evaluation]:
    """Return class that no picture taught -> evaluation. classes: all private ones of the untuned model's evaluation by
    default. The untuned model has the name "untuned", the one tuned on all classes "none"."""
    untuned = experiment.measured("untuned")
    if not classes and untuned.private is not None:
        classes = [each.name for each in untuned.private.per_class]
    points = {"none": "all"} | {name: f"without-{number}" for number, name in enumerate(classes)}
    for name, point in points.items():
        experiment.draw(point, leave_out=() if name == "none" else (name,))
    return {"untuned": untuned} | {name: experiment.tuned(point) for name, point in points.items()}


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def show(name: str, evaluation: privsieve.Evaluation) -> None:
    """Print the figures of a point, and those of the class that it is named after."""
    private = evaluation.private
    if private is None:
        print(f"{name}: the labels judge nothing that the model answers")
        return
    line = f"{name}: MCC {_number(private.mcc)}, F1 {_number(private.f1)}, {private.num_rejected} without an answer"
    for each in private.per_class:
        if each.name == name:
            line += f"; of the class: recall {_number(each.recall)}, MCC {_number(each.mcc)}, F1 {_number(each.f1)}"
    print(line)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", choices=["curve", "left-out"])
    for name in ("pictures", "labels", "others", "other_labels"):
        parser.add_argument(name, metavar=name.upper().replace("_", "-"))
    parser.add_argument("folder", metavar="FOLDER", type=Path)
    parser.add_argument("--model", required=True)
    parser.add_argument("--recipe", required=True, help="a shipped name or a YAML file, as in privsieve tune fit")
    parser.add_argument("--protocol", default="binary:ours-1,first", help="of the scans; `first` always has an answer")
    parser.add_argument("--max-pixels", type=int, default=DEFAULT_MAX_PIXELS)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10, 50, 100, 320], help="pictures, for curve")
    parser.add_argument("--class", dest="classes", action="append", default=[], help="for left-out; repeatable")
    parser.add_argument("--seed", type=int, default=0, help="of draws and tunings; take a new FOLDER for another one")
    given = parser.parse_args(arguments)
    options = privsieve.EngineOptions(model=given.model, protocol=given.protocol)
    corpora = (given.pictures, given.labels, given.others, given.other_labels)
    experiment = Experiment(*corpora, given.folder, options, given.recipe, given.max_pixels, given.seed)
    try:
        if given.experiment == "curve":
            found = {f"{size} pictures": each for size, each in curve(experiment, given.sizes).items()}
        else:
            found = left_out(experiment, given.classes)
    except privsieve.PrivsieveError as error:
        sys.exit(f"tuning: {error}")
    for name, evaluation in found.items():
        show(name, evaluation)


if __name__ == "__main__":
    main()
