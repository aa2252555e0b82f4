"""The scripts about SemSim: people are asked whether they recognise changed pictures, and a head is trained on that."""

import json
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from tests.jobs.made import privsieve
from tests.making import Capture
from tests.papers.test_scripts import script
from tests.reviewing.made import Person, served
from tests.similarity.made import folder, png, scene

METHODS = ("noise=5", "blur=3", "downscale=3")


def test_people_say_which_halves_are_the_same_and_the_metrics_are_ranked_by_it(tmp_path: Path, capsys: Capture) -> None:
    originals, study = folder(tmp_path / "photos", 4), tmp_path / "study"
    script("change").main([str(originals), str(tmp_path / "changed"), *METHODS])
    changed = [str(tmp_path / "changed" / name) for name in METHODS]
    script("recognised").main(["ask", str(originals), str(study), *changed, "--decoys", "0.5"])
    lines = (study / "questions.csv").read_text().splitlines()
    questions = dict(line.split(",", 1) for line in lines[1:])
    num_decoys = sum(asked.endswith(",1") for asked in questions.values())
    assert len(questions) == 12
    assert 0 < num_decoys < 12
    assert Image.open(study / "pictures" / "000000.jpg").size == (2 * 320 + 24, 240)

    # Two look, and recognise everything but what only a few pixels are left of; a third says yes to everything.
    with served(study / "run", "true", judged="question", question="The same?") as server:
        people = [Person(server.address, name) for name in ("ana", "ben", "yes")]
        assert people[0].get("/api/state").json["question"] == "The same?"
        page = server.page.asking
        for person in people:
            while numbers := person.next():
                for number in numbers:
                    asked = questions[page.rows["key"][number].as_py()]
                    is_same = person.name == "yes" or (asked.endswith(",0") and not asked.startswith("downscale"))
                    answer = person.say(number, "yes" if is_same else "no")
                    assert answer.json == {"model": {}}, "the key is not shown: it may say which half is wrong"
        assert people[0].say(0, "private").status == 400
        assert server.page.next_commands() == ()
    capsys.readouterr()
    script("recognised").main(["votes", str(study), "--min-votes", "2", "--min-attention", "0.8"])
    said = capsys.readouterr().out.splitlines()
    assert said[:3] == [
        f"ana: right on {num_decoys} of {num_decoys} decoys",
        f"ben: right on {num_decoys} of {num_decoys} decoys",
        f"yes: right on 0 of {num_decoys} decoys",
    ]
    assert said[3] == f"{12 - num_decoys} pairs with 2 votes or more, 0 with fewer"
    votes = (study / "votes.csv").read_text()
    assert "yes" not in votes

    pairs = tmp_path / "pairs.parquet"
    assert privsieve("similarity", "compare", originals, *changed, "--part", "whole", "--out", pairs, "--quiet") == 0
    capsys.readouterr()
    script("rank_metrics").main([str(study / "votes.csv"), str(pairs)])
    said = capsys.readouterr().out.splitlines()
    assert [line.partition(":")[0] for line in said] == ["mse", "psnr", "ssim", "semsim"]
    assert said[3] == "semsim: Kendall's tau 0.816, Spearman's rho 0.866", "two of three sets are recognised"


def labelled(path: Path, numbers: range) -> Path:
    """Negatives count as recognised, a handful of blurred spots does not; and a file that is neither."""
    for name in ("scene", "-scene", "others"):
        (path / name).mkdir(parents=True)
    spots, strength = script("change").methods_of(["downscale=3"])["downscale=3"]
    for number in numbers:
        image = scene(number)
        few = Image.fromarray(spots.changed(strength, np.asarray(image), "", 0))
        (path / "scene" / f"{number}_scene_ori.png").write_bytes(png(image))
        (path / "scene" / f"{number}_scene_rec.png").write_bytes(png(ImageOps.invert(image)))
        (path / "-scene" / f"{number}_scene_rec.png").write_bytes(png(few))
    (path / "scene" / "notes_about.png").write_bytes(png(scene(0)))
    return path


def test_a_head_learns_that_negatives_are_recognised_and_serves_compare(tmp_path: Path, capsys: Capture) -> None:
    head = tmp_path / "head.safetensors"
    script("train_head").main([str(labelled(tmp_path / "labelled", range(20))), "--epochs", "40", "--out", str(head)])
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "18 triplets of 18 originals"
    assert said[2] == "in order: 1.000 of those of 2 held-back originals"

    originals, results = folder(tmp_path / "new", 6), []
    ways = ("invert=1", "downscale=3")
    script("change").main([str(originals), str(tmp_path / "changed"), *ways])
    compare = ("similarity", "compare", originals, *(tmp_path / "changed" / name for name in ways), "--part", "whole")
    for more in ([], ["--encoder", head]):
        assert privsieve(*compare, *more, "--format", "json", "--quiet") == 0
        results.append(json.loads(capsys.readouterr().out))
    frozen, trained = ([of_set["means"]["semsim"] for of_set in result["sets"]] for result in results)
    assert trained[1] - trained[0] > frozen[1] - frozen[0]
    assert trained[0] < 0.5 < trained[1]
    assert results[1]["encoder"].startswith("head head.safetensors (")


def test_triplets_take_own_unrecognised_versions_before_those_of_the_class_and_those_before_others() -> None:
    paths = ["dog/1_dog_ori", "dog/1_dog_rec", "dog/1_dog_rec-blur", "-dog/1_dog_rec", "dog/2_dog_ori", "dog/2_dog_rec"]
    paths += ["cat/3_cat_ori", "cat/3_cat_rec", "others/x", "dog/4_dog_ori", "dog/5_dog_rec", "dog/readme"]
    assert script("train_head").triplets_of(paths) == [
        [
            ("dog/1_dog_ori", "dog/1_dog_rec", ("-dog/1_dog_rec",)),
            ("dog/1_dog_ori", "dog/1_dog_rec-blur", ("-dog/1_dog_rec",)),
        ],
        [("dog/2_dog_ori", "dog/2_dog_rec", ("-dog/1_dog_rec",))],
        [("cat/3_cat_ori", "cat/3_cat_rec", ("others/x",))],
    ]
