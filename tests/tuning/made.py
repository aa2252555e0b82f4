"""What tests of tuning are made of: drawn pictures, their labels, training sets and recipes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from PIL import Image

from examples import signs
from examples.signs import CLASSES, drawn
from scoring.labels.table import LabelsOrigin, read_labels, to_labels, write_labels
from scoring.taxonomy import KEYS
from tests.jobs.made import privsieve

DEMO = Path(__file__).parents[2] / "jobs" / "demo"
BASE = DEMO / "tuning" / "base"
RECIPE = DEMO / "tuning" / "recipe.yaml"
MAX_PIXELS = signs.SIDE_PX**2


@dataclass(frozen=True)
class Pictures:
    folder: Path
    labels: Path


def drawn_pictures(folder: Path, per_class: int, seed: int, grain: float = 0) -> Pictures:
    """As many private as public ones, labelled private or public."""
    folder.mkdir()
    for name, pixels in drawn(per_class, seed, grain):
        Image.fromarray(pixels).save(folder / name)
    labels = folder.with_name(f"{folder.name}.parquet")
    assert privsieve("labels", "import", "privbench", folder, "--out", labels, "--quiet") == 0
    return Pictures(folder, labels)


def make_set(out: Path, of: Pictures, *options: object) -> Path:
    assert privsieve("tune", "set", of.folder, "--labels", of.labels, "--out", out, "--quiet", *options) == 0
    return out


def make_recipe(file: Path, **changes: object) -> Path:
    file.write_text(yaml.safe_dump(yaml.safe_load(RECIPE.read_text()) | changes))
    return file


def tune_command(training_set: Path, recipe: Path, out: Path | str) -> list[object]:
    command: list[object] = ["tune", "fit", training_set, "--model", BASE, "--recipe", recipe, "--out", out]
    return [*command, "--max-pixels", MAX_PIXELS, "--quiet"]


def scan_command(source: Path, run: Path, *options: object) -> list[object]:
    command: list[object] = ["scan", source, "--run", run, "--engine", "transformers", "--model", BASE, "--quiet"]
    return [*command, "--executor", "inline", *options]


def planted(signs: Pictures, folder: Path) -> Pictures:
    """The same pictures; attribute i is present in three of the sixteen classes."""
    rows = read_labels(str(signs.labels)).select(["sha256", "key", "class"]).to_pylist()
    names = [str(row["class"]) for row in rows]
    # Pictures of the public classes are all called public, in the order of the classes.
    order = {
        row["key"]: int(str(row["key"]).partition("_")[2].partition(".")[0]) for row in rows if row["class"] == "public"
    }
    number = [
        CLASSES.index(name) if name in CLASSES else 8 + order[row["key"]] % 8
        for name, row in zip(names, rows, strict=True)
    ]
    columns: dict[str, list[Any]] = {
        key: [float(one in (at % 16, (5 * at + 3) % 16, (7 * at + 1) % 16)) for one in number]
        for at, key in enumerate(KEYS)
    }
    columns |= {"sha256": [row["sha256"] for row in rows], "annotator": ["planted"] * len(rows)}
    file = folder / f"{signs.folder.name}-attributes.parquet"
    write_labels(to_labels(columns, len(rows)), str(file), LabelsOrigin("planted"))
    return Pictures(signs.folder, file)
