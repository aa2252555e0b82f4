"""examples/papers/tuning.py with the micro model and drawn signs."""

from pathlib import Path

from examples.signs import UNMARKED
from tests.making import Capture
from tests.papers.test_scripts import script
from tests.tuning.made import BASE, MAX_PIXELS, drawn_pictures, make_recipe


def test_the_class_that_lacks_the_mark_of_the_others_is_missed_unless_it_was_taught(
    tmp_path: Path, capsys: Capture
) -> None:
    pictures, others = drawn_pictures(tmp_path / "tuning", 9, 1), drawn_pictures(tmp_path / "others", 5, 2)
    corpora = [pictures.folder, pictures.labels, others.folder, others.labels, tmp_path / "out"]
    model = ["--model", BASE, "--recipe", make_recipe(tmp_path / "recipe.yaml", epochs=10), "--max-pixels", MAX_PIXELS]
    tuning = script("tuning")
    tuning.main([str(each) for each in ["left-out", *corpora, *model, "--class", UNMARKED]])
    capsys.readouterr()
    found = [part for part in (tmp_path / "out").iterdir() if part.is_dir()]
    assert {part.name for part in found} == {"untuned", "all", "without-0"}
    tuning.main([str(each) for each in ["left-out", *corpora, *model, "--class", UNMARKED]])
    untuned, taught, missed = capsys.readouterr().out.splitlines()[-3:]
    assert float(untuned.split("MCC ")[1][:5]) <= 0.5
    assert float(taught.split("MCC ")[1][:5]) >= 0.9
    assert float(missed.split("recall ")[1][:5]) <= 0.1
    assert float(missed.split("MCC ")[1][:5]) > 0.7, "the MCC of all hides that a whole class is missed"
