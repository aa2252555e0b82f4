"""How well the detectors agree with hand labels, and what they cost.

    python -m benchmarks.detectors MANIFEST.csv [--errors]

The manifest has a row per picture: `file` (relative to the manifest), the 22 attributes with 0 / 0.5 / 1
and `cprt_level`. A label of 0.5 counts as absent; predictions are read twice: 1 only, and 0.5 as well.
"""

import csv
import math
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt

from ingest.images.decode import DecodedImage, decode
from ingest.images.pixels import ImageLimits
from scoring.assessment import Assessment, EngineOptions, Unscored, Values, View, not_assessed, worst
from scoring.engines import detectors
from scoring.taxonomy import ATTRIBUTES, KEYS

TEXT = ("contact_details", "full_legal_name", "non_unique_id", "medical_data", "financial_data", "gov_ids")
PRIVATE = [index for index, attribute in enumerate(ATTRIBUTES) if attribute.level in (1, 2)]
Row = dict[str, str]
Flags = npt.NDArray[np.bool_]


class Stopwatch:
    """Sums the time of named calls, in seconds."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    def timed(self, name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any) -> Any:
            start = time.perf_counter()
            try:
                return call(*arguments)
            finally:
                self.seconds[name] += time.perf_counter() - start

        return wrapped


def predict(rows: list[Row], folder: Path, watch: Stopwatch) -> list[Assessment]:
    engine = detectors.load(EngineOptions())
    for name, model, method in (
        ("faces", engine.faces, "find"),
        ("text", engine.text, "read"),
        ("barcodes", engine.barcodes, "read"),
        ("nudity", engine.nudity, "score"),
    ):
        setattr(model, method, watch.timed(name, getattr(model, method)))
    assess = watch.timed("all stages", engine.assess)
    decoded_in_time = watch.timed("decode", decode)
    limits = ImageLimits(max_side_px=detectors.describe(EngineOptions()).max_side_px)
    found = []
    for row in rows:
        decoded = decoded_in_time((folder / row["file"]).read_bytes(), limits)
        found.append(_assessment(decoded, assess))
    return found


def _assessment(decoded: Any, assess: Callable[..., Any]) -> Assessment:
    if not isinstance(decoded, DecodedImage):
        return Assessment(not_assessed(), (decoded.reason,))
    outcome = worst(assess([View(view, decoded.metadata, "") for view in decoded.views]))
    return Assessment(not_assessed(), (outcome.message,)) if isinstance(outcome, Unscored) else outcome


def labels(row: Row) -> Values:
    return np.array([float(row[key]) for key in KEYS], dtype=np.float32)


def rates(truth: Flags, predicted: Flags) -> str:
    """truth, predicted: bool, same shape."""
    tp, fp = int((truth & predicted).sum()), int((~truth & predicted).sum())
    fn, tn = int((truth & ~predicted).sum()), int((~truth & ~predicted).sum())
    spread = math.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
    recall, precision = tp / max(1, tp + fn), tp / max(1, tp + fp)
    mcc = (tp * tn - fp * fn) / spread if spread else 0.0
    return f"recall {recall:.2f}  precision {precision:.2f}  MCC {mcc:.2f}  (TP {tp} FP {fp} FN {fn} TN {tn})"


def report(rows: list[Row], found: list[Assessment]) -> str:
    truth = np.stack([labels(row) for row in rows]) == 1
    values = np.stack([assessment.values for assessment in found])
    private = np.array([row["cprt_level"] in ("1", "2") for row in rows])
    lines = [f"{len(rows)} pictures, {int(private.sum())} private"]
    for name, bound in (("0.5 counted as 1", 0.5), ("1 only", 1.0)):
        predicted = np.nan_to_num(values) >= bound
        of_text = [KEYS.index(key) for key in TEXT]
        lines.append(f"private, {name:17} {rates(private, np.asarray(predicted[:, PRIVATE].any(axis=1)))}")
        lines.append(f"text, {name:20} {rates(truth[:, of_text], predicted[:, of_text])}")
    lines.append(f"{'':24}   1 only: TP FP FN    0.5 too: TP FP FN   null")
    for index, key in enumerate(KEYS):
        counts = [_counts(truth[:, index], np.nan_to_num(values[:, index]) >= bound) for bound in (1.0, 0.5)]
        lines.append(f"{key:24} {counts[0]:>20} {counts[1]:>20} {int(np.isnan(values[:, index]).sum()):6}")
    return "\n".join(lines)


def _counts(truth: Flags, predicted: Flags) -> str:
    cells = (truth & predicted, ~truth & predicted, truth & ~predicted)
    return " ".join(str(int(cell.sum())) for cell in cells)


def errors(rows: list[Row], found: list[Assessment]) -> str:
    """Per picture what was missed (-), too much (+), each with the answer, and the kinds of evidence."""
    lines = []
    for row, assessment in zip(rows, found, strict=True):
        result = []
        for key, label, value in zip(KEYS, labels(row), assessment.values, strict=True):
            given = float(np.nan_to_num(value))
            if (label == 1) != (given == 1) and (label != given) and not np.isnan(value):
                result.append(f"{'-' if label > given else '+'}{key} {label:g}->{value:g}")
        lines.append(f"{row['file']}: {', '.join(result)}\n      {'; '.join(assessment.evidence)}")
    return "\n".join(lines)


@click.command()
@click.argument("manifest", type=click.Path(exists=True, path_type=Path))
@click.option("--errors", "show_errors", is_flag=True, help="Show each picture's errors and evidence.")
def main(manifest: Path, show_errors: bool) -> None:
    with manifest.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    watch = Stopwatch()
    found = predict(rows, manifest.parent, watch)
    if show_errors:
        click.echo(errors(rows, found))
    click.echo(report(rows, found))
    click.echo("  ".join(f"{name} {1000 * spent / len(rows):.0f} ms" for name, spent in watch.seconds.items()))


if __name__ == "__main__":
    main()
