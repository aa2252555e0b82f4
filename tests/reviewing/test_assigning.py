"""`review --assign`: everybody is asked about as many pictures, and every picture goes to nearly as many people."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from ingest.errors import LabelsError, PrivsieveError
from jobs.serving.review.queue import assignment, people_of
from jobs.serving.review.reviewing import ReviewRequest, result_of
from scoring.labels.table import LabelsOrigin, read_labels, to_labels, write_labels
from scoring.privacy import PRIVATE_CLASSES
from scoring.taxonomy import ATTRIBUTES, KEYS
from tests.jobs.made import privsieve
from tests.reviewing.made import EVERY, Person, run_of, served
from tests.tuning_sets.made import files


def _hashes(count: int) -> list[str]:
    return [f"{number:064x}" for number in range(count)]


def _people(count: int) -> list[str]:
    return [f"person {number}" for number in range(count)]


def _names(path: Path, *lines: str) -> str:
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def _asked(given: dict[str, frozenset[str]], of: Sequence[str]) -> Counter[str]:
    return Counter(sha256 for pictures in given.values() for sha256 in pictures if sha256 in of)


def test_the_human_study_of_the_paper_65_pictures_17_people_10_each() -> None:
    hashes = _hashes(65)
    levels = [1] * 20 + [2] * 15 + [3] * 15 + [4] * 10 + [None] * 5
    given = assignment(_people(17), hashes, levels, 10, seed=0)
    assert {len(pictures) for pictures in given.values()} == {10}
    # 170 answers: 40 pictures go to three people, 25 to two.
    assert Counter(_asked(given, hashes).values()) == {3: 40, 2: 25}
    for start, end in ((0, 20), (20, 35), (35, 50), (50, 60)):
        of_level = hashes[start:end]
        per_person = [len(pictures & set(of_level)) for pictures in given.values()]
        assert max(per_person) - min(per_person) <= 2
        assert 2 * len(of_level) <= _asked(given, of_level).total() <= 3 * len(of_level)


@pytest.mark.parametrize(
    ("num_people", "num_pictures", "per_person"), [(1, 5, 5), (5, 5, 5), (3, 7, 5), (17, 3, 3), (4, 50, 13), (7, 9, 8)]
)
def test_nobody_is_asked_twice_and_no_picture_is_left_out(num_people: int, num_pictures: int, per_person: int) -> None:
    hashes, levels = _hashes(num_pictures), [number % 4 for number in range(num_pictures)]
    for seed in range(20):
        given = assignment(_people(num_people), hashes, levels, per_person, seed)
        assert {len(pictures) for pictures in given.values()} == {per_person}
        times = _asked(given, hashes)
        assert set(times) == set(hashes)
        assert max(times.values()) - min(times.values()) <= 1
        backwards = assignment(_people(num_people), hashes[::-1], levels[::-1], per_person, seed)
        assert backwards == given


@pytest.mark.parametrize(
    ("per_person", "message"),
    [
        (6, "--per-person 6 is more than the 5 pictures of the queue"),
        (2, "--per-person 2 times 2 of --assign makes 4 answers, fewer than the 5 pictures of the queue"),
    ],
)
def test_numbers_that_cannot_be_dealt_are_refused(per_person: int, message: str) -> None:
    with pytest.raises(LabelsError) as refused:
        assignment(["ana", "ben"], _hashes(5), [1] * 5, per_person, 0)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["ana", "ben"], "line 1: the first line must be the one column name"),
        (["name"], "names no person"),
        (["name", "ana", "Jane Roe", "ana"], "line 4: gives more than a name, or a name that an earlier line has"),
        (["name", "Jane Roe,3"], "line 2: gives more than a name"),
        (["name", " "], "1 to 80 printable characters"),
    ],
)
def test_a_wrong_list_of_people_is_refused_and_names_nobody(tmp_path: Path, lines: list[str], message: str) -> None:
    with pytest.raises(PrivsieveError) as refused:
        people_of(_names(tmp_path / "people.csv", *lines))
    assert message in str(refused.value)
    assert "Jane" not in str(refused.value)


@pytest.mark.slow
def test_each_person_is_asked_their_pictures_only_and_gold_ones(tmp_path: Path) -> None:
    run = run_of(tmp_path, files(6))
    people = _names(tmp_path / "people.csv", "name", "ana", "ben")
    with served(run, assign=people, per_person=3) as server:
        ana, ben = Person(server.address, "ana"), Person(server.address, "ben")
        assert ana.get("/api/state").json["total"] == 3
        assert sorted(ana.next() + ben.next()) == list(range(6))
        assert ana.say(ben.next()[0], "private").status == 400
        stranger = Person(server.address)
        refused = stranger.post("/api/name", {"name": "cy"})
        assert (refused.status, "not in the list" in refused.json["error"]) == (400, True)
        assert stranger.get("/api/next").status != 200
        assert ana.say_all("private") == 3
        (tally,) = result_of(server.page).people
        assert tally.in_words == "all 3 pictures answered"
    with served(run, assign=people, per_person=3) as server:  # the same again
        assert Person(server.address, "ana").next() == []
        hashes = server.page.asking.hashes
    gold = to_labels({"sha256": hashes[:2], "annotator": ["known"] * 2, "private": [1, 0]}, 2)
    write_labels(gold, str(tmp_path / "gold.parquet"), LabelsOrigin("known"))
    with served(run, assign=people, per_person=3, gold=str(tmp_path / "gold.parquet")) as server:
        assert {0, 1} <= set(Person(server.address, "ben").next())


def test_who_is_not_in_the_list_does_not_begin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = run_of(tmp_path, files(2))
    people = _names(tmp_path / "people.csv", "name", "ana")
    assert privsieve("review", run, "--queue", EVERY, "--assign", people, "--per-person", 2, "--as", "ben") != 0
    assert "this name is not in the list of --assign" in capsys.readouterr().err
    with pytest.raises(PrivsieveError, match="belong together"):
        ReviewRequest(run=str(run), assign=people)


def test_the_page_has_the_definition_of_what_is_asked_and_no_other(tmp_path: Path) -> None:
    run = run_of(tmp_path, files(2))

    def rules(judged: str) -> dict[str, str]:
        with served(run, reviewer="ana", judged=judged) as server:
            return dict(Person(server.address).get("/api/state").json["rules"])

    assert set(rules("private")) == {one.title for one in ATTRIBUTES if one.level in (1, 2)}
    assert list(rules("classes")) == list(PRIVATE_CLASSES)
    assert rules("classes")["fingerprint"] == "a fingerprint from near, with visible ridges (GDPR: Art. 4, 9)"
    assert rules("votes") == {}
    assert len(rules("attributes")) == len(KEYS)
    assert rules("attributes")["Government IDs"].endswith("(GDPR: Art. 4(1), Art. 87)")
    assert rules("attributes")["Age"].endswith("(GDPR: not mapped)")


def test_a_class_of_privbench_says_whether_a_picture_is_private(tmp_path: Path) -> None:
    run = run_of(tmp_path, files(2))
    with served(run, reviewer="ana", judged="classes") as server:
        ana = Person(server.address)
        assert [ana.say(0, "class", choice="passport").status, ana.say(1, "class", choice="public").status] == [200] * 2
        refused = [
            ana.say(0, "class").status,
            ana.say(0, "private").status,
            ana.say(0, "class", choice="private").status,
        ]
        assert refused == [400] * 3
    labels = read_labels(str(run / "reviews"))
    assert sorted(zip(labels["class"].to_pylist(), labels["private"].to_pylist(), strict=True)) == [
        ("passport", 1),
        ("public", 0),
    ]
