"""`privsieve similarity train`: labelled folders become an encoder that compare takes. Runs with torch."""

import json
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageOps

from ingest.errors import IncompleteError
from jobs.similarity.changing import methods_of
from scoring.similarity.triplets import Triplets
from tests.jobs.made import privsieve
from tests.similarity.made import SIZE, folder, png, scene


def labelled(path: Path, numbers: range) -> Path:
    """Negatives count as recognised, a handful of blurred spots does not; and a file that is neither."""
    for name in ("scene", "-scene", "others"):
        (path / name).mkdir(parents=True)
    spots = methods_of(["downscale=3"])[0]
    for number in numbers:
        image = scene(number)
        few = Image.fromarray(spots.of(np.asarray(image), "", 0))
        (path / "scene" / f"{number}_scene_ori.png").write_bytes(png(image))
        (path / "scene" / f"{number}_scene_rec.png").write_bytes(png(ImageOps.invert(image)))
        (path / "-scene" / f"{number}_scene_rec.png").write_bytes(png(few))
    (path / "others" / "grey.png").write_bytes(png(Image.new("RGB", SIZE, "grey")))
    (path / "scene" / "notes_about.png").write_bytes(png(scene(0)))
    return path


@pytest.mark.vllm
def test_a_head_learns_that_negatives_are_recognised_and_serves_compare(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders, encoder = labelled(tmp_path / "labelled", range(20)), tmp_path / "encoder.safetensors"
    train = ("similarity", "train", folders, "--epochs", 40, "--quiet", "--out")
    assert privsieve(*train, encoder) == 0
    text = capsys.readouterr().out
    assert "18 triplets of 18 originals, head" in text
    assert "not used: 2 files" in text
    assert "in order: 1.000 of those of 2 held-back originals" in text

    originals, results = folder(tmp_path / "new", 6), []
    compare = (
        "similarity",
        "compare",
        originals,
        "--method",
        "invert=1",
        "--method",
        "downscale=3",
        "--format",
        "json",
    )
    for more in ([], ["--encoder", encoder]):
        assert privsieve(*compare, *more, "--quiet") == 0
        results.append(json.loads(capsys.readouterr().out))
    frozen, trained = ([of_set["means"]["semsim"] for of_set in result["sets"]] for result in results)
    assert trained[1] - trained[0] > frozen[1] - frozen[0]
    assert trained[0] < 0.5 < trained[1]
    assert results[1]["encoder"].startswith("encoder.safetensors, head (")

    assert privsieve(*train, tmp_path / "again.safetensors") == 0
    assert (tmp_path / "again.safetensors").read_bytes() == encoder.read_bytes()
    assert privsieve(*train, encoder) == 2
    assert "already exists" in capsys.readouterr().err


@pytest.mark.vllm
def test_a_whole_network_is_trained_written_and_loaded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders, encoder = labelled(tmp_path / "labelled", range(6)), tmp_path / "encoder.safetensors"
    settings = ["--network", "resnet18", "--side-px", 16, "--epochs", 2, "--batch-size", 4, "--held-back", 0]
    settings += ["--learning-rate", 0.01]
    assert privsieve("similarity", "train", folders, *settings, "--quiet", "--out", encoder) == 0
    text = capsys.readouterr().out
    assert "6 triplets of 6 originals, resnet18" in text
    assert "held-back" not in text
    compare = ("similarity", "compare", folder(tmp_path / "new", 3), "--method", "noise=5", "--encoder", encoder)
    assert privsieve(*compare, "--format", "json", "--quiet") == 0
    assert 0 < json.loads(capsys.readouterr().out)["sets"][0]["means"]["semsim"] < 2


@pytest.mark.vllm
def test_a_loss_that_is_no_number_ends_the_training_in_one_line() -> None:
    from scoring.similarity.networks import TripletTraining, train

    inputs = np.full((3, 1024), np.nan, np.float32)
    with pytest.raises(IncompleteError, match="the loss is no number in epoch 1"):
        train(TripletTraining("head", 1.0, 0.1, 8, 2, 0), inputs, [Triplets(0, 1, (2,))], [], lambda epoch: None)


@pytest.mark.vllm
def test_other_safetensors_are_no_encoder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from safetensors.numpy import save

    other = tmp_path / "other.safetensors"
    other.write_bytes(save({"weight": np.zeros((2, 2), np.float32)}))
    compare = ("similarity", "compare", folder(tmp_path / "new", 2), "--method", "noise=5", "--encoder", other)
    assert privsieve(*compare, "--quiet") == 2
    assert "is no encoder that similarity train wrote" in capsys.readouterr().err


def test_folders_without_both_kinds_of_versions_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch")
    pictures = folder(tmp_path / "pictures", 2)
    assert privsieve("similarity", "train", pictures, "--out", tmp_path / "e.safetensors", "--quiet") == 2
    assert "no original has versions of both kinds" in capsys.readouterr().err


@pytest.mark.skipif(find_spec("torch") is not None, reason="torch is installed")
def test_without_torch_the_line_says_what_to_install(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pictures = labelled(tmp_path / "labelled", range(1))
    assert privsieve("similarity", "train", pictures, "--out", tmp_path / "e.safetensors", "--quiet") == 2
    error = capsys.readouterr().err
    assert "similarity train needs the package" in error
    assert "pip install" in error
