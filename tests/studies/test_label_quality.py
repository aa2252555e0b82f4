"""`study label-quality`: people label drawn pictures again; how right were the labels?"""

import json
from pathlib import Path

import pytest

from scoring.labels.table import LabelsOrigin, read_labels, to_labels, write_labels
from tests.jobs.made import privsieve
from tests.studies.made import labels

PRIVATE = [number % 2 for number in range(60)]
PEOPLE = ("anna", "ben", "cem", "dora", "emil")


def answers(file: Path, person: str, said: dict[str, int | None]) -> Path:
    columns: dict[str, list[object]] = {"key": [*said], "private": [*said.values()], "annotator": [person] * len(said)}
    write_labels(to_labels(columns, len(said)), str(file), LabelsOrigin("test"))
    return file


def test_drawn_pictures_are_balanced_and_their_labels_withheld(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = labels(tmp_path / "labels.parquet", PRIVATE), tmp_path / "drawn.parquet"
    assert privsieve("study", "label-quality", file, "--out", out) == 0
    assert capsys.readouterr().out.splitlines() == [
        "50 pictures drawn, half of them private, without their labels.",
        f"next: privsieve labels export {out} --format label-studio --out tasks.json",
    ]
    drawn = read_labels(str(out))
    numbers = [int(key.removesuffix(".jpg")) for key in drawn["key"].to_pylist()]
    assert sum(number % 2 for number in numbers) == 25
    assert numbers != sorted(numbers)
    assert drawn["private"].null_count == drawn["class"].null_count == 50
    again = tmp_path / "again.parquet"
    assert privsieve("study", "label-quality", file, "--out", again) == 0
    assert read_labels(str(again)).equals(drawn), "the same seed draws the same pictures"


def test_accuracy_is_against_what_at_least_three_people_say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = labels(tmp_path / "labels.parquet", PRIVATE), tmp_path / "drawn.parquet"
    assert privsieve("study", "label-quality", file, "--out", out, "--n", 10) == 0
    keys = read_labels(str(out))["key"].to_pylist()
    truth = {key: int(key.removesuffix(".jpg")) % 2 for key in keys}
    private = [key for key in keys if truth[key]]
    public = [key for key in keys if not truth[key]]
    files: list[object] = []
    for number, person in enumerate(PEOPLE):
        said: dict[str, int | None] = dict(truth)
        said[private[0]] = 0  # all say that the label is wrong
        said[public[0]] = 1 if number < 3 else 0  # three of five say so
        said[public[1]] = 1 if number < 2 else 0  # two of five do not count
        said[public[2]] = (1, 0, 1, 0, None)[number]  # no majority
        files += ["--answers", answers(tmp_path / f"{person}.parquet", person, said)]
    capsys.readouterr()
    assert privsieve("study", "label-quality", file, "--out", out, *files, "--format", "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["reviewers"] == list(PEOPLE)
    assert (found["num_drawn"], found["num_judged"], found["num_right"]) == (20, 19, 17)
    assert (found["num_private_wrong"], found["num_public_wrong"]) == (1, 1)
    assert found["accuracy"] == pytest.approx(17 / 19)
    assert found["accuracy_interval"]["low"] == pytest.approx(0.6686, abs=1e-4), "Clopper and Pearson"
    assert 0.7 < found["fleiss"] < 1
    assert privsieve("study", "label-quality", file, "--out", out, *files) == 0
    assert capsys.readouterr().out.splitlines()[:2] == [
        "People confirm the label of 17 of 19 pictures, 89.5 % (95 %: 66.9 % to 98.7 %).",
        "wrong: 1 labelled private, 1 labelled public; of 1 drawn pictures too few people say the same",
    ]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--n", 31], "has 30 private pictures; the study draws 31 of each side: give a smaller --n"),
        (["--answers", "x.csv"], "is not there yet; draw first, without --answers"),
    ],
)
def test_a_draw_that_is_not_possible_is_one_line(
    options: list[object], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = labels(tmp_path / "labels.parquet", PRIVATE)
    assert privsieve("study", "label-quality", file, "--out", tmp_path / "drawn.parquet", *options) != 0
    shown = capsys.readouterr().err.splitlines()
    assert len(shown) == 1
    assert message in shown[0]
    assert not (tmp_path / "drawn.parquet").exists()


def test_labels_of_several_people_are_refused_before_anything_is_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "key,annotator,private\n" + "".join(f"{key},{who},{key % 2}\n" for key in range(8) for who in ("ana", "ben"))
    (tmp_path / "labels.csv").write_text(text)
    out = tmp_path / "drawn.csv"
    assert privsieve("study", "label-quality", tmp_path / "labels.csv", "--n", 2, "--out", out) == 2
    assert "privsieve labels consensus" in capsys.readouterr().err
    assert not out.exists()
