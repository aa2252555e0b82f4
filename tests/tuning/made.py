"""What tests of tuning are made of: drawn pictures, their labels, training sets and recipes."""

from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from PIL import Image

from jobs.cli import main
from jobs.demo.tuning import signs
from jobs.demo.tuning.signs import drawn

BASE = Path(signs.__file__).parent / "base"
RECIPE = Path(signs.__file__).parent / "recipe.yaml"
MAX_PIXELS = signs.SIDE_PX**2


@dataclass(frozen=True)
class Pictures:
    folder: Path
    labels: Path


def privsieve(*args: object) -> int:
    """The exit code of a command."""
    with pytest.raises(SystemExit) as done:
        main([str(a) for a in args])
    assert isinstance(done.value.code, int)
    return done.value.code


def drawn_pictures(folder: Path, per_class: int, seed: int, grain: float = 0) -> Pictures:
    """As many private as public ones, labelled private or public."""
    folder.mkdir()
    for name, pixels in drawn(per_class, seed, grain):
        Image.fromarray(pixels).save(folder / name)
    labels = folder.with_name(f"{folder.name}.parquet")
    assert privsieve("labels", "import", "privbench", folder, "--out", labels, "--quiet") == 0
    return Pictures(folder, labels)


def make_set(out: Path, of: Pictures, *options: object) -> Path:
    assert privsieve("tune-set", of.folder, "--labels", of.labels, "--out", out, "--quiet", *options) == 0
    return out


def make_recipe(file: Path, **changes: object) -> Path:
    file.write_text(yaml.safe_dump(yaml.safe_load(RECIPE.read_text()) | changes))
    return file


def tune_command(training_set: Path, recipe: Path, out: Path) -> list[object]:
    command: list[object] = ["tune", training_set, "--model", BASE, "--recipe", recipe, "--out", out]
    return [*command, "--max-pixels", MAX_PIXELS, "--quiet"]


def scan_command(source: Path, run: Path, *options: object) -> list[object]:
    command: list[object] = ["scan", source, "--run", run, "--engine", "transformers", "--model", BASE, "--quiet"]
    return [*command, "--executor", "inline", *options]
