"""screen fit, on planted captions."""

import csv
import hashlib
import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ingest.errors import LabelsError, NoFeaturesError
from jobs.console.requests import asked
from jobs.runtime.progress import on_terminal
from jobs.screening.fitting import FitResult, labelled_pictures, run_screen_fit
from jobs.screening.request import FitRequest
from privsieve import screen_fit
from reports.screening.bounds import miss_high
from scoring.screen.modalities import Features, PictureView
from scoring.screen.model import Screener
from scoring.screen.screen_file import read_screen
from tests.jobs.made import privsieve, tar
from tests.making import Capture, Folders
from tests.scoring.test_screen import averaging_model
from tests.screens import planted_corpus, write_labels

TARGET = 0.05
"""59 labelled private pictures prove it at 95 % confidence."""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: Folders) -> Path:
    folder = tmp_path_factory.mktemp("screen")
    write_labels(
        folder / "labels.csv", planted_corpus(folder / "shards", 200, 400, 1, noise=0.02, without_caption=0.05)
    )
    return folder


def _asked(corpus: Path, **more: object) -> FitRequest:
    given: dict[str, Any] = {
        "source": str(corpus / "shards"),
        "labels": str(corpus / "labels.csv"),
        "out": str(corpus / "screen"),
        "target_miss": TARGET,
        "modality": ("caption",),
    }
    return asked(FitRequest, given | more)


@pytest.fixture(scope="module")
def fitted(corpus: Path) -> FitResult:
    return run_screen_fit(_asked(corpus))


def test_a_screen_says_what_its_labels_prove(fitted: FitResult) -> None:
    record = fitted.screen.record
    assert fitted.num_labelled == 600
    assert record.bound.num_private == 100
    assert record.bound.miss_high <= TARGET
    assert record.bound.miss_high == miss_high(1, 100, 0.95)  # 100 private pictures allow one to be missed
    assert record.labelled.num_private == 100
    assert 0.2 < record.labelled.num_screened / record.labelled.num_pictures < 0.7
    assert record.levels == ()  # the labels give no attributes


def test_python_gives_what_the_command_writes(corpus: Path, fitted: FitResult, tmp_path: Path) -> None:
    made = screen_fit(
        corpus / "shards", corpus / "labels.csv", tmp_path / "screen", target_miss=TARGET, modality=["caption"]
    )
    assert made.screen.record == fitted.screen.record


def test_level_1_has_a_bound_of_its_own_if_asked(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(Exception, match="level 1 that the screen has not learnt from; there are 0 such pictures"):
        run_screen_fit(_asked(corpus, out=str(tmp_path / "x"), target_miss_level_1=0.05))


def test_pictures_that_people_could_not_decide_lower_the_threshold(
    corpus: Path, fitted: FitResult, tmp_path: Path
) -> None:
    """They may be private, and the screen must not leave out too many of these."""
    rows = list(csv.DictReader((corpus / "labels.csv").open()))
    public = [row["sha256"] for row in rows if row["private"] == "0"][:120]
    with (tmp_path / "two.csv").open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["sha256", "annotator", "private"])
        for row in rows:
            writer.writerow([row["sha256"], "ana", row["private"]])
            writer.writerow([row["sha256"], "ben", "1" if row["sha256"] in public else row["private"]])
    result = run_screen_fit(_asked(corpus, labels=str(tmp_path / "two.csv"), out=str(tmp_path / "screen")))
    before, now = fitted.screen.record, result.screen.record
    assert now.bound.threshold < before.bound.threshold
    assert now.bound.num_private > before.bound.num_private


def test_a_label_of_no_picture_of_the_corpus_is_said(corpus: Path, tmp_path: Path) -> None:
    labels = write_labels(tmp_path / "labels.csv", {f"{number:064x}": True for number in range(200)})
    with pytest.raises(Exception, match=r"no label of .* is of a picture of"):
        run_screen_fit(_asked(corpus, labels=str(labels), out=str(tmp_path / "x")))


def test_a_corpus_without_captions_is_no_corpus_for_a_screen_of_captions(corpus: Path, tmp_path: Path) -> None:
    for shard in (corpus / "shards").glob("*.tar"):
        with tarfile.open(shard) as tar:
            tar.extractall(tmp_path / "pictures", [each for each in tar if each.name.endswith(".png")], filter="data")
    with pytest.raises(LabelsError, match=r"private pictures to learn from that have a caption; there are 0; leave"):
        run_screen_fit(_asked(corpus, source=str(tmp_path / "pictures"), out=str(tmp_path / "screen")))


def test_labels_that_are_not_used_are_counted(corpus: Path, tmp_path: Path, capsys: Capture) -> None:
    broken = b"\xff\xd8 is no picture"
    shutil.copytree(corpus / "shards", tmp_path / "shards", dirs_exist_ok=True, ignore=lambda *_: ["00000.tar"])
    tar(tmp_path / "shards" / "00000.tar", {"a.jpg": broken, "b.jpg": broken})
    labels = (corpus / "labels.csv").read_text() + f"{hashlib.sha256(broken).hexdigest()},1\n{'ab' * 32},0\n"
    (tmp_path / "labels.csv").write_text(labels)
    arguments = ("--labels", tmp_path / "labels.csv", "--modality", "caption", "--target-miss", "0.3", "--quiet")
    assert privsieve("screen", "fit", tmp_path / "shards", *arguments, "--out", tmp_path / "screen") == 0
    said = capsys.readouterr().err
    assert "labels that are not used: 1 unreadable" in said
    assert "labels that are not used: 201 of no picture of the corpus" in said


class FailsOnBridges:
    """A look at pictures that fails on those whose caption names a bridge."""

    length = 1

    def features(self, picture: PictureView) -> Features:
        if "bridge" in (picture.view.caption or ""):
            raise NoFeaturesError("a detector failed (RuntimeError)")
        return Features(np.ones(1, np.float32))


def test_a_picture_on_which_a_look_fails_is_left_out_and_counted(corpus: Path, capsys: Capture) -> None:
    usable, _ = labelled_pictures(_asked(corpus).look, {"caption": FailsOnBridges()}, on_terminal(quiet=True))
    num_left = 600 - len(usable)
    assert 0 < num_left < 300
    why = "of a picture without features: a detector failed (RuntimeError)"
    assert f"labels that are not used: {num_left} {why}" in capsys.readouterr().err


def test_an_encoder_and_captions_are_two_predictors_that_are_fused(
    corpus: Path, tmp_path: Path, capsys: Capture
) -> None:
    (tmp_path / "objects.onnx").write_bytes(averaging_model())
    screen, labels = tmp_path / "screen", ("--labels", corpus / "labels.csv")
    fit = ("screen", "fit", corpus / "shards", *labels, "--target-miss", TARGET, "--encoder", tmp_path / "objects.onnx")
    capsys.readouterr()
    seen = ("--modality", "caption", "--modality", "encoder")
    assert privsieve(*fit, *seen, "--out", screen, "--format", "json", "--quiet") == 0
    taken = {each["name"]: each["is_taken"] for each in json.loads(capsys.readouterr().out)["tried"]}
    assert list(taken) == ["caption", "encoder", "mean", "gate"]
    assert taken["caption"]
    assert taken["encoder"]
    assert taken["mean"] is not taken["gate"]
    fitted = read_screen(str(screen))
    assert [modality.name for modality in fitted.record.modalities] == ["caption", "encoder"]
    assert (screen / "encoder.onnx").read_bytes() == averaging_model()
    Screener(fitted)  # as in a scan: the encoder gives as many features as it was fitted with


@pytest.mark.parametrize(
    ("content", "error"),
    [
        (b"", "is empty; download the model again"),
        (
            f"version https://git-lfs.github.com/spec/v1\noid sha256:{'a' * 64}\nsize 123\n".encode(),
            "is only the pointer of Git LFS to the file; download the file with: git",
        ),
    ],
    ids=["empty", "Git LFS"],
)
def test_an_encoder_that_was_not_downloaded_is_one_line(
    corpus: Path, tmp_path: Path, content: bytes, error: str, capsys: Capture
) -> None:
    (tmp_path / "a.onnx").write_bytes(content)
    given = ("--labels", corpus / "labels.csv", "--encoder", tmp_path / "a.onnx", "--out", tmp_path / "screen")
    assert privsieve("screen", "fit", corpus / "shards", *given, "--quiet") == 2
    said = capsys.readouterr().err
    assert error in said
    assert said.count("\n") == 1
    assert not (tmp_path / "screen").exists()
