"""A study of people from Python, and its purge: people and pictures are gone, and the figures stay."""

import json
from datetime import date
from pathlib import Path

import pytest

import privsieve as api
from ingest.errors import LabelsError
from tests.jobs.made import privsieve
from tests.jobs.releases import files
from tests.reviewing.made import Person
from tests.similarity.made import folder

Capture = pytest.CaptureFixture[str]


def answered(address: str, name: str, answers: list[str]) -> None:
    """A person who gives these answers, one after the other: the first candidate, or none."""
    person, left = Person(address, name), [*answers]
    while left:
        shown = person.get("/api/next").json["questions"]
        for number in [question["number"] for question in shown][: len(left)]:
            person.get(f"/api/picture/{number}/0")
            answer = left.pop(0)
            body = {"number": number, "answer": answer, "seconds": 2} | ({"place": 1} if answer == "candidate" else {})
            assert person.post("/api/answer", body).status == 200


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """Ana chooses the only original in each of 3 pairs, ben in one of them, and a file has their votes."""
    photos, out = folder(tmp_path / "photos", 3), tmp_path / "study"
    with api.similarity_ask(photos, out, methods=["invert=1"], asked="pairs", decoys=0) as page:
        answered(page.address, "annasmith", ["candidate"] * 3)
        answered(page.address, "benjones", ["candidate", "none", "none"])
        result = page.result()
    assert (result.num_saved, [person.name for person in result.people]) == (6, ["annasmith", "benjones"])
    api.similarity_votes(out, out=out / "votes.csv", min_votes=2)
    return out


def test_votes_from_python_are_those_of_the_command(study: Path, tmp_path: Path, capsys: Capture) -> None:
    votes = api.similarity_votes(study, min_votes=2)
    [of_set] = votes.sets
    assert (of_set.name, of_set.num_recognised, of_set.num_tied, of_set.num_pairs) == ("invert=1", 1, 2, 3)
    assert [(person.name, person.num_votes) for person in votes.people] == [("annasmith", 3), ("benjones", 3)]
    capsys.readouterr()
    assert privsieve("similarity", "votes", study, "--min-votes", 2, "--format", "json") == 0
    assert json.loads(capsys.readouterr().out)["sets"][0]["num_tied"] == 2
    with pytest.raises(LabelsError, match="no pair has 5 votes; see --min-votes"):
        api.similarity_votes(study, out=tmp_path / "few.csv")
    assert not (tmp_path / "few.csv").exists()


def test_a_purged_study_keeps_its_figures_and_names_nobody(study: Path, capsys: Capture) -> None:
    (study / "my notes.txt").write_text("mine")
    (study / "others.csv").write_text("a,b\n")
    before = files(study)
    capsys.readouterr()
    assert privsieve("purge", study) == 0
    assert capsys.readouterr().out == (
        "  would be deleted  votes  1 file\n"
        "  would be deleted  shown  1 file\n"
        "  would be deleted  answers  1 file\n"
        "  would be deleted  questions.parquet  1 file\n"
        "  not of privsieve, so it stays: my notes.txt\n"
        "  not of privsieve, so it stays: others.csv\n"
        "nothing is deleted; --yes does it, and the study cannot be read then\n"
    )
    assert files(study) == before
    assert privsieve("purge", study, "--yes") == 0
    assert capsys.readouterr().out.endswith("its figures are in figures/votes.json, the record is purged.json\n")
    after = files(study)
    assert set(after) == {"figures/votes.json", "purged.json", "my notes.txt", "others.csv"}
    assert not any(name in content for content in after.values() for name in (b"annasmith", b"benjones", b"a/0"))
    figures = json.loads(after["figures/votes.json"])
    assert figures["sets"] == [
        {
            **{"name": "invert=1", "num_recognised": 1, "num_not": 0, "num_tied": 2, "num_few": 0, "num_without": 0},
            "pairs": [
                {"num_votes": 2, "num_recognising": 1, "num_pairs": 2},
                {"num_votes": 2, "num_recognising": 2, "num_pairs": 1},
            ],
        }
    ]
    assert [person["num_votes"] for person in figures["people"]] == [3, 3]
    record = json.loads(after["purged.json"])
    assert record["deleted"] == {"votes": 1, "shown": 1, "answers": 1, "questions.parquet": 1}
    assert (record["on"], list(record["figures"])) == (date.today().isoformat(), ["figures/votes.json"])
    assert privsieve("purge", study, "--yes") == 0
    assert capsys.readouterr().out.endswith(f"{study} was purged on {date.today().isoformat()}\n")


def test_no_command_goes_on_with_a_purged_study(study: Path, capsys: Capture) -> None:
    assert privsieve("purge", study, "--yes", "--quiet") == 0
    left = files(study)
    ask = ("similarity", "ask", study.parent / "photos", "--method", "invert=1", "--for", "pairs", "--out", study)
    for command in (("similarity", "votes", study), ask):
        capsys.readouterr()
        assert privsieve(*command) == 2
        line = f"{study} was purged: only its figures are left, in figures/; begin another study\n"
        assert capsys.readouterr().err.endswith(line)
    assert files(study) == left


def test_what_an_interrupted_purge_of_a_study_left_goes_with_the_next_one(study: Path) -> None:
    before = files(study)
    assert privsieve("purge", study, "--yes", "--quiet") == 0
    whole = files(study)
    name = next(name for name in before if name.startswith("answers-"))
    for left in (name, f"{name}.0123abcd.part"):
        (study / left).write_bytes(before[name])
        assert privsieve("purge", study, "--yes", "--quiet") == 0
        assert files(study) == whole
