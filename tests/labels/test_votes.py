"""Votes of four classes: what is private follows from them, in files, in a consensus, and in Label Studio."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from ingest.errors import LabelsError
from scoring.labels.consensus import consensus
from scoring.labels.judgements import judgements
from scoring.labels.table import read_labels, to_labels
from tests.jobs.made import privsieve
from tests.making import Capture
from tests.reviewing.made import Person, run_of, served
from tests.tuning_sets.made import files

FOUR = ["clearly private", "private", "public", "clearly public"]


def test_a_vote_says_whether_a_picture_is_private(tmp_path: Path) -> None:
    lines = [f"{number}.jpg,{vote}" for number, vote in enumerate([*FOUR, ""])]
    (tmp_path / "l.csv").write_text("\n".join(["key,vote", *lines]) + "\n")
    read = read_labels(str(tmp_path / "l.csv"))
    assert read["vote"].to_pylist() == [*FOUR, None]
    assert read["private"].to_pylist() == [1, 1, 0, 0, None]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1,clearly public", 'row 2: "vote" and "private" contradict each other'),
        (",Jane Roe", 'row 2: "vote" is none of clearly private, private, public, clearly public'),
    ],
)
def test_a_vote_that_is_none_or_contradicts_private_is_refused(tmp_path: Path, line: str, message: str) -> None:
    (tmp_path / "l.csv").write_text(f"key,private,vote\na.jpg,1,private\nb.jpg,{line}\n")
    with pytest.raises(LabelsError) as refused:
        read_labels(str(tmp_path / "l.csv"))
    assert message in str(refused.value)
    assert "Jane" not in str(refused.value)


def _votes(*pictures: list[str | None]) -> list[tuple[str, pa.Table]]:
    keys = [f"{number}.jpg" for number in range(len(pictures))]
    people = zip(*pictures, strict=True)
    return [
        (name, to_labels({"key": keys, "annotator": [name] * len(keys), "vote": votes}, len(keys)))
        for name, votes in zip("abcde", people, strict=False)
    ]


def test_the_majority_of_votes_is_that_of_the_two_sides() -> None:
    tables = _votes(
        ["clearly public", "clearly public", "private", "clearly private", "clearly private"],
        ["clearly private", "private", "public", None, "public"],  # two against two
        ["clearly private", "private", "clearly public", None, None],  # private, but how clearly is a tie
        ["clearly public", "clearly public", "public", "private", "private"],
    )
    joined = consensus(judgements(tables), "majority").labels
    assert joined["private"].to_pylist() == [1, None, 1, 0]
    assert joined["vote"].to_pylist() == ["clearly private", None, None, "clearly public"]
    of_two = consensus(judgements(_votes(["private", "private"], ["private", "clearly private"]))).labels
    assert of_two["vote"].to_pylist() == ["private", None]
    assert of_two["private"].to_pylist() == [1, 1]


def test_votes_come_back_from_label_studio(tmp_path: Path, capsys: Capture) -> None:
    def answered(**answers: str) -> Path:
        results = [{"from_name": name, "value": {"choices": [answer]}} for name, answer in answers.items()]
        task = {"data": {"key": "a.jpg"}, "annotations": [{"completed_by": 7, "result": results}]}
        (tmp_path / "tasks.json").write_text(json.dumps([task]))
        return tmp_path / "tasks.json"

    out = tmp_path / "l.parquet"
    assert privsieve("labels", "import", "label-studio", answered(vote="private"), "--out", out) == 0
    assert [(row["vote"], row["private"]) for row in read_labels(str(out)).to_pylist()] == [("private", 1)]
    wrong = answered(vote="private", private="public")
    assert privsieve("labels", "import", "label-studio", wrong, "--out", tmp_path / "no.parquet") == 2
    assert 'the answers to "private" and "vote" contradict each other' in capsys.readouterr().err


def test_people_vote_in_a_review(tmp_path: Path) -> None:
    run = run_of(tmp_path, files(3))
    with served(run, reviewer="ana", judged="votes") as server:
        ana = Person(server.address)
        assert list(ana.get("/api/state").json["choices"]) == FOUR
        first, second, third = ana.next()
        assert ana.say(first, "vote", choice="clearly private").status == 200
        assert ana.say(second, "vote", choice="public").status == 200
        for answer, more in (
            ("private", {}),
            ("vote", {}),
            ("vote", {"choice": "secret"}),
            ("unclear", {"choice": "public"}),
        ):
            assert ana.say(third, answer, **more).status == 400
        hashes = server.page.asking.hashes
        assert ana.next() == [third]
    labels = {row["sha256"]: (row["vote"], row["private"]) for row in read_labels(str(run / "reviews")).to_pylist()}
    assert labels == {hashes[first]: ("clearly private", 1), hashes[second]: ("public", 0)}
    with served(run, reviewer="ana") as server:  # whether a picture is private is another question
        assert len(Person(server.address).next()) == 3
